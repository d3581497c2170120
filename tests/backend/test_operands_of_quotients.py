"""Operands of dots that are quotients or results of mathematical functions: every warp would
compute the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.layout_algebra import replication
from tileir.types import Tile

OPTIONS = {"num_warps": 4, "warp_specialize": False}
ROWS, COLUMNS = 16, 32


def scaled_matmul(op: str = "fdiv", k: int = 64) -> Any:
    """A times B, in each of `n` steps of `k` the rows of A divided by their sums, or multiplied by
    them, or A as exponents of 2."""
    b = Builder()
    operand, result = (arg(pointer(kind), aligned=16) for kind in (F16, F32))
    with b.kernel("k", x=operand, y=operand, z=result, n=arg(I32)) as (x, y, z, n):
        row, steps, column = b.arange(ROWS), b.arange(k), b.arange(COLUMNS)
        total = b.var(b.full((ROWS, COLUMNS), 0.0, F32))
        with b.for_(0, n, stages=2) as i:
            along = steps + i * k
            left = (x + (row[:, None] * (n * k) + along[None, :])).load().to(F32)
            right = (y + (along[:, None] * COLUMNS + column[None, :])).load()
            sums = left.reduce(1, "fadd")[:, None]
            scaled = left / sums if op == "fdiv" else left * sums
            left = left.exp2() if op == "exp2" else scaled
            total.set(b.dot(left.to(F16), right, total.get()))
        (z + (row[:, None] * COLUMNS + column[None, :])).store(total.get())
    return b.module()


def matmul_of_scaled_groups(op: str = "fdiv", columns: int = 128) -> Any:
    """A times B, in each of `n` steps of 64 rows of B, which has a scale per 16 columns. The scales
    are divided by a number, or multiplied by it."""
    b = Builder()
    operand, result = (arg(pointer(kind), aligned=16) for kind in (F16, F32))
    arrays = {"x": operand, "y": operand, "scales": operand, "z": result}
    with b.kernel("k", **arrays, number=arg(F32), n=arg(I32)) as (x, y, scales, z, number, n):
        k, groups = 64, columns // 16
        row, steps, column = b.arange(ROWS), b.arange(k), b.arange(columns)
        total = b.var(b.full((ROWS, columns), 0.0, F32))
        with b.for_(0, n, stages=2) as i:
            along = steps + i * k
            left = (x + (row[:, None] * (n * k) + along[None, :])).load()
            right = (y + (along[:, None] * columns + column[None, :])).load().to(F32)
            places = along[:, None] * groups + b.arange(groups)[None, :]
            scale = (scales + places).load().to(F32)
            scale = scale / number if op == "fdiv" else scale * number
            right = right.reshape(k, groups, 16) * scale[:, :, None]
            total.set(b.dot(left, right.reshape(k, columns).to(F16), total.get()))
        (z + (row[:, None] * columns + column[None, :])).store(total.get())
    return b.module()


def owners(module: Any, mnemonic: str) -> int:
    """The number of threads that own each element of the result of the op `mnemonic`."""
    function = compile_kernel(module, "sm_90a", OPTIONS).tir_at("barriers").functions["k"]
    (kind,) = (
        op.results[0].type for op in function.ops
        if op.mnemonic == mnemonic and isinstance(op.results[0].type, Tile)
    )  # fmt: skip
    assert isinstance(kind, Tile) and kind.layout is not None
    return replication(kind.layout)


@pytest.mark.parametrize("op", ["fdiv", "exp2"])
def test_one_thread_computes_each_quotient_and_function(op: str) -> None:
    assert owners(scaled_matmul(op), op) == 1


@pytest.mark.parametrize(("op", "k"), [("fmul", 64), ("fdiv", 16), ("exp2", 16)])
def test_few_functions_and_other_operands_are_computed_in_all_warps(op: str, k: int) -> None:
    """A conversion takes longer."""
    assert owners(scaled_matmul(op, k), op) == 4


def test_one_thread_divides_the_scale_of_a_group() -> None:
    """The scale is broadcast after the division."""
    assert owners(matmul_of_scaled_groups(), "fdiv") == 1


@pytest.mark.parametrize(("op", "columns"), [("fmul", 128), ("fdiv", 32)])
def test_multiplied_scales_and_few_quotients_are_computed_in_several_threads(
    op: str, columns: int
) -> None:
    """The scales are the results of `op` that have a column per group."""
    function = compile_kernel(matmul_of_scaled_groups(op, columns), "sm_90a", OPTIONS)
    ops = function.tir_at("barriers").functions["k"].ops
    kinds = [x.results[0].type for x in ops if x.mnemonic == op]
    (scales,) = (k for k in kinds if isinstance(k, Tile) and k.shape[-1] == columns // 16)
    assert scales.layout is not None
    assert replication(scales.layout) > 1


@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_agree_on_scaled_groups(n: int) -> None:
    """All numbers and results are exact."""
    random = np.random.default_rng(n)
    x = random.integers(-3, 4, (ROWS, 64 * n)).astype(np.float16)
    y = random.integers(-3, 4, (64 * n, 128)).astype(np.float16)
    scales = random.choice([1.0, 2.0, 4.0], (64 * n, 8)).astype(np.float16)
    z, module = np.full((ROWS, 128), 77, np.float32), matmul_of_scaled_groups()
    arguments = [x, y, scales, z, 2.0, n]
    results = assert_equal_results(module, arguments, target="sm_90a", **OPTIONS)
    weights = y.astype(np.float32) * np.repeat(scales.astype(np.float32) / 2, 16, axis=1)
    np.testing.assert_array_equal(results[3], x.astype(np.float32) @ weights)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_agree(n: int) -> None:
    """The sums of rows are powers of two."""
    random = np.random.default_rng(n)
    x = np.ones((ROWS, 64 * n), np.float16)
    y = random.integers(-9, 9, (64 * n, COLUMNS)).astype(np.float16)
    z = np.full((ROWS, COLUMNS), 77, np.float32)
    results = assert_equal_results(scaled_matmul(), [x, y, z, n], target="sm_90a", **OPTIONS)
    expected = (x.astype(np.float32) @ y.astype(np.float32)) / 64
    np.testing.assert_array_equal(results[2], expected)


def test_threads_agree_on_exponentials() -> None:
    """Powers of two, whose sums are exact."""
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, (ROWS, 128)).astype(np.float16)
    y = random.integers(-9, 9, (128, COLUMNS)).astype(np.float16)
    z = np.full((ROWS, COLUMNS), 77, np.float32)
    module = scaled_matmul("exp2")
    results = assert_equal_results(module, [x, y, z, 2], target="sm_90a", **OPTIONS)
    expected = np.exp2(x.astype(np.float32)) @ y.astype(np.float32)
    np.testing.assert_array_equal(results[2], expected)
