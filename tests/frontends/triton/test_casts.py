"""Conversions between all types, and numbers next to tensors, against numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl

INTEGERS = tuple(np.dtype(f"{s}int{n}") for n in (8, 16, 32, 64) for s in ("", "u"))
FLOATS = (*map(np.dtype, ("float16", "float32", "float64")), np.dtype(ml_dtypes.bfloat16))
TYPES = {"int1": tl.int1} | {str(kind): getattr(tl, str(kind)) for kind in (*INTEGERS, *FLOATS)}


@triton.jit
def convert(x, out, N: tl.constexpr, TO: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(TO))


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


@pytest.mark.parametrize("kind", (*INTEGERS, *FLOATS), ids=str)
@pytest.mark.slow
def test_elements_are_converted_by_the_sign_of_the_type_they_have(kind: np.dtype[Any]) -> None:
    """An integer is widened, and becomes a float, by its own sign; a float becomes an integer by
    the sign of that."""
    for to in (*INTEGERS, *FLOATS):
        x = extreme_numbers(kind, to)
        with np.errstate(over="ignore"):
            wide = x.astype(np.float32) if to.name == "bfloat16" and kind.kind == "f" else x
            expected = wide.astype(to)
        if kind.kind in "iu" and to.name == "bfloat16":
            expected = x.astype(np.float64).astype(np.float32).astype(to)
        out = np.zeros(8, to)
        convert[(1,)](x, out, N=8, TO=TYPES[str(to)])
        close = to.kind not in "iu" and kind.kind in "iu"  # rounded twice by one of both
        same = out.astype(np.float64) if close else out
        np.testing.assert_allclose(same, expected.astype(same.dtype), 2**-7 if close else 0)


@triton.jit
def next_to(x, out, N: tl.constexpr, OP: tl.constexpr, NUMBER: tl.constexpr, LEFT: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    if OP == "mul":
        r = NUMBER * v if LEFT else v * NUMBER
    elif OP == "add":
        r = NUMBER + v if LEFT else v + NUMBER
    else:
        r = NUMBER / v if LEFT else v / NUMBER
    tl.store(out, r.dtype.primitive_bitwidth)
    tl.store(out + 1, r.dtype.is_floating())
    tl.store(out + 2, r.dtype.is_bf16())
    tl.store(out + 3, r.dtype.is_int_signed())


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


@pytest.mark.parametrize("kind", (*INTEGERS, *FLOATS), ids=str)
@pytest.mark.parametrize("op", ["mul", "add", "div"])
@pytest.mark.parametrize("number", [2, 2.0])
@pytest.mark.sampled(2)
def test_a_number_takes_the_type_of_the_tensor_next_to_it(
    op: str, number: float, kind: np.dtype[Any]
) -> None:
    for left in (False, True):
        out = np.zeros(4, np.int32)
        next_to[(1,)](np.ones(8, kind), out, N=8, OP=op, NUMBER=number, LEFT=left)
        actual = int(out[0]), *map(bool, out[1:])
        assert actual == kind_next_to(kind, number, op), left
