"""Conversions between all types, and numbers next to tensors, against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each

INTEGERS = tuple(np.dtype(f"{s}int{n}") for n in (8, 16, 32, 64) for s in ("", "u"))
FLOATS = (*map(np.dtype, ("float16", "float32", "float64")), np.dtype(ml_dtypes.bfloat16))


@triton.jit
def convert_to_each(xs, outs, N: tl.constexpr):
    i = tl.arange(0, N)
    for n in tl.static_range(len(outs)):
        tl.store(outs[n] + i, tl.load(xs[n] + i).to(outs[n].dtype.element_ty))


def extreme_numbers(kind: np.dtype[Any], to: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Extreme numbers and small ones of `kind`; floats within the range of an integer `to`."""
    if kind.kind in "iu":
        bounds = np.iinfo(kind)
        few = [bounds.min, bounds.min + 1, bounds.max, bounds.max - 1, bounds.max // 2 + 1, 0, 1, 7]
        return np.array(few, kind)
    few = [0.0, 1.0, 7.0, 2.5, 3.75, 100.0, 127.0, 0.25]
    if to.kind == "u" and to.itemsize <= 4 and kind.itemsize >= 4:
        few[6] = float(np.iinfo(to).max - 2**to.itemsize * 16)
    if to.kind == "i" or to.kind not in "iu":
        few[3:6] = [-2.5, -100.0, -1.0]
    return np.array(few, kind)


@for_each("kind", (*INTEGERS, *FLOATS))
def test_elements_are_converted_by_the_sign_of_the_type_they_have(kind: np.dtype[Any]) -> None:
    """An integer is widened, and becomes a float, by its own sign; a float becomes an integer by
    the sign of that."""
    check_conversions(kind, "interpreter")


@pytest.mark.parametrize("kind", (*INTEGERS, *FLOATS), ids=str)
@pytest.mark.slow
def test_elements_are_converted_on_the_default_executor(kind: np.dtype[Any]) -> None:
    check_conversions(kind, None)


def check_conversions(kind: np.dtype[Any], on: str | None) -> None:
    targets = (*INTEGERS, *FLOATS)
    sources = [extreme_numbers(kind, to) for to in targets]
    results = [np.zeros(8, to) for to in targets]
    convert_to_each[(1,)](tuple(sources), tuple(results), N=8, on=on)
    for to, x, out in zip(targets, sources, results, strict=True):
        with np.errstate(over="ignore"):
            wide = x.astype(np.float32) if to.name == "bfloat16" and kind.kind == "f" else x
            expected = wide.astype(to)
        if kind.kind in "iu" and to.name == "bfloat16":
            expected = x.astype(np.float64).astype(np.float32).astype(to)
        close = to.kind not in "iu" and kind.kind in "iu"  # rounded twice by one of both
        same = out.astype(np.float64) if close else out
        np.testing.assert_allclose(
            same, expected.astype(same.dtype), 2**-7 if close else 0, err_msg=str(to)
        )


@triton.jit
def describe(out, r):
    tl.store(out, r.dtype.primitive_bitwidth)
    tl.store(out + 1, r.dtype.is_floating())
    tl.store(out + 2, r.dtype.is_bf16())
    tl.store(out + 3, r.dtype.is_int_signed())


@triton.jit
def next_to(x, out, N: tl.constexpr, NUMBER: tl.constexpr):
    """A row of `out` for each op, with the number on either side."""
    v = tl.load(x + tl.arange(0, N))
    describe(out, NUMBER * v)
    describe(out + 4, v * NUMBER)
    describe(out + 8, NUMBER + v)
    describe(out + 12, v + NUMBER)
    describe(out + 16, NUMBER / v)
    describe(out + 20, v / NUMBER)


def kind_next_to(kind: np.dtype[Any], number: float, op: str) -> tuple[int, bool, bool, bool]:
    """Triton's rule: a number takes the tensor's type where that is of its rank or a higher one;
    a float next to integers makes float32; quotients of integers and small floats are float32."""
    is_float = kind.kind not in "iu"
    if op == "div":
        bits = 64 if kind.name == "float64" else 32
        return bits, True, False, False
    if isinstance(number, float) and not is_float:
        return 32, True, False, False
    return kind.itemsize * 8, is_float, kind.name == "bfloat16", kind.kind == "i"


@for_each(("kind", "number"), itertools.product((*INTEGERS, *FLOATS), (2, 2.0)))
def test_a_number_takes_the_type_of_the_tensor_next_to_it(
    kind: np.dtype[Any], number: float
) -> None:
    out = np.zeros((6, 4), np.int32)
    next_to[(1,)](np.ones(8, kind), out, N=8, NUMBER=number, on="interpreter")
    for op, row in zip(("mul", "mul", "add", "add", "div", "div"), out, strict=True):
        assert (int(row[0]), *map(bool, row[1:])) == kind_next_to(kind, number, op), op
