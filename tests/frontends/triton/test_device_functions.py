"""Functions of libdevice against the standard library's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir import TileirError
from tileir.frontends.triton.language.extra import libdevice
from tileir.frontends.triton.language.extra.cuda.libdevice import hypot

NORMAL = NormalDist()


@triton.jit
def apply(out, n, F: tl.constexpr, x, y, z, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n, 1)
    if COUNT == 1:
        value = F(a)
    elif COUNT == 2:
        value = F(a, tl.load(y + i, i < n, 1))
    else:
        value = F(a, tl.load(y + i, i < n, 1), tl.load(z + i, i < n, 1))
    tl.store(out + i, value, i < n)


def of(name: str, *operands: Any, result: Any = None) -> np.ndarray[Any, Any]:
    first = operands[0]
    out = np.zeros(len(first), result or first.dtype)
    three = [*operands, first, first][:3]
    function = getattr(libdevice, name)
    apply[(1,)](out, len(first), function, *three, len(operands), 16)
    return out


ODD = [0.3, -0.7, 2.5, -3.25, 17.0, 0.001, 5.5, 1.0]
SHARE = [0.1, 0.5, 0.9, 0.001, 0.999, 0.3]


def of_half_revolutions(x: float) -> float:
    return math.sin(math.pi * math.fmod(x, 2)) if x != round(x) else 0.0


def bessel_j(n: int, x: float) -> float:
    """Bessel's integral by the trapezoidal rule, which converges exponentially."""
    angles = (np.arange(512) + 0.5) * np.pi / 512
    return float(np.cos(n * angles - x * np.sin(angles)).mean())


def bessel_i(n: int, x: float) -> float:
    angles = (np.arange(512) + 0.5) * np.pi / 512
    return float((np.exp(x * np.cos(angles)) * np.cos(n * angles)).mean())


def bessel_y(n: int, x: float) -> float:
    """By Neumann's series, and the Wronskian for the order 1 (DLMF 10.8.3, 10.5.2)."""
    series = sum((-1) ** k * bessel_j(2 * k, x) / k for k in range(1, 90))
    order_0 = 2 / math.pi * (math.log(x / 2) + np.euler_gamma) * bessel_j(0, x)
    order_0 -= 4 / math.pi * series
    if n == 0:
        return order_0
    return (bessel_j(1, x) * order_0 - 2 / (math.pi * x)) / bessel_j(0, x)


NEAR_AND_FAR = [0.25, 1.0, 3.5, 7.75, 8.0, 8.5, 20.0, 75.0]
BESSEL: list[tuple[str, list[float], Callable[[float], float]]] = [
    ("j0", [*NEAR_AND_FAR, 0.0, -3.0], partial(bessel_j, 0)),
    ("j1", [*NEAR_AND_FAR, 0.0, -3.0, -9.0], partial(bessel_j, 1)),
    ("y0", NEAR_AND_FAR, partial(bessel_y, 0)),
    ("y1", NEAR_AND_FAR, partial(bessel_y, 1)),
    ("cyl_bessel_i0", [*NEAR_AND_FAR, 0.0, -3.0], partial(bessel_i, 0)),
    ("cyl_bessel_i1", [*NEAR_AND_FAR, 0.0, -3.0, -9.0], partial(bessel_i, 1)),
]


@pytest.mark.sampled(1, by="name")
@pytest.mark.parametrize(("name", "inputs", "expected"), BESSEL)
@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 2e-7), (np.float64, 4e-14)])
def test_bessel_functions(
    name: str, inputs: list[float], expected: Callable[[float], float], dtype: Any, error: float
) -> None:
    result, reference = of(name, np.array(inputs, dtype)), np.array([expected(x) for x in inputs])
    if name.startswith("cyl") and dtype is np.float32:
        # Computed in float32. CUDA's mathematical functions promise 6 ulp of these, too.
        assert (np.abs(result - reference) <= 6 * np.spacing(np.abs(reference).astype(dtype))).all()
    else:
        np.testing.assert_allclose(result, reference, rtol=error, atol=error)


