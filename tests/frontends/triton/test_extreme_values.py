"""Integers at the ends of their types: folded while compiling, as offsets of pointers, and where
overflow is checked. NaNs in extremes and bounds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir.errors import TileirError
from tileir.frontends.triton.dtypes import of_number

TOP = (1 << 31) - 1
NUMBERS = (-TOP - 1, -7, -3, -1, 1, 3, 7, TOP)


@triton.jit
def of_numbers(out, A: tl.constexpr, B: tl.constexpr):
    x = A
    y = B
    tl.store(out, x + y)
    tl.store(out + 1, x - y)
    tl.store(out + 2, x * y)
    tl.store(out + 3, x // y)
    tl.store(out + 4, x % y)
    tl.store(out + 5, -x)
    tl.store(out + 6, x < y)
    tl.store(out + 7, x >= y)
    tl.store(out + 8, x & y)
    tl.store(out + 9, x ^ y)
    tl.store(out + 10, x >> (y & 31))
    tl.store(out + 11, x << (y & 31))


@triton.jit(do_not_specialize=["x", "y"])
def of_arguments(out, x, y):
    tl.store(out, x + y)
    tl.store(out + 1, x - y)
    tl.store(out + 2, x * y)
    tl.store(out + 3, x // y)
    tl.store(out + 4, x % y)
    tl.store(out + 5, -x)
    tl.store(out + 6, x < y)
    tl.store(out + 7, x >= y)
    tl.store(out + 8, x & y)
    tl.store(out + 9, x ^ y)
    tl.store(out + 10, x >> (y & 31))
    tl.store(out + 11, x << (y & 31))


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("a", "b"), list(itertools.product(NUMBERS, NUMBERS)))
def test_numbers_are_computed_with_as_arguments_are(a: int, b: int) -> None:
    if (a, b) == (-TOP - 1, -1):
        return  # a quotient that int32 does not hold
    folded, computed = np.zeros(12, np.int32), np.zeros(12, np.int32)
    of_numbers[(1,)](folded, a, b, on="interpreter")
    of_arguments[(1,)](computed, a, b, on="interpreter")
    assert folded.tolist() == computed.tolist()
    assert computed[4] == int(np.fmod(a, b)) and computed[3] == (abs(a) // abs(b)) * (
        1 if (a < 0) == (b < 0) else -1
    )


@triton.jit
def there_and_back(out, x, offsets, back, forth, N: tl.constexpr):
    i = tl.arange(0, N)
    far = x + tl.load(offsets + i)
    tl.store(out + i, tl.load(far + tl.load(back + i)))
    one = x + tl.load(offsets)
    tl.store(out + N, tl.load(one + tl.load(back)))
    before = x - tl.load(offsets + i)
    tl.store(out + N + 1 + i, tl.load(before + tl.load(forth + i)))


@pytest.mark.parametrize("on", ["interpreter", "cpu"])
@pytest.mark.parametrize(
    "kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32]
)
def test_a_pointer_moves_by_any_number_of_a_type(kind: Any, on: str) -> None:
    ends = np.iinfo(kind)
    most = min(ends.max, 1 << 40)
    least = ends.min if ends.bits < 32 else max(ends.min, -most)
    offsets = np.array([most, least, most // 2 + 1, 0], kind)
    places, wide = np.array([0, 1, 2, 3]), offsets.astype(np.int64)
    x, out = np.array([5, 6, 7, 8], np.float32), np.zeros(9, np.float32)
    there_and_back[(1,)](out, x, offsets, places - wide, places + wide, N=4, on=on)
    assert out.tolist() == [5, 6, 7, 8, 5, 5, 6, 7, 8]


@triton.jit(debug=True)
def checked_arithmetic(out, x, y, OP: tl.constexpr):
    a, b = tl.load(x), tl.load(y)
    if OP == "add":
        c = a + b
    elif OP == "sub":
        c = a - b
    else:
        c = a * b
    tl.store(out, c)


EXACT = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("kind", [np.int32, np.uint32])
def test_overflow_is_reported_at_both_ends(kind: Any, op: str) -> None:
    ends, reached = np.iinfo(kind), set()
    numbers = (ends.min, ends.min + 1, 0, 1, 2, 3, ends.max - 1, ends.max)
    for a, b in itertools.product(numbers, (ends.min, 1, 2, ends.max)):
        exact = EXACT[op](int(a), int(b))
        fits = ends.min <= exact <= ends.max
        reached.add((fits, exact > 0))
        out = np.zeros(1, kind)
        arguments = (out, np.array([a], kind), np.array([b], kind))
        if fits:
            checked_arithmetic[(1,)](*arguments, OP=op, on="interpreter")
            assert int(out[0]) == exact
        else:
            with pytest.raises(TileirError, match="overflow detected"):
                checked_arithmetic[(1,)](*arguments, OP=op, on="interpreter")
    assert (False, True) in reached or op == "sub"


@for_each(
    "number", [at + n for at in (0, 2**31, -(2**31), 2**32, 2**63, -(2**63)) for n in (-1, 0, 1)]
)
def test_a_number_has_the_first_type_that_holds_it(number: int) -> None:
    """Of int32, uint32, int64 and uint64."""
    kinds = ("int32", "uint32", "int64", "uint64")
    holding = [k for k in kinds if np.iinfo(k).min <= number <= np.iinfo(k).max]
    if holding:
        assert of_number(number).name == holding[0]
        return
    with pytest.raises(ValueError, match="64 bits"):
        of_number(number)


LEAST, LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""The least and the largest normal float32."""


