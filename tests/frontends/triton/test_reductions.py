"""Reductions and scans by name, of every type and axis, against numpy."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir.frontends.triton.dtypes import ARRAYS

INTEGERS = [np.dtype(f"{s}int{n}") for n in (8, 16, 32, 64) for s in ("", "u")]
FLOATS = [*map(np.dtype, ("float16", "float32", "float64")), np.dtype(ml_dtypes.bfloat16)]
ROWS, COLUMNS = 4, 8


@triton.jit
def reduce_all(x, out, AXIS: tl.constexpr, TOTAL: tl.constexpr, EXTREME: tl.constexpr):
    """For each reduction a part of `out` of 32 elements, with the dimensions kept; then without."""
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    a = tl.load(x + i * 8 + j)
    tl.static_assert(tl.sum(a, AXIS).dtype == TOTAL)
    tl.static_assert(tl.max(a, AXIS).dtype == EXTREME)
    tl.static_assert(tl.min(a, AXIS).dtype == EXTREME)
    total = tl.sum(a, AXIS, keep_dims=True)
    tl.store(out + i * 8 + j, tl.zeros_like(a).to(TOTAL) + total)
    top, low = tl.max(a, AXIS, keep_dims=True), tl.min(a, AXIS, keep_dims=True)
    tl.store(out + 32 + i * 8 + j, tl.zeros_like(a).to(EXTREME) + top)
    tl.store(out + 64 + i * 8 + j, tl.zeros_like(a).to(EXTREME) + low)
    first, last = tl.argmax(a, AXIS, keep_dims=True), tl.argmin(a, AXIS, keep_dims=True)
    tl.store(out + 96 + i * 8 + j, i * 0 + j * 0 + first)
    tl.store(out + 128 + i * 8 + j, i * 0 + j * 0 + last)
    value, place = tl.max(a, AXIS, return_indices=True, keep_dims=True)
    tl.store(out + 160 + i * 8 + j, (value == top) & (place == first) & (i + j >= 0))
    value, place = tl.min(a, AXIS, return_indices=True, keep_dims=True)
    tl.store(out + 192 + i * 8 + j, (value == low) & (place == last) & (i + j >= 0))
    flat = tl.sum(a, AXIS)
    if AXIS is None:
        tl.store(out + 224, flat)
    else:
        k = tl.arange(0, flat.shape[0])
        tl.store(out + 224 + k, flat)


def numbers(kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Numbers at the ends of an integer type, and repeated ones; floats whose sums are exact, and,
    of float64, not those of float32."""
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        few = [ends.min, ends.max, ends.max - 1, 0, 1, 5, ends.max // 2, ends.max // 2 + 1, 5, 7]
    else:
        few = [0.5, -3.0, 7.0, 1.0, -0.25, 7.0, -3.0, 2.0, 0.0, 4.0]
        few[3:5] = [1 + 2.0**-40, 7 + 2.0**-40] if kind == np.float64 else few[3:5]
    x = np.resize(np.array(few, kind), ROWS * COLUMNS)
    return np.random.default_rng(3).permutation(x).reshape(ROWS, COLUMNS)


def wide_kinds(kind: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The types of sums and of extremes: integers of at least 32 bits; floats of 16 bits are
    compared in 32, and of them bfloat16 is added in 32."""
    if kind.kind in "iu":
        wide = np.dtype(f"{kind.kind}{max(4, kind.itemsize)}")
        return wide, wide
    wide = np.dtype(np.float32) if kind.itemsize == 2 else kind
    return (kind if kind == np.float16 else wide), wide


KINDS_AND_AXES = [
    (kind, axis) for n, kind in enumerate((*INTEGERS, *FLOATS))
    for axis in ((None, 1) if n % 3 == 0 else (0, -1) if n % 3 == 1 else (None, 0))
]  # fmt: skip


@for_each(("kind", "axis"), KINDS_AND_AXES)
def test_reductions_of_every_type(kind: np.dtype[Any], axis: int | None) -> None:
    """Sums wrap at the width of their type; of equal extremes the first counts."""
    x, (of_sum, of_extreme) = numbers(kind), wide_kinds(kind)
    stored = of_sum if kind.kind in "iu" else np.dtype(np.float64)
    out = np.zeros(256, stored)
    total_type, extreme_type = ARRAYS[of_sum.name], ARRAYS[of_extreme.name]
    reduce_all[(1,)](x, out, AXIS=axis, TOTAL=total_type, EXTREME=extreme_type, on="interpreter")
    wide = x.astype(of_sum)
    total = wide.sum(axis, keepdims=True, dtype=of_sum)
    one = np.ones((ROWS, COLUMNS), bool)
    expected = [
        total, x.max(axis, keepdims=True), x.min(axis, keepdims=True),
        x.argmax(axis, keepdims=True), x.argmin(axis, keepdims=True), one, one,
    ]  # fmt: skip
    for part, numbers_there in zip(out.reshape(8, 32)[:7], expected, strict=True):
        assert (part.reshape(ROWS, COLUMNS) == numbers_there.astype(stored)).all()
    assert (out[224 : 224 + total.size] == total.ravel().astype(stored)).all()


@triton.jit
def scan_all(x, out, AXIS: tl.constexpr, REVERSE: tl.constexpr, TOTAL: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    a = tl.load(x + i * 8 + j)
    tl.static_assert(tl.cumsum(a, AXIS).dtype == TOTAL)
    tl.store(out + i * 8 + j, tl.cumsum(a, AXIS, reverse=REVERSE))
    tl.store(out + 32 + i * 8 + j, tl.cumprod(a, AXIS, reverse=REVERSE))
    tl.store(out + 64 + i * 8 + j, tl.cumsum(a, AXIS, REVERSE, dtype=tl.int64))


@for_each(("kind", "axis", "reverse"), product((*INTEGERS, *FLOATS), (0, -1), (False, True)))
def test_scans_of_every_type(kind: np.dtype[Any], axis: int, reverse: bool) -> None:
    of_sum = wide_kinds(kind)[0]
    x = numbers(kind) if kind.kind in "iu" else np.resize([1, -2, 2, 1, -1], 32).astype(kind)
    x, out = x.reshape(ROWS, COLUMNS), np.zeros((3, ROWS, COLUMNS), of_sum)
    if kind.kind not in "iu":
        out = out.astype(np.float64)
    total_type = ARRAYS[of_sum.name]
    scan_all[(1,)](x, out, AXIS=axis, REVERSE=reverse, TOTAL=total_type, on="interpreter")
    ordered = np.flip(x, axis) if reverse else x
    expected = [ordered.astype(of_sum).cumsum(axis, dtype=of_sum),
                ordered.astype(of_sum).cumprod(axis, dtype=of_sum),
                ordered.astype(np.int64).cumsum(axis)]  # fmt: skip
    for part, scanned in zip(out, expected, strict=True):
        assert (part == (np.flip(scanned, axis) if reverse else scanned).astype(out.dtype)).all()


@triton.jit
def combine_bits(x, out, AXIS: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    a = tl.load(x + i * 8 + j)
    tl.store(out + i * 8 + j, i * 0 + j * 0 + tl.xor_sum(a, AXIS, keep_dims=True))
    tl.store(out + 32 + i * 8 + j, i * 0 + j * 0 + tl.reduce_or(a, AXIS, keep_dims=True))


@for_each(("kind", "axis"), product(INTEGERS, (None, 0, 1)))
def test_bits_are_combined_at_the_width_of_sums(kind: np.dtype[Any], axis: int | None) -> None:
    x = numbers(kind)
    x, wide = np.where(x & 1, x & 0x11, x & 0x22).astype(kind), wide_kinds(kind)[0]
    out = np.zeros((2, ROWS, COLUMNS), wide)
    combine_bits[(1,)](x, out, AXIS=axis, on="interpreter")
    for part, function in zip(out, (np.bitwise_xor, np.bitwise_or), strict=True):
        assert (part == function.reduce(x.astype(wide), axis, keepdims=True)).all()
