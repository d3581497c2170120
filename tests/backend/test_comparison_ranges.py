"""Comparisons of 64-bit tiles whose elements are in ranges that end where those of an i32 do: the
simulator and the CPU against Python's integers, and the instructions of PTX."""

import operator
import re

import numpy as np
import pytest

from tileir import backend
from tileir.executor import executor
from tileir.textual import parse

LEAST, GREATEST = -(2**31), 2**31 - 1
PREDICATES = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le,
    "sgt": operator.gt, "sge": operator.ge, "ult": operator.lt, "ule": operator.le,
    "ugt": operator.gt, "uge": operator.ge,
}  # fmt: skip
BOUNDS = [
    ((LEAST, GREATEST), (LEAST, GREATEST)), ((0, 15), (LEAST, -1)), ((LEAST - 1, 3), (0, 5)),
    ((0, GREATEST + 1), (0, GREATEST)), ((-3, 3), (LEAST - 1, GREATEST)), ((-1, -1), (0, 2**32)),
]  # fmt: skip


def kernel(predicate: str, bounds: tuple[tuple[int, int], tuple[int, int]]) -> str:
    """Of x[i] and x[64 + i], each kept within its bounds, whether `predicate` holds."""
    lines = ["tir 1.0\n", "define kernel void @k(i64* %x, i32* %out) {", "entry:",
             "  %r = make_range i32<64>", "  %xs = splat i64*<64> %x",
             "  %os = splat i32*<64> %out"]  # fmt: skip
    for i, (name, (low, high)) in enumerate(zip("ab", bounds, strict=True)):
        lines += [f"  %{name}i = add i32<64> %r, {64 * i}",
                  f"  %{name}p = getelementptr i64*<64> %xs, %{name}i",
                  f"  %{name} = load i64<64> %{name}p",
                  f"  %{name}l = smax i64<64> %{name}, {low}",
                  f"  %{name}h = smin i64<64> %{name}l, {high}"]  # fmt: skip
    lines += [
        f"  %c, %n = icmp (i1<64>, i1<64>) %ah, %bh {{predicate = {predicate}}}",
        "  %e = zext i32<64> %c",
        "  %op = getelementptr i32*<64> %os, %r",
        "  store %op, %e",
        "  ret",
        "}",
        "",
    ]
    return "\n".join(lines)


def numbers(bounds: tuple[tuple[int, int], tuple[int, int]]) -> np.ndarray:
    near = {end + d for pair in bounds for end in pair for d in (-1, 0, 1)}
    a, b = np.meshgrid(sorted(near), sorted(near))
    pairs = np.stack([a.ravel(), b.ravel()])
    return np.resize(pairs[:, np.random.default_rng(1).permutation(pairs.shape[1])], (2, 64))


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("on", ["simt", "cpu"])
def test_tiles(predicate: str, bounds: tuple[tuple[int, int], tuple[int, int]], on: str) -> None:
    values = numbers(bounds).astype(np.int64)
    actual = np.zeros(64, np.int32)
    executor(on).launch(parse(kernel(predicate, bounds)), "k", 1, [values.ravel(), actual])
    a, b = (np.clip(v, *pair) for v, pair in zip(values, bounds, strict=True))
    if predicate[0] == "u":
        a, b = a.astype(np.uint64), b.astype(np.uint64)
    assert (actual == PREDICATES[predicate](a, b)).all()


@pytest.mark.parametrize("bounds", [(0, 7), (LEAST, GREATEST), (0, GREATEST + 1), (LEAST - 1, 9)])
def test_numbers_of_a_tile_are_compared_with_a_scalar_in_32_bits(bounds: tuple[int, int]) -> None:
    """Only if the scalar is known to be within 32 bits."""
    text = f"""tir 1.0

define kernel void @k(i64 %n, i32* %out) {{
entry:
  %r = make_range i32<64>
  %wide = sext i64<64> %r
  %low = smax i64 %n, {bounds[0]}
  %high = smin i64 %low, {bounds[1]}
  %end = splat i64<64> %high
  %c, %not = icmp (i1<64>, i1<64>) %wide, %end {{predicate = slt}}
  %one = zext i32<64> %c
  %os = splat i32*<64> %out
  %p = getelementptr i32*<64> %os, %r
  store %p, %one
  ret
}}
"""
    ptx = backend.compile(parse(text), target="sm_90a", kernel="k").ptx
    compared = {x[-2:] for x in re.findall(r"setp\.\w+\.[su]\d\d", ptx)}
    assert compared == ({"32"} if bounds[0] >= LEAST and bounds[1] <= GREATEST else {"64"})
