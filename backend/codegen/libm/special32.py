"""Error functions and the cube root in f32; polynomials as in `exponential32`."""

from __future__ import annotations

from tileir.backend.codegen.libm.exponential32 import (
    exp_scaled,
    near_exp,
    reduce_argument,
)
from tileir.backend.codegen.libm.expression import (
    Term,
    clamp,
    copysign,
    fma,
    horner,
    is_usual,
    ldexp,
    nan,
    quotient,
    reciprocal,
    where,
)

_ERF = (
    0.12837917, -0.3761263, 0.11283626, -0.026855728, 0.005192376, -0.0008049127, 7.9923426e-05,
)  # fmt: skip
"""erf(x) / x - 1 in x^2 below 0.92."""
_ERF_TAIL = (
    0.12864563, 0.63516295, 0.10621762, -0.023745468, 0.0036346097, -0.00032087302, 1.1038387e-05,
)  # fmt: skip
"""-ln(erfc(x)) / x - 1 from 0.92 to 4."""
_ERFC = (
    1.2769784, -0.092763916, -0.16603094, 0.16405459, -0.054207683, -0.008057933, 0.00864111,
    0.0013143413, -0.0012390835, -0.0004052913,
)  # fmt: skip
"""(1 + 2 a) e^(a a) erfc(a) in (a - 2) / (a + 2), for a to 10.06."""


def erf(x: Term) -> Term:
    """Error function: a polynomial below 0.92, 1 - e^-p above."""
    size = abs(x)
    square = x * x
    small = fma(x, horner(square, _ERF), x)
    if x.thread.approximates:  # for 4 and above, e^-p is below half an ulp of 1
        power = fma(size, horner(size, _ERF_TAIL), size) * -1.442695
        tail = power.ptx("ex2.approx.ftz.f32")
    else:
        clamped = clamp(size, 0.0, 4.0)
        tail = exp_scaled(-fma(clamped, horner(clamped, _ERF_TAIL), clamped))
    return where(size >= 0.92, copysign(1.0 - tail, x), small)


def erfc(x: Term) -> Term:
    """Complementary error function: p(q) e^(-a a) / (1 + 2 a), corrected by the rounding error of a
    a; for negative numbers, 2 minus that."""
    size = clamp(abs(x), 0.0, 10.07)
    inverse = reciprocal(size + 2.0)
    q = (size - 2.0) * inverse
    q = fma(fma(-q, size + 2.0, size - 2.0), inverse, q)
    ratio = horner(q, _ERFC)
    square = size * size
    lost = fma(size, size, -square)
    n, r = reduce_argument(-square)
    power = near_exp(r) + 1.0
    power = fma(power, -lost, power)
    value = ldexp(quotient(ratio, fma(size, 2.0, 1.0)) * power, n)
    value = where(x < 0.0, 2.0 - value, value)
    return where(nan(x), x, value)


def cbrt(x: Term) -> Term:
    """Cube root: an approximation from the logarithm or from the bits, refined by Newton-like
    steps."""
    size = abs(x)
    value = _root_by_logarithm(size) if x.thread.approximates else _root_by_bits(size)
    return where(is_usual(size), copysign(value, x), x)


def _root_by_logarithm(size: Term) -> Term:
    """2^(log2(a) / 3), correct to 16 bits, and one Newton step: y + (a / y^2 - y) / 3."""
    y = (size.ptx("lg2.approx.f32") * 0.333333343).ptx("ex2.approx.ftz.f32")
    return fma(fma(size, reciprocal(y * y), -y), 0.333333343, y)


def _root_by_bits(size: Term) -> Term:
    """An approximation of x^(-1/3) by bits, two steps of third order, then x y^2 and a correction
    by its error."""
    tiny = size < 1.17549435e-38
    scaled = where(tiny, size * 16777216.0, size)
    y = _third_of_bits(scaled).real()
    for _ in range(2):
        e = fma(-(y * y), scaled * y, 1.0)
        y = fma(y, fma(e * 0.222222222, e, e * 0.333333343), y)
    square = y * y
    z = scaled * square
    error = fma(-(z * z), z, scaled)
    z = fma(error, square * 0.333333343, z)
    return where(tiny, z * 0.00390625, z)


def _third_of_bits(x: Term) -> Term:
    """The bits of an approximation of x^(-1/3): a constant minus a third of the bits of `x`."""
    third = x.bits().floating() * 0.333333343
    return 0x54A20000 - third.cast("fptosi", x.bits().element)


FUNCTIONS = {"erf": erf, "erfc": erfc, "cbrt": cbrt}
"""Functions by mnemonic."""
