"""Every value of the small types, through every unary op and every pair of integers of 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.machine import Machine, Tensor, dtype_of
from tileir.op import lookup
from tileir.types import BF16, F8E4M3, F8E5M2, F16, I1, I4, I8, Scalar, Tile
from tileir.values import Value, decode

from .ops_oracle import FLOAT, INTEGER, MATH

MACHINE = Machine()

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"  # infinities, NaNs and overflow are among the operands on purpose
)


def every(element: Scalar) -> Any:
    bits = np.arange(1 << element.bits, dtype=np.uint64)
    if element is I1:
        return np.array([False, True])
    return bits.astype(f"u{element.bytes}").view(dtype_of(element))


def op_of(name: str, *types: Any, **attributes: Any) -> Any:
    return lookup(name)(*(Value(t) for t in types), **attributes)  # type: ignore[misc]


@for_each("name", ["neg", "iabs", "ctpop", "clz"])
@for_each("element", [I1, I8])
def test_unary_integers(name: str, element: Scalar) -> None:
    data = every(element)
    op = op_of(name, Tile(element, data.shape))
    np.testing.assert_array_equal(op.evaluate(MACHINE, Tensor(data)).data, INTEGER[name](op, data))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [n for n in INTEGER if n not in ("neg", "iabs", "ctpop", "clz")])
@pytest.mark.parametrize("element", [I1, I8], ids=str)
def test_pairs_of_integers(name: str, element: Scalar) -> None:
    values = every(element)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    if name in ("sdiv", "udiv", "srem", "urem"):
        a, b = a[b != 0], b[b != 0]
    if name in ("shl", "lshr", "ashr"):
        near = (b.astype(np.int64) >= 0) & (b.astype(np.int64) < element.bits)
        a, b = a[near], b[near]
    op = op_of(name, Tile(element, a.shape), Tile(element, a.shape))
    got, expected = op.evaluate(MACHINE, Tensor(a), Tensor(b)).data, INTEGER[name](op, a, b)
    np.testing.assert_array_equal(got, expected[0] if isinstance(expected, tuple) else expected)


UNARY_FLOATS = ("fneg", "fabs", "sqrt", "floor", "ceil", "ftrunc", "frint", "fround")


@for_each("name", UNARY_FLOATS)
@for_each("element", [F16, BF16])
def test_unary_floats(name: str, element: Scalar) -> None:
    data = every(element)
    op = op_of(name, Tile(element, data.shape))
    with np.errstate(all="ignore"):
        expected = FLOAT[name](op, data).astype(np.float64)
        got = op.evaluate(MACHINE, Tensor(data)).data.astype(np.float64)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [n for n in MATH if n not in ("pow", "atan2")])
@pytest.mark.parametrize("element", [F16, BF16], ids=str)
def test_functions_of_every_number_are_rounded_once(name: str, element: Scalar) -> None:
    data = every(element)
    op = op_of(name, Tile(element, data.shape))
    got = op.evaluate(MACHINE, Tensor(data)).data.astype(np.float64)
    with np.errstate(all="ignore"):
        real = MATH[name](op, data)
        to_odd = odd(real)
        expected = to_odd.astype(np.float32).astype(data.dtype).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    wrong = (got != expected) & ~np.isnan(got)
    ties = np.abs(got[wrong] - real[wrong]) <= 0.5001 * spacing(data, got)[wrong]
    assert ties.all() and wrong.sum() <= 4, (data[wrong][:4], got[wrong][:4], expected[wrong][:4])


def odd(real: Any) -> Any:
    """f64 cut to f32's width with a sticky last bit, so that rounding on is rounding once."""
    bits = real.view(np.uint64)
    sticky = (bits & np.uint64(0x1FFFFFFF)) != 0
    kept = (bits & ~np.uint64(0x1FFFFFFF)) | (sticky.astype(np.uint64) << np.uint64(29))
    usual = np.isfinite(real) & (np.abs(real) > 2.0**-126)
    return np.where(usual, kept.view(np.float64), real)


def spacing(data: Any, at: Any) -> Any:
    up = (np.abs(at).astype(data.dtype).view(np.uint16) + np.uint16(1)).view(data.dtype)
    return up.astype(np.float64) - np.abs(at)


@pytest.mark.parametrize("element", [F8E4M3, F8E5M2, I4], ids=str)
def test_shape_ops_and_selection_keep_every_bit(element: Scalar) -> None:
    data = every(element) if element is not I4 else np.arange(-8, 8).astype(dtype_of(I4))
    value = Tensor(data)
    size = data.size
    back = MACHINE.transpose(MACHINE.reshape(value, (2, size // 2)), (1, 0))
    low, high = MACHINE.split(back)
    joined = MACHINE.concatenate(low, high, 0).data
    assert joined.tobytes() == data.tobytes()
    holds = Tensor(np.arange(size) % 2 == 0)
    mixed = MACHINE.select(holds, value, Tensor(data[::-1])).data
    assert mixed[::2].tobytes() == data[::2].tobytes()


@pytest.mark.parametrize("element", [F8E4M3, F8E5M2, F16, BF16], ids=str)
def test_literals_are_the_numbers_they_name(element: Scalar) -> None:
    data = every(element)
    with np.errstate(all="ignore"):
        wide = data.astype(np.float64)
    for bits in range(0, 1 << element.bits, 1 if element.bits == 8 else 37):
        number = decode(element, bits)
        assert number == wide[bits] or (number != number and np.isnan(wide[bits]))
