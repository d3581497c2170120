"""Approximate quotients whose divisor several elements share."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.builder import F32, Builder, arg, pointer
from tileir.executor import executor
from tileir.ir import Module


def division(block: int, shared: bool) -> Module:
    """`divided(z, x, y)`: z [block] = x [block] / y, y being one number or as many."""
    b = Builder()
    data = arg(pointer(F32), aligned=16)
    with b.kernel("divided", z=data, x=data, y=data) as (z, x, y):
        at = b.arange(block)
        divisor = b.splat(y.load(), to=(x + at).load().type) if shared else (y + at).load()
        (z + at).store(b.fdiv((x + at).load(), divisor, fast="approx"))
    return b.module()


def test_a_shared_divisor_is_inverted_once() -> None:
    shared, own = (
        compile_(division(512, each), "sm_90a", {"num_warps": 1}) for each in (True, False)
    )
    assert shared.ptx.count("rcp.approx.ftz.f32") == 1 and "div.full" not in shared.ptx
    assert own.ptx.count("div.full.f32") == 16 and "rcp" not in own.ptx


def by_constant(y: float) -> Module:
    """z [128] = x [128] / y."""
    b = Builder()
    data = arg(pointer(F32), aligned=16)
    with b.kernel("divided", z=data, x=data) as (z, x):
        at = b.arange(128)
        value = (x + at).load()
        (z + at).store(b.fdiv(value, b.constant(value.type, y), fast="approx"))
    return b.module()


@pytest.mark.parametrize("y", [30.0, -1.7, 2.0**-126, 2.0**126, 3e38, 1e-40])
def test_a_constant_is_inverted_by_the_compiler(y: float) -> None:
    """Within 1.5 units in the last place; in the kernel, if it has no normal inverse."""
    ptx = compile_(by_constant(y), "sm_90a", {"num_warps": 4}).ptx
    assert ("div.full" not in ptx and "rcp" not in ptx) == (2.0**-126 <= abs(y) <= 2.0**126)
    x = np.random.default_rng(0).standard_normal(128).astype(np.float32) * np.float32(min(y, 1))
    z, divisor = np.zeros(128, np.float32), np.float32(y)
    SimtExecutor().launch(by_constant(y), None, (1, 1, 1), [z, x], target="sm_90a")
    np.testing.assert_array_max_ulp(z, x / divisor, 2)


def test_quotients_of_all_sizes() -> None:
    """Two units in the last place (PTX ISA, div.full), for subnormal and large divisors as well."""
    numbers = np.random.default_rng(0)
    sizes = 2.0 ** np.array([-149, -140, -127, -126, -60, 0, 60, 125, 126, 127])
    for y in (*sizes, *(-1.99 * sizes), 0.0, np.inf, np.nan):
        x = numbers.standard_normal(512) * min(abs(y), 2.0**100) if np.isfinite(y) else sizes
        x = np.resize(x, 512).astype(np.float32)
        z, divisor = np.zeros(512, np.float32), np.array([y], np.float32)
        SimtExecutor().launch(
            division(512, True), None, (1, 1, 1), [z, x, divisor], target="sm_90a"
        )
        with np.errstate(all="ignore"):
            expected = x / divisor
        np.testing.assert_array_max_ulp(
            *(np.nan_to_num(each, nan=7.0, posinf=8.0, neginf=9.0) for each in (z, expected)), 2
        )


def test_a_cpu_rounds_quotients_once() -> None:
    """Conversions to narrow types see ties: 448 x / max(x) of bf16 often is between two f8e4m3."""
    numbers = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    divisor, z = np.abs(numbers).max(keepdims=True) / np.float32(448), np.zeros_like(numbers)
    executor("cpu").launch(division(512, True), None, (1, 1, 1), [z, numbers, divisor])
    np.testing.assert_array_equal(z, numbers / divisor)
