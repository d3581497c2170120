"""Matmuls: exact where they can be, within the stated bound elsewhere, and the same bits
in any order of evaluation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.machine import Machine, Tensor, dtype_of
from tileir.machine.matmul import in_order, is_exact, multiply, product
from tileir.op import lookup
from tileir.ops.dot import OperandFormat, Precision
from tileir.ops.matrix import SHAPES, cells
from tileir.types import BF16, F8E4M3, F8E8M0, F16, F32, F64, I8, Tile
from tileir.values import Value

MACHINE = Machine()
DOT: Any = lookup("dot")
SCALED: Any = lookup("dot_scaled")
EPS = {"ieee": 0.0, "tf32": 2.0**-10, "tf32x3": 2.0**-20, "bf16x3": 2.0**-14, "bf16x6": 2.0**-21}


def random(type: Tile, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    dtype = dtype_of(type)
    if type.element.is_integer:
        return rng.integers(-8, 8, type.shape).astype(np.int8).astype(dtype)
    return rng.standard_normal(type.shape).astype(dtype)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [s for s in SHAPES if len(s) > 1])
def test_float_dots_are_within_their_bound(shape: tuple[int, ...]) -> None:
    ran = 0
    for op in cells(DOT, shape):
        a, b, c = (random(v.type, i) for i, v in enumerate(op.inputs))  # type: ignore[arg-type]
        if c.dtype == np.int32:
            continue
        got = op.evaluate(MACHINE, *map(Tensor, (a, b, c))).data
        assert got.dtype == c.dtype
        wide = [v.astype(np.float64) for v in (a, b, c)]
        real = np.matmul(wide[0], wide[1]) + wide[2]
        size = np.matmul(np.abs(wide[0]), np.abs(wide[1])) + np.abs(wide[2])
        final = {2: 2.0**-11, 4: 2.0**-24, 8: 2.0**-50}[c.dtype.itemsize]
        eps = EPS[op.precision.value]  # type: ignore[attr-defined]
        bound = size * (2.1 * eps + 2.0**-48) + np.abs(real) * final * 1.01
        bound += 2.0**-25 if c.dtype.itemsize == 2 else 0.0
        assert (np.abs(got.astype(np.float64) - real) <= bound).all(), op
        ran += 1
    assert ran


@pytest.mark.parametrize("element", [F16, BF16, F32])
def test_one_rounding_of_the_exact_total(element: Any) -> None:
    rng = np.random.default_rng(1)
    a = (rng.standard_normal((4, 9)) * 10.0 ** rng.integers(-4, 4, (4, 9))).astype(
        dtype_of(element)
    )
    b = rng.standard_normal((9, 5)).astype(dtype_of(element))
    c = np.zeros((4, 5), np.float32)
    got = dot(a, b, c)
    for i, j in np.ndindex(4, 5):
        row = zip(a[i], b[:, j], strict=True)
        exact = sum((Fraction(float(x)) * Fraction(float(y)) for x, y in row),
                    Fraction(0))  # fmt: skip
        assert got[i, j] == np.float32(exact.numerator / exact.denominator)


def dot(a: Any, b: Any, c: Any, **settings: Any) -> Any:
    return MACHINE.dot(
        Tensor(a), Tensor(b), Tensor(c), settings.get("precision", "ieee"), (True, True)
    ).data


def test_slices_add_up_in_any_order_of_columns() -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((8, 33)) * 2.0 ** rng.integers(-30, 30, (8, 33))
    b = rng.standard_normal((33, 8))
    order = rng.permutation(33)
    np.testing.assert_array_equal(product(a, b), product(a[:, order], b[order]))
    np.testing.assert_allclose(product(a, b), in_order(a, b), rtol=1e-9)


def test_wide_ranges_keep_small_terms() -> None:
    a = np.array([[1e30, 1e-30]], np.float32)
    b = np.array([[0.0], [1.0]], np.float32)
    assert dot(a, b, np.zeros((1, 1), np.float32))[0, 0] == np.float32(1e-30)


def test_infinities_and_nans_stay_in_their_row_and_column() -> None:
    a = np.ones((2, 3), np.float32)
    a[0, 1] = np.inf
    b = np.ones((3, 2), np.float32)
    b[2, 1] = np.nan
    for precision in Precision:
        got = dot(a, b, np.zeros((2, 2), np.float32), precision=precision.value)
        assert np.isinf(got[0, 0]) and np.isnan(got[:, 1]).all() and got[1, 0] == 3


def test_undefined_elements_reach_their_row_or_column() -> None:
    a, b, c = (Tensor(np.ones((2, 2), np.float32)) for _ in range(3))
    holes = np.array([[True, False], [False, False]])
    got = MACHINE.dot(Tensor(a.data, holes), b, c, "ieee", (True, True))
    assert got.undef is not None and got.undef.tolist() == [[True, True], [False, False]]
    got = MACHINE.dot(a, Tensor(b.data, holes), c, "ieee", (True, True))
    assert got.undef is not None and got.undef.tolist() == [[True, False], [True, False]]


def scaled_dot(a: Tile, b: Tile, c: Tile, *scales: Tile | None, **attributes: Any) -> Any:
    values = [None if s is None else Value(s) for s in scales]
    return SCALED(Value(a), Value(b), Value(c), *values, **attributes)


def test_scales_multiply_groups() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((4, 64)).astype(dtype_of(F8E4M3))
    b = rng.standard_normal((64, 4)).astype(dtype_of(F8E4M3))
    scale = np.array([[1.0, 4.0]] * 4).astype(dtype_of(F8E8M0))
    op = scaled_dot(
        Tile(F8E4M3, (4, 64)), Tile(F8E4M3, (64, 4)), Tile(F32, (4, 4)), Tile(F8E8M0, (4, 2)),
        None, lhs=OperandFormat.E4M3, rhs=OperandFormat.E4M3,
    )  # fmt: skip
    zero = Tensor(np.zeros((4, 4), np.float32))
    got = op.evaluate(MACHINE, Tensor(a), Tensor(b), zero, Tensor(scale), None).data
    wide = a.astype(np.float64)
    wide[:, 32:] *= 4
    np.testing.assert_allclose(got, wide @ b.astype(np.float64), rtol=1e-6)


@for_each("stacked", [(), (3,)])
@for_each("scaled_operands", ["a", "b", "ab", ""])
def test_every_operand_has_scales_of_its_own(
    stacked: tuple[int, ...], scaled_operands: str
) -> None:
    """Both per group of K, [M, K / 32] and [N, K / 32]."""
    rng = np.random.default_rng(4)
    m, n, k = 4, 8, 96
    shapes = {"a": (*stacked, m, k), "b": (*stacked, k, n)}
    operands = {f: rng.integers(-4, 5, s).astype(dtype_of(F8E4M3)) for f, s in shapes.items()}
    scales = {
        f: (2.0 ** rng.integers(-3, 4, (*stacked, rows, 3))).astype(dtype_of(F8E8M0))
        for f, rows in (("a", m), ("b", n))
    }
    types = [Tile(F8E8M0, scales[f].shape) if f in scaled_operands else None for f in "ab"]
    op = scaled_dot(
        *(Tile(F8E4M3, s) for s in shapes.values()), Tile(F32, (*stacked, m, n)), *types,
        lhs=OperandFormat.E4M3, rhs=OperandFormat.E4M3,
    )  # fmt: skip
    wide = {f: v.astype(np.float64) for f, v in operands.items()}
    if "a" in scaled_operands:
        wide["a"] *= np.repeat(scales["a"].astype(np.float64), 32, -1)
    if "b" in scaled_operands:
        wide["b"] *= np.swapaxes(np.repeat(scales["b"].astype(np.float64), 32, -1), -1, -2)
    zero = Tensor(np.zeros((*stacked, m, n), np.float32))
    scale_operands = [Tensor(scales[f]) if f in scaled_operands else None for f in "ab"]
    got = op.evaluate(
        MACHINE, Tensor(operands["a"]), Tensor(operands["b"]), zero, *scale_operands
    ).data
    np.testing.assert_array_equal(got, (wide["a"] @ wide["b"]).astype(np.float32))


@pytest.mark.parametrize("k_pack", [True, False])
def test_packed_e2m1_holds_the_first_number_in_the_low_bits(k_pack: bool) -> None:
    shape = (2, 16) if k_pack else (1, 32)
    bits = np.random.default_rng(4).integers(0, 256, shape, dtype=np.uint8)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    low, high = table[bits & 15], table[bits >> 4]
    if k_pack:
        numbers = np.stack((low, high), -1).reshape(2, 32)
    else:
        numbers = np.concatenate((low, high))
    b = np.eye(32).astype(dtype_of(F16))
    op = scaled_dot(
        Tile(I8, shape), Tile(F16, (32, 32)), Tile(F32, (2, 32)),
        lhs=OperandFormat.E2M1, rhs=OperandFormat.F16, lhs_k_pack=k_pack,
    )  # fmt: skip
    zero = Tensor(np.zeros((2, 32), np.float32))
    got = op.evaluate(MACHINE, Tensor(bits.view(np.int8)), Tensor(b), zero, None, None).data
    np.testing.assert_array_equal(got, numbers)


@pytest.mark.parametrize("k_pack", [True, False])
def test_a_packed_b_is_packed_along_its_k_or_its_columns(k_pack: bool) -> None:
    numbers = np.random.default_rng(6).integers(0, 8, (32, 6))
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    first, second = (slice(i, None, 2) for i in (0, 1))
    low, high = (numbers[s] if k_pack else numbers[:, s] for s in (first, second))
    packed = (low | high << 4).astype(np.int8)
    a = np.random.default_rng(7).integers(-3, 4, (4, 32)).astype(np.float16)
    op = scaled_dot(
        Tile(F16, (4, 32)), Tile(I8, packed.shape), Tile(F32, (4, 6)), lhs=OperandFormat.F16,
        rhs=OperandFormat.E2M1, rhs_k_pack=k_pack,
    )  # fmt: skip
    zero = Tensor(np.zeros((4, 6), np.float32))
    got = op.evaluate(MACHINE, Tensor(a), Tensor(packed), zero, None, None).data
    np.testing.assert_array_equal(got, a.astype(np.float32) @ table[numbers])


def test_nan_scales_make_their_group_nan() -> None:
    one = np.ones((2, 64), dtype_of(F8E4M3))
    scale = np.full((2, 2), 1.0).astype(dtype_of(F8E8M0))
    scale[0, 1] = np.nan
    zero = Tensor(np.zeros((2, 2), np.float32))
    got = MACHINE.dot_scaled(
        Tensor(one), Tensor(one.T), zero, Tensor(scale), None, (True, True)
    ).data
    assert np.isnan(got[0]).all() and (got[1] == 64).all()


def test_f64_dots_are_better_than_one_rounding_per_multiplication() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((3, 20)), rng.standard_normal((20, 3))
    got = dot(a, b, np.zeros((3, 3)))
    assert dtype_of(F64) == got.dtype
    for i, j in np.ndindex(3, 3):
        exact = sum(
            (Fraction(x) * Fraction(y) for x, y in zip(a[i], b[:, j], strict=True)), Fraction(0)
        )
        near = exact.numerator / exact.denominator
        assert abs(got[i, j] - near) <= 2 * np.spacing(abs(near))


@pytest.mark.parametrize(("power", "expected"), [(100, 1.0), (299, 1.0), (300, 0.0), (600, 0.0)])
def test_sums_of_terms_below_two_to_the_300_are_exact_and_others_in_order(
    power: int, expected: float
) -> None:
    row, column = np.array([[2.0**power, 1.0, -(2.0**power)]]), np.ones((3, 1))
    with np.errstate(all="ignore"):
        assert product(row, column) == product(column.T, row.T) == expected


def test_dots_that_are_exact_at_once() -> None:
    """The bound is safe, holds for the usual tile of f16, and its results are the sliced ones."""
    noise = np.random.default_rng(5)
    a, b = (noise.standard_normal(s).astype(np.float16).astype(float) for s in ((9, 32), (32, 7)))
    assert is_exact(a, b)
    in_fractions = [[sum(Fraction(x) * Fraction(y) for x, y in zip(r, c)) for c in b.T] for r in a]  # noqa: B905
    assert product(a, b).tolist() == [[float(x) for x in row] for row in in_fractions]
    assert not is_exact(a * 1.1, b)
    assert not is_exact(a, b * 2.0**20 + 2.0**-24)
    assert not is_exact(a * np.nan, b)
    assert not is_exact(a * 2.0**60, b)


def nearest(number: Fraction, bits: int, away: bool) -> Fraction:
    """To so many significant bits, ties to even or `away` from zero."""
    if not number:
        return number
    size = abs(number)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent += (size >= Fraction(2) ** (exponent + 1)) - (size < Fraction(2) ** exponent)
    unit = Fraction(2) ** (exponent + 1 - bits)
    steps = size / unit
    whole = int(steps + Fraction(1, 2)) if away else round(steps)
    return whole * unit * (1 if number > 0 else -1)


SPLITS = {  # bits of a part, whether ties go away from zero, the pairs of parts that count
    "tf32": (11, True, {(0, 0)}),
    "tf32x3": (11, True, {(0, 0), (0, 1), (1, 0)}),
    "bf16x3": (8, False, {(0, 0), (0, 1), (1, 0)}),
    "bf16x6": (8, False, {(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0)}),
}


@pytest.mark.parametrize("precision", SPLITS)
def test_a_precision_is_the_dots_of_parts_that_it_names(precision: str) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((24, 1), (1, 24)))
    a[:4, 0] = (1 + 2.0**-11, 1 + 2.0**-8, -(1 + 2.0**-23), 1.5 + 2.0**-11 + 2.0**-22)
    bits, away, counted = SPLITS[precision]

    def parts(number: float) -> list[Fraction]:
        rest, result = Fraction(float(number)), list[Fraction]()
        for _ in range(3):
            result.append(nearest(rest, bits, away))
            rest -= result[-1]
        return result

    zero = Tensor(np.zeros((24, 24), np.float32))
    got = MACHINE.dot(Tensor(a), Tensor(b), zero, precision, (True, True)).data
    for i, j in np.ndindex(24, 24):
        left, right = parts(a[i, 0]), parts(b[0, j])
        exact = sum(left[p] * right[q] for p, q in counted)
        assert abs(Fraction(float(got[i, j])) - exact) <= abs(exact) * Fraction(2) ** -24, (i, j)


@pytest.mark.parametrize("shape", [(2, 300, 64, 64), (2, 3, 300, 64, 72), (1, 130, 200, 16)])
def test_dots_of_stacked_tiles_are_those_of_each(shape: tuple[int, ...]) -> None:
    *stacked, m, n, k = shape
    rng = np.random.default_rng(2)
    a = rng.integers(-9, 9, (*stacked, m, k)).astype(np.float64)
    b = rng.integers(-9, 9, (*stacked, k, n)).astype(np.float64)
    np.testing.assert_array_equal(multiply(a, b), a @ b)
    np.testing.assert_array_equal(product(a, b), a @ b)


@pytest.mark.parametrize("ones", [2, 8, 30])
def test_a_sum_just_beyond_53_bits_keeps_its_small_terms(ones: int) -> None:
    """Wherever in the row the large one stands."""
    for at in range(ones + 1):
        a, b = np.ones((1, ones + 1)), np.ones((ones + 1, 1))
        a[0, at], b[at, 0] = 2.0**27, 2.0**26
        assert not is_exact(a, b)
        assert product(a, b)[0, 0] == 2.0**53 + ones
        b[at, 0] = 2.0**25
        assert is_exact(a, b) and product(a, b)[0, 0] == 2.0**52 + ones


def test_many_dots_of_middling_size_are_not_exact_at_once() -> None:
    """Their sum needs more than 53 bits, which none of them does."""
    a, b = np.full((1, 4), 2.0**25 + 1), np.full((4, 1), 2.0**26 + 1)
    assert is_exact(a[:, :1], b[:1])
    assert not is_exact(a, b)
    assert not is_exact(b.T, a.T)


class Recorded(np.ndarray[Any, Any]):
    """An array that notes how many multiplications each dot asks for that it is an operand of."""

    requests: list[int]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        plain = [np.asarray(x) for x in inputs]
        if ufunc is np.matmul:
            Recorded.requests.append(plain[0].shape[-2] * plain[1].shape[-2] * plain[1].shape[-1])
        return getattr(ufunc, method)(*plain, **settings)


@pytest.mark.parametrize("rows", [1, 16, 17, 100])
def test_a_blas_is_given_what_it_does_on_one_thread(rows: int) -> None:
    """2^18 multiplications at once (OpenBLAS, GEMM_MULTITHREAD_THRESHOLD), all in few bands."""
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-9, 9, s).astype(float) for s in ((rows, 128), (128, 128)))
    Recorded.requests = []
    result = multiply(a.view(Recorded), b)
    assert (result == a @ b).all()
    assert max(Recorded.requests) <= 1 << 18 and len(Recorded.requests) == -(-rows // 16)
