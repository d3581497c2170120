"""Functions of libdevice, by the symbols under which Triton calls them for each type."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.executor import executor
from tileir.frontends.ttir import read
from tileir.frontends.ttir.libdevice import function_of

TYPES = {np.float32: "f32", np.float64: "f64", np.int32: "i32", np.int64: "i64"}
RUN = ["interpreter", "cpu"]
SIZE = 64


def program(symbol, operands, result):
    """A kernel that calls `symbol` of its arguments but the last, and stores to the last."""
    types = [*operands, result]
    names = [f"%p{i}: !tt.ptr<{t}>" for i, t in enumerate(types)]
    lines = [f"%r = tt.make_range {{end = {SIZE} : i32, start = 0 : i32}} : tensor<{SIZE}xi32>"]
    for i, t in enumerate(types):
        pointers = f"tensor<{SIZE}x!tt.ptr<{t}>>"
        lines.append(f"%s{i} = tt.splat %p{i} : !tt.ptr<{t}> -> {pointers}")
        lines.append(f"%a{i} = tt.addptr %s{i}, %r : {pointers}, tensor<{SIZE}xi32>")
        if i < len(operands):
            lines.append(f"%v{i} = tt.load %a{i} : {pointers}")
    values = ", ".join(f"%v{i}" for i in range(len(operands)))
    sources = ", ".join(f"tensor<{SIZE}x{t}>" for t in operands)
    lines.append(
        f"%y = tt.extern_elementwise {values} "
        f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}} : '
        f"({sources}) -> tensor<{SIZE}x{result}>"
    )
    lines.append(f"tt.store %a{len(operands)}, %y : tensor<{SIZE}x!tt.ptr<{result}>>")
    body = "\n    ".join([*lines, "tt.return"])
    return f"module {{\n  tt.func public @kernel({', '.join(names)}) {{\n    {body}\n  }}\n}}\n"


def call(on, symbol, dtype, *operands):
    """`symbol` of arrays, as an array of that type."""
    text = program(symbol, [TYPES[x.dtype.type] for x in operands], TYPES[dtype])
    result = np.zeros(SIZE, dtype)
    arguments = [*(x.copy() for x in operands), result]
    executor(on).launch(read(text, num_warps=4), "kernel", 1, arguments)
    return arguments[-1]


GENERATOR = np.random.default_rng(5)
X, Y = (GENERATOR.uniform(0.5, 4.0, SIZE) for _ in range(2))
A, C = (GENERATOR.integers(-(2**31), 2**31, SIZE).astype(np.int32) for _ in range(2))
L, M = (GENERATOR.integers(-(2**63), 2**63, SIZE) for _ in range(2))


def pairs(x, y):
    return zip(x, y, strict=True)


def wide(x):
    """Numbers of an array as Python's, those of signed types as unsigned."""
    return [int(v) % (1 << 8 * x.itemsize) for v in x]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add_rn", lambda x, y: x + y),
        ("sub_rn", lambda x, y: x - y),
        ("mul_rn", lambda x, y: x * y),
        ("div_rn", lambda x, y: x / y),
        ("rcp_rn", lambda x, y: 1 / x),
        ("sqrt_rn", lambda x, y: np.sqrt(x)),
    ],
)
def test_rounded_functions_of_both_types(on, dtype, name, expected):
    letter = "f" if dtype is np.float32 else "d"
    x, y = X.astype(dtype), Y.astype(dtype)
    operands = (x,) if name[:4] in ("rcp_", "sqrt") else (x, y)
    assert (call(on, f"__nv_{letter}{name}", dtype, *operands) == expected(x, y)).all()


@pytest.mark.parametrize("on", RUN)
def test_directed_rounding_encloses_the_quotient(on):
    x, y = X.astype(np.float32), Y.astype(np.float32)
    low, high = (call(on, f"__nv_fdiv_{r}", np.float32, x, y) for r in ("rd", "ru"))
    exact = x.astype(np.float64) / y
    assert (low <= exact).all()
    assert (exact <= high).all()
    assert (low < high).any()