def of_many(name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([of(name, x[i : i + 16]) for i in range(0, len(x), 16)])


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1"])
def test_bessel_functions_of_float32_keep_digits_near_their_zeros(name: str) -> None:
    zeros = {
        "j0": [2.404825557695773, 5.520078110286311], "j1": [3.831705970207512, 7.015586669815619],
        "y0": [0.8935769662791675, 3.957678419314858, 7.086051060301773],
        "y1": [2.197141326031017, 5.429681040794135],
    }[name]  # fmt: skip
    units = [np.spacing(np.float32(z)) * np.arange(-8, 8) for z in zeros]
    near = [np.float32(z) + unit for z, unit in zip(zeros, units, strict=True)]
    random = np.random.default_rng(3).uniform(0.01, 8, 96)
    x = np.concatenate([*near, random]).astype(np.float32)
    expected = partial(bessel_j if name[0] == "j" else bessel_y, int(name[1]))
    exact = np.array([expected(float(v)) for v in x])
    off = np.abs(of_many(name, x) - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert off.max() <= 7


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1"])
def test_far_bessel_functions_of_float32_are_near_their_amplitude(name: str) -> None:
    x = np.random.default_rng(4).uniform(8, 70, 128).astype(np.float32)
    expected = partial(bessel_j if name[0] == "j" else bessel_y, int(name[1]))
    exact = np.array([expected(float(v)) for v in x])
    assert (np.abs(of_many(name, x) - exact) <= 3e-7 * np.sqrt(2 / (np.pi * x))).all()


@pytest.mark.parametrize("name", ["cyl_bessel_i0", "cyl_bessel_i1"])
def test_modified_bessel_functions_of_float32_are_within_six_ulp(name: str) -> None:
    """On both sides of 8, where the formula changes, too."""
    eight = np.float32(8) + np.spacing(np.float32(4)) * np.arange(-8, 8)
    x = np.concatenate([[0.0, 1e-4, 0.01], eight, np.random.default_rng(5).uniform(0, 8, 171)])
    x = np.concatenate([x, -x]).astype(np.float32)
    expected = np.array([bessel_i(int(name[-1]), float(v)) for v in x])
    off = np.abs(of_many(name, x) - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert off.max() <= 6


@pytest.mark.parametrize("name", ["cyl_bessel_i0", "cyl_bessel_i1"])
def test_modified_bessel_functions_of_float32_at_the_ends(name: str) -> None:
    result = of(name, np.array([math.inf, -math.inf, math.nan, 88.5, 100.0, 1e-20], np.float32))
    assert result[0] == math.inf and result[1] == (-math.inf if name[-1] == "1" else math.inf)
    assert np.isnan(result[2]) and np.isfinite(result[3]) and result[4] == math.inf
    assert result[5] == (np.float32(1e-20) / 2 if name[-1] == "1" else 1)


def test_bessel_functions_at_the_ends() -> None:
    ends = np.array([0.0, -1.0, math.inf, math.nan, 710.0])
    for second in (of("y0", ends), of("y1", ends)):
        assert second[0] == -math.inf and second[2] == 0
        assert np.isnan(second[[1, 3]]).all()
    assert of("j0", ends)[2] == of("j1", ends)[2] == 0
    assert of("cyl_bessel_i0", ends)[2] == of("cyl_bessel_i1", ends)[2] == math.inf
    assert np.isfinite(of("cyl_bessel_i0", ends)[4])


REAL: list[tuple[str, list[float], Callable[[float], float]]] = [
    ("lgamma", ODD, math.lgamma),
    ("tgamma", ODD, math.gamma),
    ("normcdf", ODD, NORMAL.cdf),
    ("normcdfinv", [0.1, 0.9, 0.001, 0.999], NORMAL.inv_cdf),
    ("erfinv", SHARE, lambda x: NORMAL.inv_cdf((x + 1) / 2) / math.sqrt(2)),
    ("erfcinv", SHARE, lambda x: -NORMAL.inv_cdf(x / 2) / math.sqrt(2)),
    ("erfcx", [-1, 0.5, 1.9, 2.1, 5, 20], lambda x: math.exp(x * x) * math.erfc(x)),
    ("sinpi", [*ODD, 2, -7], of_half_revolutions),
    ("cospi", [0.25, 0.5, 1.5, 3.25, 1, 2, -7.75], lambda x: of_half_revolutions(x + 0.5)),
    ("logb", ODD, lambda x: math.frexp(x)[1] - 1),
    ("rcbrt", [0.3, 8, 27], lambda x: x ** (-1 / 3)),
    ("exp10", [0.3, -2, 5], lambda x: 10.0**x),
    ("saturatef", ODD, lambda x: min(max(x, 0), 1)),
    ("rcp_rn", ODD, lambda x: 1 / x),
    ("rsqrt_rn", [4, 0.3], lambda x: x**-0.5),
    ("fast_expf", ODD, math.exp),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "x", "expected"), REAL, ids=lambda v: v if isinstance(v, str) else ""
)
def test_functions_of_one_float(name: str, x: Any, expected: Any, dtype: Any) -> None:
    values = np.array(x, dtype)
    reference = [expected(float(v)) for v in values]
    tolerance = 3e-5 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(of(name, values), reference, rtol=tolerance, atol=tolerance / 100)


@pytest.mark.slow
def test_ends_of_the_range() -> None:
    x = np.array([0, -1, math.inf, -math.inf, math.nan], np.float32)
    np.testing.assert_array_equal(of("lgamma", x)[:4], [math.inf] * 4)
    assert np.isnan(of("tgamma", x[1:2]))[0]
    unit = np.array([1, -1, 0], np.float32)
    assert of("erfinv", unit).tolist() == [math.inf, -math.inf, 0]
    assert of("erfcinv", np.array([0, 2, 1], np.float32)).tolist() == [math.inf, -math.inf, 0]
    small = np.array([1e-42, 0, math.inf, 3e38], np.float32)
    assert of("ilogb", small, result=np.int32).tolist() == [-140, -(2**31), 2**31 - 1, 127]
    assert of("signbit", np.array([-0.0, 0.0], np.float32), result=np.int32).tolist() == [1, 0]
    assert of("finitef", x, result=np.int32).tolist() == [1, 1, 0, 0, 0]


def float32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def test_functions_of_two_floats() -> None:
    x, y = float32(3, 1e30, -5, 0, math.inf), float32(4, 1e30, 12, 0, 1)
    np.testing.assert_allclose(of("hypot", x, y), np.hypot(x, y), rtol=1e-6)
    np.testing.assert_allclose(of("norm3d", float32(2), float32(3), float32(6)), [7], rtol=1e-6)
    x, y = float32(5.5, -5.5, 7, 3, 1e10, 2.5, 3.5), float32(2, 2, 4, math.inf, 3, 1, 1)
    expected = [math.remainder(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert of("remainder", x, y).tolist() == expected
    assert of("fdim", float32(3, 1), float32(1, 3)).tolist() == [2, 0]
    x, y = float32(1, 1, 0, -1, -1, 0, 3), float32(2, 0, 1, 0, -2, -1, 3)
    np.testing.assert_array_equal(of("nextafter", x, y), np.nextafter(x, y))
    by = np.array([10, -5, 120, 200, -140], np.int32)
    x = float32(1, 3, 1e-40, 1, 1.5)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(of("ldexp", x, by), np.ldexp(x, by))


def test_roundings() -> None:
    up, down = of("add_ru", float32(1), float32(1e-9)), of("add_rd", float32(1), float32(1e-9))
    assert up[0] == np.nextafter(np.float32(1), np.float32(2)) and down[0] == 1
    x = float32(2.5, -2.5, 3.7, -3.7)
    for name, function in (("rn", round), ("rd", math.floor), ("ru", math.ceil), ("rz", int)):
        result = of(f"float2int_{name}", x, result=np.int32)
        assert result.tolist() == [function(v) for v in x.tolist()]
    assert of("llrint", x, result=np.int64).tolist() == [2, -2, 4, -4]
    assert of("llround", x, result=np.int64).tolist() == [3, -3, 4, -4]


@triton.jit
def square_minus_one(out, x, ALONE: tl.constexpr):
    a = tl.load(x)
    tl.store(out, (libdevice.mul_rn(a, a) if ALONE else a * a) - 1.0)


def test_a_multiplication_may_be_kept_separate() -> None:
    for alone in (True, False):
        out = np.zeros(1, np.float32)
        square_minus_one[(1,)](out, float32(1.1), alone)
        assert out[0] == np.float32(1.1) * np.float32(1.1) - np.float32(1)


INTEGERS = np.array([0, 1, -1, 12345678, -87654321, 2**31 - 1, -(2**31)], np.int32)


def word(x: int) -> str:
    return format(x & 0xFFFFFFFF, "032b")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("popc", lambda x: word(x).count("1")),
        ("clz", lambda x: len(word(x)) - len(word(x).lstrip("0"))),
        ("ffs", lambda x: (x & -x & 0xFFFFFFFF).bit_length()),
        ("brev", lambda x: int(np.uint32(int(word(x)[::-1], 2)).view(np.int32))),
    ],
)
def test_functions_of_one_integer(name: str, expected: Any) -> None:
    assert of(name, INTEGERS).tolist() == [expected(x) for x in INTEGERS.tolist()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mulhi", lambda x, y: (x * y) >> 32),
        ("hadd", lambda x, y: (x + y) >> 1),
        ("rhadd", lambda x, y: (x + y + 1) >> 1),
    ],
)
def test_functions_of_two_integers(name: str, expected: Any, dtype: Any) -> None:
    x = np.array([0xFFFFFFFB, 0x7FFFFFFF, 12], np.uint32).view(dtype)
    y = np.array([7, 0x7FFFFFFF, 0xFFFFFFF0], np.uint32).view(dtype)
    reference = [expected(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert of(name, x, y).tolist() == reference


def test_bytes_and_bits() -> None:
    x, y = np.array([0x33221100], np.int32), np.array([0x77665584], np.int32)
    picked = of("byte_perm", x, y, np.array([0x7C41], np.int32), result=np.uint32)
    assert hex(picked[0]) == "0x77ff8411"
    three = np.array([5], np.int32), np.array([9], np.int32), np.array([100], np.int32)
    assert of("sad", *three).tolist() == [104]
    assert of("mul24", np.array([-5], np.int32), np.array([7], np.int32)).tolist() == [-35]
    assert of("float_as_int", float32(1), result=np.int32).tolist() == [0x3F800000]
    assert of("int_as_float", np.array([0x3F800000], np.int32), result=np.float32).tolist() == [1]


@triton.jit
def bessel(x):
    tl.store(x, libdevice.jn(2, 1.0))


@triton.jit
def of_pointers(x):
    hypot(x, x)


@triton.jit
def bits_of_floats(x):
    libdevice.popc(tl.load(x))


@pytest.mark.parametrize("kernel", [bessel, of_pointers, bits_of_floats])
def test_what_has_no_meaning_is_refused(kernel: Any) -> None:
    with pytest.raises(TileirError) as caught:
        kernel.module({"x": "*fp32"})
    assert caught.value.code == "TIR1003"
