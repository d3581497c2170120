"""Error functions and roots, in f64, after fdlibm (Sun Microsystems 1993)."""

from __future__ import annotations

import numpy as np

from tileir.machine.error_free import two_product
from tileir.machine.exponential import exp, horner
from tileir.machine.tensor import Array

_ERX = 8.45062911510467529297e-01
_EFX = 1.28379167095512586316e-01
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
    -8.12874355063065934246e01, -9.81432934416914548592e00,
)  # fmt: skip
_SA = (
    1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02,
    6.45387271733267880336e02, 4.29008140027567833386e02, 1.08635005541779435134e02,
    6.57024977031928170135e00, -6.04244152148580987438e-02,
)  # fmt: skip
_RB = (
    -9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01,
    -1.60636384855821916062e02, -6.37566443368389627722e02, -1.02509513161107724954e03,
    -4.83519191608651397019e02,
)  # fmt: skip
_SB = (
    1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03,
    3.19985821950859553908e03, 2.55305040643316442583e03, 4.74528541206955367215e02,
    -2.24409524465858183362e01,
)  # fmt: skip


def erf(x: Array) -> Array:
    """Error function."""
    size = np.abs(x)
    low = np.minimum(size, 0.84375)
    z = low * low
    small = low + low * (horner(z, _PP) / horner(z, _QQ))
    value = np.where(size < 0.84375, small, _ERX + _middle(size))
    value = np.where(size >= 1.25, 1.0 - _tail(np.clip(size, 1.25, 6.0)), value)
    value = np.where(size >= 6.0, 1.0, value)
    return np.where(np.isnan(x), x, np.copysign(value, x))


def erfc(x: Array) -> Array:
    """Complementary error function."""
    size = np.abs(x)
    low = np.clip(x, -0.84375, 0.84375)
    z = low * low
    y = horner(z, _PP) / horner(z, _QQ)
    small = np.where(low < 0.25, 1.0 - (low + low * y), 0.5 - ((low - 0.5) + low * y))
    middle = _middle(size)
    near = np.where(x > 0, 1.0 - _ERX - middle, 1.0 + (_ERX + middle))
    tail = _tail(np.clip(size, 1.25, 28.0))
    value = np.where(size < 0.84375, small, np.where(size < 1.25, near, tail))
    value = np.where((size >= 1.25) & (x < 0), 2.0 - tail, value)
    value = np.where(x >= 28.0, 0.0, value)
    return np.where(np.isnan(x), x, value)


def _middle(size: Array) -> Array:
    s = np.clip(size, 0.84375, 1.25) - 1.0
    return horner(s, _PA) / horner(s, _QA)


def _tail(size: Array) -> Array:
    s = 1.0 / (size * size)
    inner = horner(s, _RA) / horner(s, _SA)
    outer = horner(s, _RB) / horner(s, _SB)
    ratio = np.where(size < 1.0 / 0.35, inner, outer)
    high = (np.asarray(size).view(np.int64) & ~0xFFFFFFFF).view(np.float64)
    scale = exp(-high * high - 0.5625) * exp((high - size) * (high + size) + ratio)
    return scale / size


def cbrt(x: Array) -> Array:
    """Cube root."""
    mantissa, exponent = np.frexp(np.abs(x))
    third = np.floor_divide(exponent, 3)
    m = np.ldexp(mantissa, exponent - 3 * third)
    t = horner(m, (0.58, 0.43, -0.035))
    for _ in range(5):
        t = t - (t - m / (t * t)) / 3.0
    square, error = two_product(t, t)
    cube, more = two_product(square, t)
    t = t + ((m - cube) - (more + error * t)) / (3.0 * square)
    usual = np.isfinite(x) & (x != 0)
    return np.where(usual, np.copysign(np.ldexp(t, third), x), x)


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return 1.0 / np.sqrt(x)