CONSTANT = """module {{
  tt.func public @kernel(%p: !tt.ptr<{t}>, %q: !tt.ptr<{t}>) {{
    %n = arith.constant dense<{n}> : tensor<64xi32>
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %ps = tt.splat %p : !tt.ptr<{t}> -> tensor<64x!tt.ptr<{t}>>
    %pa = tt.addptr %ps, %r : tensor<64x!tt.ptr<{t}>>, tensor<64xi32>
    %x = tt.load %pa : tensor<64x!tt.ptr<{t}>>
    %y = tt.extern_elementwise %x, %n {{pure = true, symbol = "{symbol}"}} : {signature}
    %qs = tt.splat %q : !tt.ptr<{t}> -> tensor<64x!tt.ptr<{t}>>
    %qa = tt.addptr %qs, %r : tensor<64x!tt.ptr<{t}>>, tensor<64xi32>
    tt.store %qa, %y : tensor<64x!tt.ptr<{t}>>
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(("symbol", "t"), [("__nv_powif", "f32"), ("__nv_powi", "f64")])
@pytest.mark.parametrize("n", [0, 1, 3, -2, 7, 64, 100, -101])
def test_powers_of_a_constant(symbol, t, n):
    """By few multiplications, without a logarithm."""
    signature = f"(tensor<64x{t}>, tensor<64xi32>) -> tensor<64x{t}>"
    text = CONSTANT.format(n=n, symbol=symbol, t=t, signature=signature)
    module = read(text, num_warps=2)
    x = np.sqrt(np.where(np.arange(SIZE) % 2, X, 1 / X)) * np.where(np.arange(SIZE) % 3, -1, 1)
    x = x.astype({"f32": "f4", "f64": "f8"}[t])
    x[0] = np.nan if n == 0 else 1.0
    y = np.zeros_like(x)
    executor("interpreter").launch(module, "kernel", 1, [x, y])
    np.testing.assert_allclose(y, np.power(x.astype(np.float64), n), rtol=1e-5)
    names = [op.mnemonic for op in module.functions["kernel"].ops]
    assert ("pow" in names) == (abs(n) > 64)
    assert n != 3 or names.count("fmul") == 2


@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize(
    ("symbol", "dtype"), [("__nv_powif", np.float32), ("__nv_powi", np.float64)]
)
def test_powers_of_integers(on, symbol, dtype):
    x = np.where(np.arange(SIZE) % 2, -X, X).astype(dtype)
    n = (np.arange(SIZE) % 13 - 6).astype(np.int32)
    n[:3], x[:3] = (16777217, 0, -3), (-1.0, np.nan, -0.0)
    with np.errstate(divide="ignore"):
        expected = np.power(x.astype(np.float64), n)
    np.testing.assert_allclose(call(on, symbol, dtype, x, n), expected, rtol=4e-6)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize(
    ("symbol", "result", "operands", "expected"),
    [
        ("__nv_clzll", np.int32, (L,), lambda x: [64 - v.bit_length() for v in wide(x)]),
        ("__nv_popcll", np.int32, (L,), lambda x: [v.bit_count() for v in wide(x)]),
        ("__nv_ffsll", np.int32, (L,), lambda x: [(v & -v).bit_length() for v in wide(x)]),
        ("__nv_llabs", np.int64, (L,), lambda x: np.abs(x)),
        (
            "__nv_mul64hi", np.int64, (L, M),
            lambda x, y: [int(a) * int(b) >> 64 for a, b in pairs(x, y)],
        ),
        (
            "__nv_umul64hi", np.int64, (L, M),
            lambda x, y: [a * b >> 64 for a, b in pairs(wide(x), wide(y))],
        ),
        (
            "__nv_umulhi", np.int32, (A, C),
            lambda x, y: [a * b >> 32 for a, b in pairs(wide(x), wide(y))],
        ),
        (
            "__nv_uhadd", np.int32, (A, C),
            lambda x, y: [(a + b) >> 1 for a, b in pairs(wide(x), wide(y))],
        ),
        (
            "__nv_urhadd", np.int32, (A, C),
            lambda x, y: [(a + b + 1) >> 1 for a, b in pairs(wide(x), wide(y))],
        ),
        ("__nv_umin", np.int32, (A, C), lambda x, y: np.minimum(wide(x), wide(y))),
        ("__nv_ullmax", np.int64, (L, M), lambda x, y: [max(p) for p in pairs(wide(x), wide(y))]),
        ("__nv_uint2float_rn", np.float32, (A,), lambda x: np.float32(wide(x))),
        ("__nv_uint2double_rn", np.float64, (A,), lambda x: np.float64(wide(x))),
        ("__nv_ull2double_rn", np.float64, (L,), lambda x: np.float64(wide(x))),
        ("__nv_int2float_rn", np.float32, (A,), lambda x: x.astype(np.float32)),
    ],
)  # fmt: skip
def test_functions_of_integers(on, symbol, result, operands, expected):
    reference = expected(*operands)
    if result in (np.int32, np.int64):
        bits = 8 * np.dtype(result).itemsize
        reference = [
            v - (1 << bits) if v >> bits - 1 else v
            for v in (int(w) % (1 << bits) for w in reference)
        ]
    assert (call(on, symbol, result, *operands) == np.array(reference, result)).all()


@pytest.mark.parametrize("on", RUN)
def test_absolute_values(on):
    x = (X - 2).astype(np.float32)
    assert (call(on, "__nv_fabsf", np.float32, x) == np.abs(x)).all()
    assert (call(on, "__nv_fabs", np.float64, X - 2) == np.abs(X - 2)).all()


def ulps(actual, expected):
    """The largest distance, in units of float32's last place at the expected value."""
    expected = np.array(expected, np.float64)
    return (np.abs(actual - expected) / np.spacing(np.abs(expected).astype(np.float32))).max()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("on", [*RUN, "simt"])
