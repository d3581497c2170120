"""Operands of two types: every pair of integer types, by an independent account of Triton's rules
(Triton language reference, "Type promotion"), and floats of 8 bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.frontends.triton.sources import kernel_of
from tests.sizes import for_each
from tileir.frontends.triton.dtypes import ALL, promoted_type
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor

INTEGERS = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
]  # fmt: skip
PAIRS = [(a, b) for a, b in itertools.product(INTEGERS, INTEGERS) if a is not b]


@triton.jit
def binary_ops(out, x, y, s, N: tl.constexpr):
    """A row of `out` for each op of `OPS`; `s` are the numbers to shift by."""
    i = tl.arange(0, N)
    a, b, by = tl.load(x + i), tl.load(y + i), tl.load(s + i)
    tl.store(out + i, (a + b).to(tl.int64, bitcast=False))
    tl.store(out + N + i, (a - b).to(tl.int64, bitcast=False))
    tl.store(out + 2 * N + i, (a * b).to(tl.int64, bitcast=False))
    tl.store(out + 3 * N + i, (a & b).to(tl.int64, bitcast=False))
    tl.store(out + 4 * N + i, (a | b).to(tl.int64, bitcast=False))
    tl.store(out + 5 * N + i, (a ^ b).to(tl.int64, bitcast=False))
    tl.store(out + 6 * N + i, (a < b).to(tl.int64, bitcast=False))
    tl.store(out + 7 * N + i, (a >= b).to(tl.int64, bitcast=False))
    tl.store(out + 8 * N + i, (a == b).to(tl.int64, bitcast=False))
    tl.store(out + 9 * N + i, tl.minimum(a, b).to(tl.int64, bitcast=False))
    tl.store(out + 10 * N + i, tl.maximum(a, b).to(tl.int64, bitcast=False))
    tl.store(out + 11 * N + i, tl.where(i % 2 == 0, a, b).to(tl.int64, bitcast=False))
    tl.store(out + 12 * N + i, (a << by).to(tl.int64, bitcast=False))
    tl.store(out + 13 * N + i, (a >> by).to(tl.int64, bitcast=False))


@triton.jit
def divide(out, x, y, N: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    c = a // b if OP == "div" else a % b
    tl.store(out + i, c.to(tl.int64, bitcast=False))


def shared_type(a: Any, b: Any) -> np.dtype[Any]:
    """Of one sign the wider; of two the unsigned one unless the signed one is wider."""
    x, y = np.dtype(a), np.dtype(b)
    if x.kind == y.kind:
        return max(x, y, key=lambda t: t.itemsize)
    unsigned, signed = (x, y) if x.kind == "u" else (y, x)
    return unsigned if unsigned.itemsize >= signed.itemsize else signed


def shifted_right(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], kind: Any) -> Any:
    """By the sign of the left type before promotion, at the promoted width."""
    signed = np.dtype(f"i{np.dtype(kind).itemsize}")
    wide = a.astype(kind)
    arithmetic = wide.view(signed) >> b.astype(signed) if a.dtype.kind == "i" else None
    return (wide >> b.astype(kind)) if arithmetic is None else arithmetic.view(kind)


MEANING: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "lt": np.less, "ge": np.greater_equal,
    "eq": np.equal, "min": np.minimum, "max": np.maximum,
    "where": lambda a, b: np.where(np.arange(a.size) % 2 == 0, a, b),
    "shl": np.left_shift,
}  # fmt: skip


def operands(a: Any, b: Any, shift: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Small and extreme values; of few enough bits where arithmetic must not overflow int32."""
    low = [0, 1, 5, 100] + ([-1, -5, -100, -128] if np.dtype(a).kind == "i" else [7, 9, 120, 127])
    high = [1, 3, 2, 7] if shift else [0, 1, 100, 3]
    more = [-1, -7, -128, 127] if np.dtype(b).kind == "i" else [2, 127, 90, 63]
    return np.array(low, a), np.array(high + ([1, 2, 3, 4] if shift else more), b)


OPS = [*MEANING, "shr"]
"""In the order of the rows of `binary_ops`."""


def relation(a: Any, b: Any) -> str:
    """The signs of two types, and which is wider."""
    x, y = np.dtype(a), np.dtype(b)
    wider = (x.itemsize > y.itemsize) - (x.itemsize < y.itemsize)
    return f"{x.kind}{'=<>'[wider]}{y.kind}"


