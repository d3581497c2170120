"""Functions of the elements of a vector that many threads need: whether each thread computes them,
or one thread does and passes the results on."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir import interpret
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.types import Tile

ROWS, COLUMNS = 64, 128
MATRIX = 128, 32
SQUARE = 32


def scale_columns(functions: int, *, dot: bool = True) -> Any:
    """out = x scaled by columns, times y; the scales are `functions` functions of a vector."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    out = pointer(F32)
    with b.kernel("k", x=kind, y=kind, v=pointer(F32), out=out) as (x, y, v, out):
        i, j = b.arange(ROWS), b.arange(COLUMNS)
        scales = (v + j).load()
        for n in range(functions):
            scales = scales.exp2(fast="approx") if n % 2 == 0 else scales.log2(fast="approx")
        tile = (x + i[:, None] * COLUMNS + j[None, :]).load().to(F32) * scales[None, :]
        if dot:
            right = (y + j[:, None] * ROWS + i[None, :]).load()
            total = b.dot(tile.to(F16), right, b.full((ROWS, ROWS), 0.0, F32))
            (out + i[:, None] * ROWS + i[None, :]).store(total)
        else:
            (out + i[:, None] * COLUMNS + j[None, :]).store(tile)
    return b.module()


def count_exponentials(functions: int, **options: Any) -> int:
    """How many exponentials a thread computes."""
    module = scale_columns(functions, **options)
    kernel = compile_kernel(module, "sm_90a", Options(num_warps=4))
    return len(re.findall(r"ex2\.", kernel.ptx))


def test_results_of_many_functions_are_passed_on():
    """One of 128 threads computes each scale. One function is computed by each thread that needs
    it: that takes no longer than an exchange."""
    assert count_exponentials(5) == 3 * 1
    assert count_exponentials(1) > 4


@pytest.mark.parametrize("functions", [1, 5])
def test_threads_agree_with_the_interpreter(functions):
    random = np.random.default_rng(functions)
    x, y = (random.normal(size=s).astype(np.float16) for s in ((ROWS, COLUMNS), (COLUMNS, ROWS)))
    v = random.uniform(-1, 1, COLUMNS).astype(np.float32)
    expected, actual = (np.zeros((ROWS, ROWS), np.float32) for _ in range(2))
    interpret(scale_columns(functions), "k", (1,), [x, y, v, expected])
    SimtExecutor("sm_90a").launch(scale_columns(functions), "k", 1, [x, y, v, actual], num_warps=4)
    np.testing.assert_allclose(actual, expected, rtol=1e-2, atol=1e-2)


def logarithms_of_totals(*, merged: bool) -> Any:
    """The logarithms of totals of powers of rows, for each of `n` groups of matrices: results of
    matrices are added as powers (four functions of a row), or as they are (one function)."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", n=I32, x=kind, y=kind) as (n, x, y):
        row, column = b.arange(MATRIX[0]), b.arange(MATRIX[1])
        at = row[:, None] * MATRIX[1] + column[None, :]
        with b.for_(0, n) as i:
            totals = b.var(b.zeros(MATRIX[0]))
            with b.for_(0, n) as j:
                tile, old = (x + (at + (i * n + j) * MATRIX[0] * MATRIX[1])).load(), totals.get()
                most = tile.max(axis=1)
                powers = (tile - most[:, None]).exp2(fast="approx").sum(axis=1)
                value = most + powers.log2(fast="approx")
                if merged:
                    high = b.maximum(old, value)
                    both = (old - high).exp2(fast="approx") + (value - high).exp2(fast="approx")
                    totals.set(high + both.log2(fast="approx"))
                else:
                    totals.set(old + value)
            (y + (row + i * MATRIX[0])).store(totals.get())
    return b.module()


def functions_of_a_thread(module: Any) -> tuple[int, int]:
    """How many exponentials and logarithms a thread computes for a matrix."""
    ptx = compile_kernel(module, "sm_90a", Options(num_warps=4)).ptx
    return len(re.findall(r"ex2\.", ptx)), len(re.findall(r"lg2\.", ptx))


def test_lanes_that_share_rows_divide_functions_of_the_rows():
    """A thread has 32 elements of a matrix, and 8 lanes share 8 rows. Each of these computes the
    four functions of one row, although a store outside of the loop has every row in one lane. One
    function of the 8 rows takes no longer than an exchange."""
    assert functions_of_a_thread(logarithms_of_totals(merged=True)) == (32 + 2, 2)
    assert functions_of_a_thread(logarithms_of_totals(merged=False)) == (32, 8)


@pytest.mark.parametrize("merged", [False, True])
def test_divided_functions_agree_with_the_interpreter(merged):
    x = np.random.default_rng(0).normal(size=4 * MATRIX[0] * MATRIX[1]).astype(np.float32)
    expected, actual = (np.zeros(2 * MATRIX[0], np.float32) for _ in range(2))
    module = logarithms_of_totals(merged=merged)
    interpret(module, "k", (1,), [2, x, expected])
    SimtExecutor("sm_90a").launch(module, "k", 1, [2, x, actual], num_warps=4)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def functions_of_rows(functions: int = 6) -> Any:
    """In each of n steps, four times: the differences of each row of w + x from its maximum are
    added up, x shifted by one more place, and `functions` square roots of all that are taken. The
    integer part is the next x."""
    b = Builder()
    array = arg(pointer(F32), aligned=16)
    with b.kernel("k", x=array, w=array, n=arg(I32)) as (x, w, n):
        place = b.arange(SQUARE)
        weights = (w + (place[:, None] + place[None, :] * SQUARE)).load()
        with b.for_(0, n):
            total = b.var(b.full((SQUARE,), 0.0, F32))
            with b.for_(0, 4) as shift:
                rows = weights + (x + (place + shift)).load()[None, :]
                most = rows.reduce(1, "fmaxnum")
                result = total.get() + (most[:, None] - rows).reduce(1, "fadd")
                for _ in range(functions):
                    result = result.sqrt() + most
                total.set(result)
            (x + place).store(total.get().to(I32).to(F32))
    return b.module()


def registers_of_functions(module: Any) -> set[int]:
    """How many elements a thread has of the vectors that mathematical functions compute."""
    ops = compile_kernel(module, "sm_90a", {"num_warps": 4}).tir_at("barriers").functions["k"].ops
    kinds = [op.results[0].type for op in ops if op.mnemonic == "sqrt"]
    return {k.layout.size("register") for k in kinds if isinstance(k, Tile) and k.layout}


def test_each_lane_computes_functions_of_its_own_row() -> None:
    assert registers_of_functions(functions_of_rows()) == {1}


def test_few_functions_are_computed_where_rows_are_reduced() -> None:
    """A conversion takes longer."""
    assert registers_of_functions(functions_of_rows(1)) == {4}


@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_agree_on_functions_of_rows(n: int) -> None:
    """What is added up are integers."""
    random = np.random.default_rng(n)
    x, w = (
        random.integers(0, 9, size).astype(np.float32) for size in (SQUARE + 3, SQUARE * SQUARE)
    )
    assert_equal_results(functions_of_rows(), [x, w, n], target="sm_90a", num_warps=4)