@pytest.mark.parametrize(
    ("low", "high"),
    [(1e-30, 0.3), (-0.3, 0.7), (0.7, 1.5), (1.5, 3.0), (3.0, 8.0), (8.0, 1e6), (-1.9, -0.3)],
)
def test_logarithms_of_gamma(low, high, on):
    x = GENERATOR.uniform(low, high, SIZE).astype(np.float32)
    assert ulps(call(on, "__nv_lgammaf", np.float32, x), [math.lgamma(v) for v in x]) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("on", RUN)
def test_logarithms_of_gamma_of_negative_numbers(on):
    x = GENERATOR.uniform(-30, -2, SIZE).astype(np.float32)
    expected = np.array([math.lgamma(v) for v in x])
    result = call(on, "__nv_lgammaf", np.float32, x)
    assert (np.abs(result - expected) <= np.maximum(np.abs(expected) * 4e-7, 2.5e-6)).all()
    for special, limit in ((0.0, math.inf), (-0.0, math.inf), (-7.0, math.inf), (3e38, math.inf),
                           (math.inf, math.inf), (-math.inf, math.inf), (1.0, 0.0), (2.0, 0.0),
                           (-1e30, math.inf)):  # fmt: skip
        assert call(on, "__nv_lgammaf", np.float32, np.full(SIZE, special, np.float32))[0] == limit
    assert np.isnan(call(on, "__nv_lgammaf", np.float32, np.full(SIZE, np.nan, np.float32))).all()