@for_each(("a", "b"), PAIRS)
def test_operations_on_two_integer_types(a: Any, b: Any) -> None:
    check_operations(a, b, "interpreter")


@pytest.mark.sampled(1, by="relation")
@pytest.mark.parametrize(("relation", "a", "b"), [(relation(a, b), a, b) for a, b in PAIRS])
def test_operations_on_two_integer_types_on_the_cpu(relation: str, a: Any, b: Any) -> None:
    check_operations(a, b, "cpu")


def check_operations(a: Any, b: Any, on: str) -> None:
    (x, y), (_, s) = operands(a, b, False), operands(a, b, True)
    kind = shared_type(a, b)
    z = np.zeros((len(OPS), 8), np.int64)
    binary_ops[(1,)](z, x, y, s, N=8, on=on)
    for op, row in zip(OPS, z, strict=True):
        if op == "shr":
            expected = shifted_right(x, s, kind)
        else:
            other = s if op == "shl" else y
            expected = MEANING[op](x.astype(kind), other.astype(kind))
        assert row.tolist() == expected.astype(np.int64).tolist(), op


@triton.jit
def with_conditions(out, x, y, N: tl.constexpr):
    """A row of `out` for each op of a condition and an integer, in both orders."""
    i = tl.arange(0, N)
    c, v = tl.load(x + i) > 0, tl.load(y + i)
    tl.store(out + i, (c + v).to(tl.int64, bitcast=False))
    tl.store(out + N + i, (v - c).to(tl.int64, bitcast=False))
    tl.store(out + 2 * N + i, (c * v).to(tl.int64, bitcast=False))
    tl.store(out + 3 * N + i, (v & c).to(tl.int64, bitcast=False))
    tl.store(out + 4 * N + i, (c | v).to(tl.int64, bitcast=False))
    tl.store(out + 5 * N + i, (v ^ c).to(tl.int64, bitcast=False))
    tl.store(out + 6 * N + i, tl.where(i % 2 == 0, c, v).to(tl.int64, bitcast=False))
    tl.store(out + 7 * N + i, (c // v).to(tl.int64, bitcast=False))
    tl.store(out + 8 * N + i, (c % v).to(tl.int64, bitcast=False))
    tl.store(out + 9 * N + i, (v // (c | (v != v + 1))).to(tl.int64, bitcast=False))
    tl.store(out + 10 * N + i, (v < c).to(tl.int64, bitcast=False))
    tl.store(out + 11 * N + i, (c == v).to(tl.int64, bitcast=False))


@for_each("kind", INTEGERS)
def test_conditions_next_to_integers_are_0_and_1_of_their_type(kind: Any) -> None:
    ends = np.iinfo(kind)
    y = np.array([1, 2, 3, ends.max, ends.min or 5, ends.max - 1, 100, 1], kind)
    x, i = np.array([1, 0, 5, 1, 0, 7, 0, 0], np.int32), np.arange(8)
    c, one = (x > 0).astype(kind), np.ones(8, kind)
    with np.errstate(over="ignore"):
        rows = [
            c + y, y - c, c * y, y & c, c | y, y ^ c, np.where(i % 2 == 0, c, y),
            np.where(np.abs(y.astype(object)) == 1, c * y, 0), np.where(y == 1, 0, c), y // one,
            y < c, c == y,
        ]  # fmt: skip
    out = np.zeros((len(rows), 8), np.int64)
    with_conditions[(1,)](out, x, y, N=8, on="interpreter")
    for number, row in enumerate(rows):
        assert out[number].tolist() == row.astype(np.int64).tolist(), number


@pytest.mark.sampled(6)
@pytest.mark.parametrize("op", ["div", "mod"])
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_divisions_of_two_signs_are_refused(a: Any, b: Any, op: str) -> None:
    x, y = np.array([-7 if np.dtype(a).kind == "i" else 7] * 8, a), np.full(8, 2, b)
    z = np.zeros(8, np.int64)
    if np.dtype(a).kind == np.dtype(b).kind:
        divide[(1,)](z, x, y, N=8, OP=op)
        assert z[0] == (int(x[0] / 2) if op == "div" else int(np.fmod(x[0], 2)))
    else:
        with pytest.raises(triton.CompilationError, match="same sign"):
            divide[(1,)](z, x, y, N=8, OP=op)


@for_each("op", ["div", "mod"])
@for_each(("a", "b"), PAIRS)
def test_which_divisions_compile(a: Any, b: Any, op: str) -> None:
    arrays = np.zeros(8, np.int64), np.zeros(8, a), np.zeros(8, b)
    if np.dtype(a).kind == np.dtype(b).kind:
        divide.warmup(*arrays, N=8, OP=op, grid=(1,))
    else:
        with pytest.raises(triton.CompilationError, match="same sign"):
            divide.warmup(*arrays, N=8, OP=op, grid=(1,))


@triton.jit
def with_tiles_of_one_number(out, x, N: tl.constexpr):
    a, b = tl.full([N], 7, tl.int32), tl.full([N], -3, tl.int32)
    tl.store(out, tl.sum(a + b, 0))
    tl.store(out + 1, tl.sum(a - b, 0))
    tl.store(out + 2, tl.sum(a * b, 0))
    tl.store(out + 3, tl.sum(a // b, 0))
    tl.store(out + 4, tl.sum(a % b, 0))
    tl.store(out + 5, tl.sum((a > b).to(tl.int32), 0))
    tl.store(out + 6, tl.sum(-a, 0))


def test_tiles_of_one_number_stay_tiles() -> None:
    out = np.zeros(7, np.int32)
    with_tiles_of_one_number[(1,)](out, out, N=8, on="interpreter")
    assert out.tolist() == [8 * n for n in (4, 10, -21, -2, 1, 1, -7)]


@triton.jit
def with_pointers(x, y, OP: tl.constexpr):
    if OP == "==":
        tl.store(x, x == y)
    elif OP == "where":
        tl.load(tl.where(tl.program_id(0) > 0, x, y))
    else:
        tl.store(x, (x + 1) == (y + 1))


@for_each("op", ["==", "where", "moved"])
@for_each(("a", "b"), itertools.product([np.int32, np.float32, np.int8], repeat=2))
def test_pointers_have_a_common_type_with_their_own_alone(a: Any, b: Any, op: str) -> None:
    arrays = np.zeros(8, a), np.zeros(8, b)
    if a is b:
        with_pointers.warmup(*arrays, OP=op, grid=(1,))
    else:
        with pytest.raises(triton.CompilationError, match="no common type"):
            with_pointers.warmup(*arrays, OP=op, grid=(1,))


OPERATORS_OF_NUMBERS = (
    "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} & {}", "{} | {}", "{} ^ {}", "{} << {}",
    "{} >> {}", "{} < {}", "{} == {}", "tl.maximum({}, {})", "tl.where(x == x, {}, {})",
)  # fmt: skip


@for_each("operator", OPERATORS_OF_NUMBERS)
@for_each("other", ["3", "0.5", *(f"tl.load(x).to(tl.{k})" for k in (
    "int1", "int8", "int32", "int64", "uint32", "uint64", "float16", "float32", "float64"
))])  # fmt: skip
def test_pointers_are_no_operands_of_numbers(operator: str, other: str) -> None:
    """In either order. A pointer moves by integers on its right, or is added to one."""
    expressions = [operator.format("x", other), operator.format(other, "x"), f"{other} - x"]
    expressions += [f"x + {other}", f"{other} + x", f"x - {other}"] if "0.5" in other or (
        "float" in other
    ) else []  # fmt: skip
    for expression in expressions:
        with pytest.raises(triton.CompilationError) as caught:
            kernel_of(f"def k(x):\n    a = {expression}").module({"x": "*i32"}, {})
        assert caught.value.line == 2, expression


@for_each("kind", [tl.int1, tl.int8, tl.int16, tl.int32, tl.int64, tl.uint8, tl.uint32, tl.uint64])
def test_bounds_are_the_least_and_the_largest_number(kind: Any) -> None:
    numbers = (False, True) if kind is tl.int1 else (
        np.iinfo(str(kind)).min, np.iinfo(str(kind)).max
    )  # fmt: skip
    assert kind.bounds == numbers
    assert (kind.get_int_min_value(), kind.get_int_max_value()) == numbers


@triton.jit
def with_numbers(out, x):
    v = tl.load(x)
    tl.store(out, v == 300)
    tl.store(out + 1, v > -1)
    tl.store(out + 2, 64 >> (v & 3))
    tl.store(out + 3, v < 0.5)


def test_a_number_in_a_comparison_has_its_own_type() -> None:
    for kind, value, expected in (
        (np.int8, 44, [0, 1, 64, 0]), (np.uint8, 1, [0, 1, 32, 0]), (np.uint32, 0, [0, 0, 64, 1]),
    ):  # fmt: skip
        out = np.zeros(4, np.int32)
        with_numbers[(1,)](out, np.array([value], kind))
        assert out.tolist() == expected, kind


@triton.jit
def tenth(out, x):
    tl.store(out, tl.load(x) == 0.1)
    tl.store(out + 1, tl.maximum(tl.load(x), 0.1) > tl.load(x))


def test_float16_with_a_number_is_compared_as_float32() -> None:
    out = np.zeros(2, np.int32)
    tenth[(1,)](out, np.array([0.1], np.float16))
    assert out.tolist() == [0, 1]


@triton.jit
def convert(z, x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(z + i, tl.load(x + i, i < n, 0).to(z.dtype.element_ty), i < n)


FP8 = [(ml_dtypes.float8_e4m3fn, 448.0), (ml_dtypes.float8_e5m2, 57344.0)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
@pytest.mark.parametrize(("kind", "top"), FP8)
@pytest.mark.parametrize("source_kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_conversions_to_float8_saturate(on: str, kind: Any, top: float, source_kind: Any) -> None:
    x = np.array([60000.0, -60000.0, np.inf, -np.inf, 448.0, 1.0, -0.5, np.nan, 465.0], source_kind)
    z = np.zeros(x.size, kind)
    convert[(1,)](z, x, x.size, N=16, on=on)
    result = z.astype(np.float32)
    assert result[:7].tolist() == [top, -top, top, -top, 448.0, 1.0, -0.5] and np.isnan(result[7])
    assert result[8] == min(top, 448.0)


@triton.jit
def convert_toward_zero(z, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(z + i, tl.load(x + i).to(z.dtype.element_ty, fp_downcast_rounding="rtz"))


NARROW = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.float16, ml_dtypes.bfloat16)


@for_each(("kind", "source_kind"), [
    (kind, source_kind) for kind in NARROW for source_kind in (np.float16, np.float32, np.float64)
    if np.dtype(kind).itemsize < np.dtype(source_kind).itemsize
])  # fmt: skip
def test_conversions_toward_zero_are_of_the_next_number_there(kind: Any, source_kind: Any) -> None:
    """Of numbers at, next to and between those of the type, and beyond the largest one. An infinity
    stays one, or is no number where the type has none."""
    size = np.dtype(kind).itemsize
    with np.errstate(invalid="ignore"):
        every = np.arange(1 << 8 * size, dtype=f"u{size}").view(kind).astype(np.float64)
    exact = np.unique(np.abs(every[np.isfinite(every)]))
    near = exact[:: max(1, exact.size // 400)]
    near = np.concatenate([near, near[1:] * 511 / 512, near[1:] * 513 / 512, exact[-1:] * 2])
    with np.errstate(over="ignore"):
        x = np.concatenate([near, -near, [np.inf, -np.inf, np.nan]]).astype(source_kind)
    x = np.resize(x, 1 << (x.size - 1).bit_length())
    z = np.zeros(x.size, kind)
    convert_toward_zero[(1,)](z, x, N=x.size, on="interpreter")
    wide, expected = x.astype(np.float64), np.full(x.size, np.nan)
    finite, infinite = np.isfinite(wide), np.isinf(wide) & np.isinf(every).any()
    floor = exact[np.searchsorted(exact, np.abs(wide[finite]), side="right") - 1]
    expected[finite] = np.copysign(floor, wide[finite])
    expected[infinite] = wide[infinite]
    np.testing.assert_array_equal(z.astype(np.float64), expected)


@triton.jit
def store_large_numbers(z, w, x):
    tl.store(z, 1e9)
    tl.store(z + 1, tl.load(x))
    tl.store(w + tl.arange(0, 4), tl.full((4,), float("-inf"), w.dtype.element_ty))


@triton.jit
def fill_with_a_number(z, NUMBER: tl.constexpr):
    i = tl.arange(0, 4)
    tl.store(z + i, NUMBER)
    tl.store(z + 4 + i, tl.full((4,), NUMBER, z.dtype.element_ty))
    tl.store(z + 8 + i, tl.where(i < 9, NUMBER, tl.zeros((4,), z.dtype.element_ty)))


@for_each(("kind", "top"), FP8)
def test_numbers_of_8_bits_saturate_and_nan_stays(kind: Any, top: float) -> None:
    for number in (np.nan, np.inf, -np.inf, 1e9, -1e9, top, -top, 0.5, -0.0):
        z = np.zeros(12, kind)
        fill_with_a_number[(1,)](z, NUMBER=number, on="interpreter")
        result = z.astype(np.float64)
        if np.isnan(number):
            assert np.isnan(result).all()
        else:
            expected = np.clip(number, -top, top)
            assert (result == expected).all() and (np.signbit(result) == np.signbit(number)).all()


@pytest.mark.parametrize(("kind", "top"), FP8)
def test_numbers_and_integers_saturate_too(kind: Any, top: float) -> None:
    z, w = np.zeros(2, kind), np.zeros(4, kind)
    store_large_numbers[(1,)](z, w, np.array([-(10**6)], np.int32))
    assert z.astype(np.float32).tolist() == [top, -top]
    assert (w.astype(np.float32) == -top).all()


@triton.jit
def unsigned_casts(out, x):
    v = tl.load(x)
    tl.store(out, v.to(tl.float32).to(tl.float64))
    tl.store(out + 1, v.to(tl.int64).to(tl.float64))
    tl.store(out + 2, (v / 2).to(tl.float64))


def test_unsigned_integers_are_widened_with_zeros() -> None:
    for kind in (np.uint8, np.uint16, np.uint32):
        top = np.iinfo(kind).max - 0
        out = np.zeros(3)
        unsigned_casts[(1,)](out, np.array([top], kind))
        assert out.tolist() == [np.float32(top), top, np.float32(top) / 2]


@triton.jit
def atomic_reduction(d, x, OP: tl.constexpr):
    v = tl.load(x + tl.arange(0, 4)[None, :])
    if OP == "max":
        d.atomic_max([0, 0], v)
    elif OP == "min":
        d.atomic_min([0, 0], v)
    else:
        d.atomic_add([0, 0], v)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("op", ["min", "max", "add"])
def test_atomics_of_descriptors_follow_the_sign(on: str, kind: Any, op: str) -> None:
    half = 1 << np.iinfo(kind).bits - 1
    x = np.array([0, 5, half - 1, half & np.iinfo(kind).max], kind)
    d = np.array([[half & np.iinfo(kind).max, 1, 1, half - 1]], kind)
    meaning: Any = {"min": np.minimum, "max": np.maximum, "add": np.add}[op]
    expected = meaning(d, x)
    atomic_reduction[(1,)](TensorDescriptor(d, [1, 4], [4, 1], [1, 4]), x, OP=op, on=on)
    assert (d == expected).all()


@triton.jit
def quotients(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, v / 3)
    tl.store(out + N + i, 3 / v)
    tl.store(out + 2 * N + i, v / v.to(tl.int32))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_quotients_of_narrow_floats_are_of_32_bits(kind: Any) -> None:
    """By a number, of a number, and by integers (`computation_type_impl` of Triton)."""
    x, out = np.arange(1, 9).astype(kind), np.zeros(24, np.float32)
    quotients[(1,)](out, x, 8)
    wide = x.astype(np.float32)
    np.testing.assert_allclose(out[:8], wide / np.float32(3), rtol=1e-6)
    np.testing.assert_allclose(out[8:16], np.float32(3) / wide, rtol=1e-6)
    np.testing.assert_array_equal(out[16:], 1)


@triton.jit
def extremes_and_multiplications(x, y, bits, numbers):
    i = tl.arange(0, 8)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(bits + i, tl.maximum(a != 0, b != 0).to(tl.int32))
    tl.store(bits + 8 + i, tl.minimum(a != 0, b != 0).to(tl.int32))
    half, other = a.to(tl.float16), b.to(tl.float16)
    tl.store(numbers + i, tl.fma(half, other, a.to(tl.float32)))
    tl.store(numbers + 8 + i, tl.fma(half, other.to(tl.float32), half))


def test_extremes_of_booleans_and_multiplications_of_mixed_floats() -> None:
    """True is greater than False, and the operands of `fma` have one type."""
    x = np.array([0, 1, 0, 1, 2, 3, 4, 5], np.int32)
    y = np.array([0, 0, 1, 1, 7, 8, 9, 1], np.int32)
    bits, numbers = np.zeros(16, np.int32), np.zeros(16, np.float32)
    extremes_and_multiplications[(1,)](x, y, bits, numbers)
    assert bits.tolist() == [*((x != 0) | (y != 0)), *((x != 0) & (y != 0))]
    assert numbers.tolist() == [*(x * y + x)] * 2


FLOATS = (tl.float64, tl.float32, tl.float16, tl.bfloat16)
EIGHT_BITS = (tl.float8e4nv, tl.float8e5)


def type_of_both(a: Any, b: Any, division: bool) -> Any:
    """Of 64 and 32 bits, then float16, take part as they are; bfloat16 with itself only; 8-bit
    floats of two kinds as float16; quotients are of 32 bits at least."""
    wide = next((t for t in FLOATS if t in (a, b)), None)
    if wide is None:
        return a if a == b else tl.float16
    mixed = wide is tl.bfloat16 and a != b
    return tl.float32 if mixed or (division and wide in FLOATS[2:]) else wide


@for_each(("a", "b"), itertools.product((*FLOATS, *EIGHT_BITS), ALL))
@for_each("division", (False, True))
def test_the_type_of_a_float_and_another_type(a: Any, b: Any, division: bool) -> None:
    if not division or not (a in EIGHT_BITS and b in EIGHT_BITS):
        assert promoted_type(a, b, division=division) is type_of_both(a, b, division)
        assert promoted_type(b, a, division=division) is type_of_both(a, b, division)


@triton.jit
def counted_loop(out, a, b, c):
    x, y, z = tl.load(a), tl.load(b), tl.load(c)
    place = out + 2
    for i in range(x, y, z):
        tl.store(out, i.dtype.primitive_bitwidth)
        tl.store(out + 1, i.dtype.is_int_signed())
        tl.store(place, i.to(tl.int64))
        place += 1


@for_each(("start", "end", "step"), itertools.product(INTEGERS, INTEGERS, (np.int32, np.int64)))
def test_a_counter_has_the_type_of_all_bounds(start: Any, end: Any, step: Any) -> None:
    """It reaches as far as the end may be, by steps of any type, among the numbers that are not
    negative as signed ones: loops compare signed numbers, as in Triton."""
    kind = shared_type(shared_type(start, end), step)
    last = min(int(np.iinfo(end).max), (1 << (8 * kind.itemsize - 1)) - 1) - 1
    by = max(1, last // 3)
    if by > np.iinfo(step).max:
        by = int(np.iinfo(step).max)
    numbers = range(1, min(last, 1 + 3 * by), by)
    out = np.zeros(8, np.int64)
    bounds = (np.array([n], k) for n, k in ((1, start), (numbers.stop, end), (by, step)))
    counted_loop[(1,)](out, *bounds, on="interpreter")
    assert out[:2].tolist() == [kind.itemsize * 8, kind.kind == "i"]
    assert out[2 : 2 + len(numbers)].tolist() == list(numbers)


@triton.jit
def unary_ops(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, (~v).to(tl.int64, bitcast=False))
    tl.store(out + N + i, (-v).to(tl.int64, bitcast=False))
    tl.store(out + 2 * N + i, (+v).to(tl.int64, bitcast=False))
    tl.store(out + 3 * N + i, tl.abs(v).to(tl.int64, bitcast=False))
    tl.store(out + 4 * N + i, (~(~v)).to(tl.int64, bitcast=False))
    tl.store(out + 5 * N + i, (v != 0).to(tl.int64, bitcast=False))
    tl.store(out + 6 * N + i, (~(v > 3)).to(tl.int64, bitcast=False))


@for_each("kind", INTEGERS)
def test_operators_of_one_integer_keep_its_type(kind: Any) -> None:
    ends = np.iinfo(kind)
    x = np.array([ends.min, ends.min + 1, 0, 1, 5, ends.max // 2 + 1, ends.max - 1, ends.max], kind)
    out = np.zeros((7, 8), np.int64)
    unary_ops[(1,)](out, x, N=8, on="interpreter")
    with np.errstate(over="ignore"):
        rows = [~x, -x, x, np.abs(x), x, x != 0, ~(x > 3)]
    for row, expected in zip(out, rows, strict=True):
        assert row.tolist() == expected.astype(np.int64).tolist()
