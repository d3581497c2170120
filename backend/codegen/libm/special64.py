"""Error functions and roots in f64: the algorithms of `tileir.machine.special` (after fdlibm, Sun
Microsystems 1993)."""

from __future__ import annotations

from tileir.backend.codegen.libm.exponential64 import exp_of_pair
from tileir.backend.codegen.libm.expression import Term, clamp, copysign, fma, horner, nan, where

_ERX = 8.45062911510467529297e-01
_PP = (
    1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
    -5.77027029648944159157e-03, -2.37630166566501626084e-05,
)  # fmt: skip
_QQ = (
    1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
    1.32494738004321644526e-04, -3.96022827877536812320e-06,
)  # fmt: skip
_PA = (
    -2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
    3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
    -2.16637559486879084300e-03,
)  # fmt: skip
_QA = (
    1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
    1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02,
)  # fmt: skip
_RA = (
    -9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e01,
    -6.23753324503260060396e01, -1.62396669462573470355e02, -1.84605092906711035994e02,
    -8.12874355063065934246e01, -9.81432934416914548592e00, 0.0,
)  # fmt: skip
_SA = (
    1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02,
    6.45387271733267880336e02, 4.29008140027567833386e02, 1.08635005541779435134e02,
    6.57024977031928170135e00, -6.04244152148580987438e-02,
)  # fmt: skip
_RB = (
    -9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01,
    -1.60636384855821916062e02, -6.37566443368389627722e02, -1.02509513161107724954e03,
    -4.83519191608651397019e02, 0.0, 0.0,
)  # fmt: skip
_SB = (
    1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03,
    3.19985821950859553908e03, 2.55305040643316442583e03, 4.74528541206955367215e02,
    -2.24409524465858183362e01, 0.0,
)  # fmt: skip


def erf(x: Term) -> Term:
    """Error function."""
    size = abs(x)
    low = size.call("minimumnum", 0.84375)
    small = fma(low, _small(low), low)
    value = where(size < 0.84375, small, _middle(size) + _ERX)
    value = where(size >= 1.25, 1.0 - _tail(clamp(size, 1.25, 6.0)), value)
    value = where(size >= 6.0, 1.0, value)
    return where(nan(x), x, copysign(value, x))


def erfc(x: Term) -> Term:
    """Complementary error function."""
    size = abs(x)
    low = clamp(x, -0.84375, 0.84375)
    y = _small(low)
    inner = fma(low, y, low)
    small = where(low < 0.25, 1.0 - inner, 0.5 - fma(low, y, low - 0.5))
    middle = _middle(size)
    near = where(x > 0.0, (1.0 - _ERX) - middle, (middle + _ERX) + 1.0)
    tail = _tail(clamp(size, 1.25, 28.0))
    tail = where(x < 0.0, 2.0 - tail, tail)
    value = where(size < 0.84375, small, where(size < 1.25, near, tail))
    value = where(x >= 28.0, value.like(0.0), value)
    return where(nan(x), x, value)


def _small(low: Term) -> Term:
    """erf(x) / x - 1 below 0.84375."""
    z = low * low
    return horner(z, _PP) / horner(z, _QQ)


def _middle(size: Term) -> Term:
    """erf(x) - 0.845... from 0.84375 to 1.25."""
    s = clamp(size, 0.84375, 1.25) - 1.0
    return horner(s, _PA) / horner(s, _QA)


def _tail(size: Term) -> Term:
    """erfc from 1.25 to 28."""
    s = 1.0 / (size * size)
    inner = size < 1.0 / 0.35
    numerator = _select_polynomial(inner, s, _RA, _RB)
    ratio = numerator / _select_polynomial(inner, s, _SA, _SB)
    high = (size.bits() & ~0xFFFFFFFF).real()
    first = exp_of_pair(fma(-high, high, -0.5625), s.like(0.0))
    second = exp_of_pair(fma(high - size, high + size, ratio), s.like(0.0))
    return first * second / size


def _select_polynomial(first: Term, x: Term, a: tuple[float, ...], b: tuple[float, ...]) -> Term:
    """One of two polynomials of a length."""
    total = where(first, x.like(a[-1]), b[-1])
    for p, q in zip(a[-2::-1], b[-2::-1], strict=True):
        total = fma(total, x, where(first, x.like(p), q))
    return total


def cbrt(x: Term) -> Term:
    """Cube root: x^(-1/3) by bits, three steps of third order, then x y^2 and what it misses."""
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
    usual = (size > 0.0) & (size < float("inf"))
    return where(usual, copysign(z, x), x)


def rsqrt(x: Term) -> Term:
    """1 / sqrt(x) by two correctly rounded steps."""
    return 1.0 / x.call("sqrt")


FUNCTIONS = {"erf": erf, "erfc": erfc, "cbrt": cbrt, "rsqrt": rsqrt}
"""Functions by mnemonic."""