@for_each(("number", "is_float32"), [
    (0.0, True), (math.inf, True), (math.nan, True), (0.1, True), (LEAST, True), (LARGEST, True),
    (math.nextafter(LEAST, 0), False), (LEAST / 2, False), (2.0**-149, False), (2.0**-150, False),
    (math.nextafter(LARGEST, math.inf), False), (2.0**128 - 2.0**103, False), (2.0**128, False),
    (1e300, False), (5e-324, False),
])  # fmt: skip
def test_floats_beyond_the_normal_numbers_of_float32_are_float64(
    number: float, is_float32: bool
) -> None:
    for signed in (number, -number):
        assert of_number(signed).name == ("fp32" if is_float32 else "fp64")


@triton.jit
def limit(x, low, high, out, ALL: tl.constexpr, N: tl.constexpr):
    nan = tl.PropagateNan.ALL if ALL else tl.PropagateNan.NONE
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(low + i), tl.load(high + i)
    tl.store(out + i, tl.maximum(a, b, propagate_nan=nan))
    tl.store(out + N + i, tl.minimum(a, c, propagate_nan=nan))
    tl.store(out + 2 * N + i, tl.clamp(a, b, c, propagate_nan=nan))


@pytest.mark.parametrize("every", [False, True], ids=["number", "nan"])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_nan_is_left_out_or_kept_by_extremes_and_bounds(kind: Any, every: bool) -> None:
    values = np.array([np.nan, -np.inf, -1.5, 0.0, 2.0, np.inf], kind)
    cases = np.array(list(itertools.product(values, repeat=3)), kind)
    x, low, high = (np.resize(column, 256).astype(kind) for column in cases.T)
    out = np.zeros(3 * 256, kind)
    limit[(1,)](x, low, high, out, every, 256)
    larger, smaller = (np.maximum, np.minimum) if every else (np.fmax, np.fmin)
    expected = [larger(x, low), smaller(x, high), smaller(larger(x, low), high)]
    np.testing.assert_array_equal(out, np.concatenate(expected))


@triton.jit
def wrong_mode(x, MODE: tl.constexpr):
    tl.store(x, tl.maximum(tl.load(x), 1.0, propagate_nan=MODE))


@pytest.mark.parametrize("mode", [1, "all", 2.0])
def test_what_is_no_way_to_treat_nans_is_an_error(mode: Any) -> None:
    with pytest.raises(TileirError, match="propagate_nan is a value of"):
        wrong_mode[(1,)](np.zeros(1, np.float32), mode)
