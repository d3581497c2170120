"""Scans of tiles whose extents are no powers of two, in layouts that can be scanned."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.backend.executors import SimtExecutor
from tileir.textual import parse

KERNEL = """tir 1.0

define kernel void @k(i32* noalias %x, i32* noalias %o) {{
entry:
  %i = make_range i32<{size}>
  %xs = splat i32*<{size}> %x
  %p = getelementptr i32*<{size}> %xs, %i
  %v = load i32<{size}> %p
  %s = scan i32<{size}> %v {{combiner = add}}
  %rows = reshape i32<{rows}, {columns}> %s
  %t = scan i32<{rows}, {columns}> %rows {{axis = {axis}, combiner = smax, reverse = true}}
  %r = reshape i32<{size}> %t
  %os = splat i32*<{size}> %o
  %q = getelementptr i32*<{size}> %os, %i
  store %q, %r
  ret
}}
"""
"""Rows and columns are scanned of what a row was that is scanned, too."""


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(20, 6), (48, 3), (96, 6), (7, 12)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns_are_scanned(axis: int, shape: tuple[int, int], warps: int) -> None:
    rows, columns = shape
    size = rows * columns
    text = KERNEL.format(size=size, rows=rows, columns=columns, axis=axis)
    module, x = parse(text), np.arange(size, dtype=np.int32) % 11 - 5
    expected, actual = np.zeros(size, np.int32), np.zeros(size, np.int32)
    tileir.interpret(module, "k", 1, [x, expected])
    SimtExecutor().launch(module, "k", 1, [x, actual], num_warps=warps)
    np.testing.assert_array_equal(actual, expected)


DIRECT = """tir 1.0

define kernel void @k(i32* noalias aligned(16) %x, i32* noalias aligned(16) %o) {{
entry:
  %i = make_range i32<{size}>
  %at = reshape i32<{rows}, {columns}> %i
  %xs = splat i32*<{rows}, {columns}> %x
  %p = getelementptr i32*<{rows}, {columns}> %xs, %at
  %v = load i32<{rows}, {columns}> %p
  %t = scan i32<{rows}, {columns}> %v {{axis = {axis}, combiner = add}}
  %os = splat i32*<{rows}, {columns}> %o
  %q = getelementptr i32*<{rows}, {columns}> %os, %at
  store %q, %t
  ret
}}
"""
"""What the load and the store ask for is no layout for a scan, for most of these shapes."""


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize(
    "shape", [(20, 6), (48, 3), (96, 6), (7, 12), (40, 12), (24, 20), (6, 96), (12, 40)], ids=str
)
@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_loaded_is_scanned(axis: int, shape: tuple[int, int], warps: int) -> None:
    rows, columns = shape
    size = rows * columns
    module = parse(DIRECT.format(size=size, rows=rows, columns=columns, axis=axis))
    x = np.arange(size, dtype=np.int32) % 11 - 5
    expected, actual = np.zeros(size, np.int32), np.zeros(size, np.int32)
    tileir.interpret(module, "k", 1, [x, expected])
    SimtExecutor().launch(module, "k", 1, [x, actual], num_warps=warps)
    np.testing.assert_array_equal(actual, expected)
