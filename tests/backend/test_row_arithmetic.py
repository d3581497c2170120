"""What reductions of rows and clamps make of float arithmetic around them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tileir import interpret
from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F16, F32, Builder, arg, pointer
from tileir.executor import executor
from tileir.ir import Module


def sum_of_squares(fast: str) -> Module:
    """`k(x, y)`: y [1] = the sum of x^2 for 512 elements, by one warp."""
    b = Builder()
    data = arg(pointer(F32), aligned=16)
    with b.kernel("k", x=data, y=data) as (x, y):
        values = (x + b.arange(512)).load()
        y.store(b.fmul(values, values, fast=fast).sum(axis=0))
    return b.module()


def test_a_sum_uses_fused_multiply_adds_where_its_multiplications_permit_it() -> None:
    """A thread adds 16 squares in chains of 4, each of which begins with a multiplication."""
    fused, unfused = (
        compile_(sum_of_squares(fast), "sm_90a", {"num_warps": 1}).ptx
        for fast in ("contract", "none")
    )
    assert (fused.count("fma.rn.f32"), len(re.findall(r"mul\.(?:rn\.)?f32", fused))) == (12, 4)
    assert (unfused.count("fma.rn.f32"), len(re.findall(r"mul\.(?:rn\.)?f32", unfused))) == (0, 16)


@pytest.mark.parametrize("on", ["simt", "cpu"])
def test_sums_of_squares_are_those_of_the_interpreter(on: str) -> None:
    x = np.random.default_rng(0).integers(-9, 10, 512).astype(np.float32)
    y = np.zeros(1, np.float32)
    executor(on).launch(sum_of_squares("contract"), None, (1, 1, 1), [x, y])
    assert y[0] == np.sum(x * x)


def largest(element, name: str, rearranged: bool) -> Module:
    """`k(x, y)`: y [1] = the extreme of the magnitudes of 512 extended elements."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(element), aligned=16), y=pointer(F32)) as (x, y):
        wide = b.fabs((x + b.arange(512)).load()).to(F32)
        rows = wide.reshape(16, 32) if rearranged else wide
        for _ in range(2 if rearranged else 1):
            rows = b.reduce(rows, axis=0, combiner=name)
        y.store(rows)
    return b.module()


@pytest.mark.parametrize("rearranged", [False, True])
@pytest.mark.parametrize(("element", "word"), [(BF16, "bf16"), (F16, "f16")])
def test_the_largest_is_found_before_numbers_are_extended(element, word, rearranged) -> None:
    """One per thread, or per column of one, is extended, and compared over lanes."""
    ptx = compile_(largest(element, "fmaxnum", rearranged), "sm_90a", {"num_warps": 1}).ptx
    assert len(re.findall(rf"\bmax\.{word}", ptx)) == (8 if rearranged else 15)
    assert rearranged or len(re.findall(r"\bmax\.f32", ptx)) == 5


@pytest.mark.parametrize("name", ["fmaxnum", "fminnum", "fmaximum", "fminimum"])
def test_extremes_of_extended_numbers_are_those_of_the_interpreter(name: str) -> None:
    x = np.random.default_rng(1).standard_normal(512).astype(bfloat16)
    x[[5, 90]] = np.nan, -np.inf
    results = []
    for launch in (interpret, SimtExecutor().launch):
        y = np.zeros(1, np.float32)
        launch(largest(BF16, name, False), "k", 1, [x, y])
        results.append(y[0])
    np.testing.assert_array_equal(*results)


def clamp_kernel(limit: float, other: float) -> Module:
    """`k(x, y)`: y [512] = x with the sign of x and a magnitude of at most `limit`, `other` of
    them the number whose sign it is."""
    b = Builder()
    data = arg(pointer(F32), aligned=16)
    with b.kernel("k", x=data, y=data) as (x, y):
        at = b.arange(512)
        value = (x + at).load()
        sign = value if other else b.fneg(value)
        (y + at).store(b.copysign(b.fminnum(b.fabs(value), limit), sign))
    return b.module()


def test_a_clamp_to_both_signs_is_one_instruction() -> None:
    one, two, of_f16 = (
        compile_(clamp_kernel(*arguments), target, {"num_warps": 1}).ptx
        for arguments, target in (
            ((448.0, 1), "sm_90a"),
            ((448.0, 0), "sm_90a"),
            ((448.0, 1), "sm_80"),
        )
    )
    assert one.count("min.xorsign.abs.f32") == 16 and "min.f32" not in one
    assert "xorsign" not in two and "xorsign" not in of_f16


@pytest.mark.parametrize("limit", [448.0, 1e-40, -1.0, np.inf])
def test_clamps_are_those_of_the_interpreter(limit: float) -> None:
    x = np.random.default_rng(2).standard_normal(512).astype(np.float32) * 500
    x[:6] = np.nan, np.inf, -np.inf, 0.0, -0.0, 448.0
    results = []
    for launch in (interpret, SimtExecutor().launch):
        y = np.zeros(512, np.float32)
        launch(clamp_kernel(limit, 1), "k", 1, [x, y])
        results.append(y)
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(*map(np.signbit, results))


def test_log1p_moves_to_the_exponent_without_shifts() -> None:
    """What 1 + x is divided by, a power of 2, is subtracted from the exponent of x."""
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        x.store(b.log1p(x.load()))
    ptx = compile_(b.module(), "sm_90a", {"num_warps": 1}).ptx
    assert "shr" not in ptx and "shl" not in ptx
