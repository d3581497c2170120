"""Blocks that begin before their array or end after it, by block pointers and by descriptors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl

ROWS, COLUMNS = 5, 6
BLOCK = (4, 8)
STARTS = (-8, -5, -1, 0, 1, 3, 6)
"""Before the array, at both of its ends, and around them."""
MARGIN = 96
"""Elements around the array: a block that checks one dimension accesses some of them."""


@triton.jit
def load_block(x, out, i, j, M, N, CHECKED: tl.constexpr):
    here = tl.make_block_ptr(x + 96, (M, N), (N, 1), (i, j), (4, 8), (1, 0))
    there = tl.make_block_ptr(out, (4, 8), (8, 1), (0, 0), (4, 8), (1, 0))
    tl.store(there, tl.load(here, boundary_check=CHECKED, padding_option="nan"))


@triton.jit
def store_block(x, i, j, M, N, CHECKED: tl.constexpr):
    there = tl.make_block_ptr(x + 96, (M, N), (N, 1), (i, j), (4, 8), (1, 0))
    tl.store(there, tl.full((4, 8), -7.0, tl.float32), boundary_check=CHECKED)


@triton.jit
def add_by_descriptors(x, out, i, j, M, N):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [4, 4])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [4, 4])
    target.store([i, j], source.load([i, j]) + 1.0)


def block(i: int, j: int, checked: tuple[int, ...]) -> tuple[Any, Any]:
    """The place of each element of the block in memory, and which ones are accessed."""
    rows, columns = np.ogrid[i : i + BLOCK[0], j : j + BLOCK[1]]
    inside = np.ones(BLOCK, bool)
    for dim, (at, extent) in enumerate(((rows, ROWS), (columns, COLUMNS))):
        if dim in checked:
            inside &= (at >= 0) & (at < extent)
    return MARGIN + rows * COLUMNS + columns, inside


@pytest.mark.parametrize("checked", [(), (0,), (1,), (0, 1)], ids=str)
def test_a_block_pointer_masks_both_ends_of_each_checked_dimension(checked):
    memory = np.arange(ROWS * COLUMNS + 2 * MARGIN, dtype=np.float32)
    for i, j in product(STARTS, STARTS):
        place, inside = block(i, j, checked)
        out = np.zeros(BLOCK, np.float32)
        load_block[(1,)](memory, out, i, j, ROWS, COLUMNS, checked)
        np.testing.assert_array_equal(out, np.where(inside, memory[place], np.nan))
        stored, expected = memory.copy(), memory.copy()
        store_block[(1,)](stored, i, j, ROWS, COLUMNS, checked)
        expected[place[inside]] = -7.0
        np.testing.assert_array_equal(stored, expected)


def test_a_descriptor_masks_both_ends_of_each_dimension():
    x = np.arange(ROWS * 8, dtype=np.float32).reshape(ROWS, 8)
    for i, j in product(STARTS, STARTS):
        out, expected = np.zeros_like(x), np.zeros_like(x)
        add_by_descriptors[(1,)](x, out, i, j, *x.shape)
        inside = np.s_[max(i, 0) : max(i + 4, 0), max(j, 0) : max(j + 4, 0)]
        expected[inside] = x[inside] + 1.0
        np.testing.assert_array_equal(out, expected)
