"""Vectors that are computed from loaded ones and become rows of addresses or masks: the layout in
which they are computed, and threads against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir import interpret
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F32, I32, Builder, arg, pointer

COLUMNS = 128


def windows(rows: int) -> Any:
    """Each iteration loads rows whose numbers are loaded, within bounds, and adds up each. Numbers
    and masks are vectors that depend on more loads than are repeated in each layout."""
    b, kind, numbers = Builder(), arg(pointer(F32), aligned=16), arg(pointer(I32), aligned=16)
    parameters = {"x": kind, "first": numbers, "last": numbers, "y": kind, "n": I32}
    with b.kernel("k", **parameters) as (x, first, last, y, n):
        row, column = b.arange(rows), b.arange(COLUMNS)
        low, high = (first + row).load(), (last + row).load()
        with b.for_(0, n) as i:
            at = low + i
            inside = (at >= low) & (at < high) & (at + low >= 0)
            where = x + (at[:, None] * COLUMNS + column[None, :])
            mask = inside[:, None] & (column < COLUMNS - i)[None, :]
            value = where.load(mask=mask, other=0.0)
            (y + i * rows + row).store(value.sum(1))
    return b.module()


def conversions(module: Any, warps: int) -> int:
    kernel = compile_kernel(module, "sm_90", Options(num_warps=warps))
    return str(kernel.tir_at("layouts")).count("convert_layout")


@pytest.mark.parametrize(("rows", "converted"), [(4, False), (64, True)])
def test_short_vectors_are_computed_where_rows_need_them(rows, converted):
    """A warp owns a row of four: all its threads compute the numbers of that row, one each. It owns
    16 of 64 rows, of which a thread would compute all: one thread computes each, and moves it."""
    assert bool(conversions(windows(rows), 4)) is converted


@pytest.mark.parametrize("rows", [4, 64])
def test_threads_agree_with_the_interpreter(rows):
    random = np.random.default_rng(1)
    x = random.integers(-8, 9, 64 * COLUMNS).astype(np.float32)
    first = random.integers(0, 40, rows).astype(np.int32)
    last = first + random.integers(0, 5, rows).astype(np.int32)
    expected, actual = (np.zeros(4 * rows, np.float32) for _ in range(2))
    interpret(windows(rows), "k", (1,), [x, first, last, expected, 4])
    SimtExecutor().launch(windows(rows), "k", 1, [x, first, last, actual, 4], num_warps=4)
    np.testing.assert_array_equal(actual, expected)