@pytest.mark.parametrize("on", [*RUN, "simt"])
def test_inverses_of_the_error_function(on):
    close = 1 - 10 ** GENERATOR.uniform(-7, -0.1, SIZE // 2)
    x = np.append(close, 10 ** GENERATOR.uniform(-20, 0, SIZE // 2)).astype(np.float32)
    x = np.minimum(x, np.nextafter(np.float32(1), np.float32(0)))
    result = call(on, "__nv_erfinvf", np.float32, x).astype(np.float64)
    # A step of Newton's method from what is found: the distance to the inverse.
    miss = [
        (math.erfc(y) - (1.0 - v) if v > 0.5 else math.erf(y) - v) * (-1 if v > 0.5 else 1)
        for y, v in zip(result, x.astype(np.float64), strict=True)
    ]
    step = np.array(miss) * math.sqrt(math.pi) / 2 * np.exp(result**2)
    assert (np.abs(step) <= 3 * np.spacing(result.astype(np.float32))).all()
    assert (call(on, "__nv_erfinvf", np.float32, -x) == -result.astype(np.float32)).all()


@pytest.mark.parametrize(
    "symbol", ["__nv_lgammaf", "__nv_erfinvf", "__nv_cyl_bessel_i0f", "__nv_cyl_bessel_i1f"]
)
def test_functions_of_f32_are_computed_in_f32(symbol):
    ptx = compile_kernel(read(program(symbol, ["f32"], "f32"), num_warps=4), "sm_90a").ptx
    assert "f64" not in ptx
    assert not re.search(r"(div|sqrt)\.rn", ptx)


# Directions of rounding ---------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, 1e300, -1e300, 3.4028235e38, -3.4028236e38, 1e-46, -1e-46, 1e-40,
           math.inf, -math.inf, 5e-324, 16777217.0, -16777217.0, 0.1, -0.1]  # fmt: skip
INTEGERS = [0, 1, -1, 16777217, -16777217, 33554435, 2**31 - 1, -(2**31), 2**53 + 1, -(2**53) - 1,
            2**63 - 1, -(2**63), 2**62 + 1, 2**24 + 2**54 + 1]  # fmt: skip


def fill_randomly(values, dtype):
    """An array of these values, then random ones."""
    values = np.array(values, dtype)
    if dtype is np.float64:
        rest = GENERATOR.standard_normal(SIZE) * 10.0 ** GENERATOR.integers(-50, 45, SIZE)
    else:
        rest = GENERATOR.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, SIZE)
    return np.append(values, rest.astype(dtype))[:SIZE].copy()


def nearest_float(exact: Fraction, direction: str, kind):
    """The float of type `kind` next to `exact` in a direction."""
    with np.errstate(over="ignore"):
        nearest = kind(exact.numerator / exact.denominator)
        candidates = {kind(np.nextafter(nearest, kind(end))) for end in (-math.inf, math.inf)}
    candidates |= {nearest}
    down = direction == "rd" or (direction == "rz" and exact > 0)
    if down:
        return max(c for c in candidates if c == -math.inf or (c < math.inf and c <= exact))
    return min(c for c in candidates if c == math.inf or (c > -math.inf and c >= exact))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize("direction", ["rd", "ru", "rz"])
@pytest.mark.parametrize(
    ("name", "source", "result"),
    [
        ("double2float", np.float64, np.float32),
        ("int2float", np.int32, np.float32),
        ("uint2float", np.int32, np.float32),
        ("ll2float", np.int64, np.float32),
        ("ull2float", np.int64, np.float32),
        ("ll2double", np.int64, np.float64),
        ("ull2double", np.int64, np.float64),
    ],
)
def test_conversions_in_a_direction(on, direction, name, source, result):
    integers = [v for v in INTEGERS if source is np.int64 or abs(v) < 2**31]
    x = fill_randomly(SPECIAL if source is np.float64 else integers, source)
    actual = call(on, f"__nv_{name}_{direction}", result, x)
    numbers = wide(x) if name[0] == "u" else [v.item() for v in x]
    for number, y in zip(numbers, actual, strict=True):
        expected = (
            result(number)
            if isinstance(number, float) and math.isinf(number)
            else nearest_float(Fraction(number), direction, result)
        )
        assert y == expected, number


@pytest.mark.sampled(6)
@pytest.mark.parametrize("on", [*RUN, "simt"])
@pytest.mark.parametrize("direction", ["rd", "ru", "rz"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_roots_in_a_direction(on, direction, kind):
    least = [1e-45, 1e-38] if kind is np.float32 else [5e-324, 1e-310, 1e-290]
    x = fill_randomly([0.0, 1.0, 4.0, 2.0, 3.0, 1e30, *least], np.float64)
    x = np.minimum(np.abs(x), 3e38).astype(kind)
    letter = "f" if kind is np.float32 else "d"
    result = call(on, f"__nv_{letter}sqrt_{direction}", kind, x)
    for number, y in zip(x, result, strict=True):
        square = Fraction(float(number))
        low, high = (np.nextafter(y, kind(end)) for end in (0.0, math.inf))
        if direction == "ru":
            assert Fraction(float(y)) ** 2 >= square
            assert y == 0 or Fraction(float(low)) ** 2 < square
        else:
            assert Fraction(float(y)) ** 2 <= square < Fraction(float(high)) ** 2
    special = np.resize(np.array([-1.0, math.inf, math.nan], kind), SIZE)
    first, second, third = call(on, f"__nv_{letter}sqrt_{direction}", kind, special)[:3]
    assert np.isnan(first)
    assert np.isnan(third)
    assert second == math.inf


@pytest.mark.parametrize("on", RUN)
def test_words_of_doubles(on):
    x = fill_randomly(SPECIAL, np.float64)
    words = x.view(np.int32).reshape(-1, 2)
    high, low = (words[:, i].copy() for i in (1, 0))
    assert (call(on, "__nv_double2hiint", np.int32, x) == high).all()
    assert (call(on, "__nv_double2loint", np.int32, x) == low).all()
    assert (call(on, "__nv_hiloint2double", np.float64, high, low).view(np.int64)
            == x.view(np.int64)).all()  # fmt: skip
    inverse = call(on, "__nv_rcp64h", np.float64, x)
    assert not (inverse.view(np.int64) & 0xFFFFFFFF).any()
    with np.errstate(divide="ignore"):
        expected = 1 / np.where(np.abs(x) < 2.0**-1022, np.copysign(0.0, x), x)
    np.testing.assert_allclose(inverse, expected, rtol=2.0**-19)


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_every_function_of_tritons_libdevice_has_a_formula():
    source = Path(find_spec("triton").origin).parent / "language/extra/cuda/libdevice.py"
    symbols = set(re.findall(r'"(__nv_\w+)"', source.read_text()))
    assert symbols
    assert [s for s in sorted(symbols) if function_of(s) is None] == []
