"""Error functions and roots in f64."""

from __future__ import annotations

from tileir.backend.codegen.libm.exponential64 import exp_of_pair
from tileir.backend.codegen.libm.expression import (
    Term,
    branch,
    clamp,
    copysign,
    fma,
    horner,
    is_usual,
    nan,
    near_inverse_root,
    reciprocal,
    where,
)
from tileir.types import I32

_SMALL = 0.84375
_ERF = (
    0.12837916709551256, -0.376126389031834, 0.11283791670935311, -0.02686617064077985,
    0.005223977576377844, -0.000854832379116413, 0.00012055199941321885, -1.4922121574443055e-05,
    1.640162967934702e-06, -1.571446067260244e-07, 1.0726571432176348e-08,
)  # fmt: skip
"""erf(x) / x - 1 as a polynomial in x^2 for |x| <= `_SMALL`, to 2^-55."""
_CENTRE = 2.5
_SCALED = (
    1.054031820305718, -0.8046518494391489, 0.4539141166480974, -0.17125114524604768,
    0.028361550131917716, 0.008393044302503086, -0.004818785521449291, -0.00043920826658435606,
    0.000702693701267848, 5.830777604428533e-05, -0.0001126046403430688, -1.953184632636627e-05,
    1.8243176405577403e-05, 6.752314630774579e-06, -2.3268517217966305e-06, -1.957914677038879e-06,
    -2.245783169359759e-08, 4.4683865756949863e-07, 1.661017260512187e-07, -8.707100494822592e-08,
    -6.860862924300017e-08, 3.0115765955077913e-08,
)  # fmt: skip
"""(x + `_CENTRE`) e^(x^2) erfc(x) as a polynomial in t = (x - `_CENTRE`) / (x + `_CENTRE`) from
`_SMALL` to 28, to 2^-54 (the variable is that of Shepherd and Laframboise, "Chebyshev Approximation
of (1 + 2x) exp(x^2) erfc x", 1981)."""


def erf(x: Term) -> Term:
    """Error function."""
    size = abs(x).call("minimumnum", 6.0)
    rest = exp_of_pair(-(size * size), size.like(0.0)) * _erfcx(size)
    value = where(size < _SMALL, fma(size, _near(size), size), 1.0 - rest)
    return where(nan(x), x, copysign(value, x))


def erfc(x: Term) -> Term:
    """Complementary error function."""
    low = clamp(x, -_SMALL, _SMALL)
    y = _near(low)
    small = where(low < 0.25, 1.0 - fma(low, y, low), 0.5 - fma(low, y, low - 0.5))
    size = abs(x).call("minimumnum", 28.0)
    square = size * size
    tail = exp_of_pair(-square, -fma(size, size, -square)) * _erfcx(size)
    tail = where(x < 0.0, 2.0 - tail, tail)
    return where(nan(x), x, where(size < _SMALL, small, tail))


def _near(x: Term) -> Term:
    """erf(x) / x - 1 up to `_SMALL`."""
    return horner(x * x, _ERF)


def _erfcx(size: Term) -> Term:
    """e^(x^2) erfc(x) from `_SMALL` to 28."""
    away = size + _CENTRE
    inverse = reciprocal(away)
    return horner((size - _CENTRE) * inverse, _SCALED) * inverse


def cbrt(x: Term) -> Term:
    """Cube root: an approximation of x^(-1/3) by bits, three steps of third order, then x y^2 and a
    correction by its error."""
    size = abs(x)
    tiny = size < 2.2250738585072014e-308
    scaled = where(tiny, size * 18014398509481984.0, size)
    y = (0x553EF0FF289DD796 - (scaled.bits().floating() * 0.3333333333333333).to_integer()).real()
    for _ in range(3):
        e = fma(-(y * y), scaled * y, 1.0)
        y = fma(y, fma(e * 0.2222222222222222, e, e * 0.3333333333333333), y)
    square = y * y
    z = scaled * square
    cube = z * z
    error = fma(-cube, z, scaled) - fma(z, z, -cube) * z
    z = fma(error, square * 0.3333333333333333, z)
    z = where(tiny, z * 3.814697265625e-06, z)
    usual = is_usual(size)
    return where(usual, copysign(z, x), x)


def rsqrt(x: Term) -> Term:
    """1 / sqrt(x). A branch is taken for numbers that are not positive and normal."""
    if not x.thread.approximates:
        return 1.0 / x.call("sqrt")
    upper = x.bits().unsigned_shift(32).cast("trunc", I32)
    usual = (upper - 0x00100000).compare("ult", 0x7FE00000)
    near = near_inverse_root(x)
    (value,) = branch(~usual, (x.element,), lambda: [_unusual_inverse_root(x)], [near])
    return value


def _unusual_inverse_root(x: Term) -> Term:
    """1 / sqrt(x): of subnormal numbers times 2^54, otherwise what the instruction returns."""
    scaled = x * 2.0**54
    value = near_inverse_root(scaled) * 2.0**27
    return where(is_usual(scaled), value, scaled.ptx("rsqrt.approx.ftz.f64"))


FUNCTIONS = {"erf": erf, "erfc": erfc, "cbrt": cbrt, "rsqrt": rsqrt}
"""Functions by mnemonic."""
