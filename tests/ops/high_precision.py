"""Functions to 60 digits, in decimal arithmetic: slow, short, and unlike what they check."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext

DIGITS = 60
Real = Callable[..., Decimal]


def arctangent(x: Decimal) -> Decimal:
    """Halve the angle until the series converges fast."""
    halvings = 0
    while abs(x) > Decimal("0.05"):
        x = x / (1 + (1 + x * x).sqrt())
        halvings += 1
    total, term, n = x, x, 1
    while abs(term) > Decimal(10) ** -(DIGITS + 5) * abs(total) and term:
        term = -term * x * x
        n += 2
        total += term / n
    return total * 2**halvings


with localcontext() as _context:
    _context.prec = 400
    PI = 4 * (4 * (lambda x: sum(((-1) ** k * x ** (2 * k + 1) / (2 * k + 1) for k in range(300)),
                                 Decimal(0)))(Decimal(1) / 5)
              - (lambda x: sum(((-1) ** k * x ** (2 * k + 1) / (2 * k + 1) for k in range(90)),
                               Decimal(0)))(Decimal(1) / 239))  # fmt: skip


def sine(x: Decimal) -> Decimal:
    """Series of the argument less whole revolutions, at enough digits for any f64."""
    with localcontext() as context:
        context.prec = 390
        x = x - (x / (2 * PI)).to_integral_value() * 2 * PI
    total, term, n = x, x, 1
    while abs(term) > Decimal(10) ** -(DIGITS + 20):
        term = -term * x * x / ((n + 1) * (n + 2))
        n += 2
        total += term
    return total


def cosine(x: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 390
        shifted = x + PI / 2
    return sine(shifted)


def error_function(x: Decimal) -> Decimal:
    total = term = x
    n = 0
    while abs(term) > Decimal(10) ** -(DIGITS + 150) * abs(total):
        n += 1
        term = -term * x * x / n
        total += term / (2 * n + 1)
    return 2 / PI.sqrt() * total


def complement(x: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS + 500 if abs(x) < 30 else DIGITS
        return 1 - error_function(x)


def arcsine(x: Decimal) -> Decimal:
    return PI / 2 * x if abs(x) == 1 else arctangent(x / (1 - x * x).sqrt())


def arccosine(x: Decimal) -> Decimal:
    return 2 * arctangent(((1 - x) / (1 + x)).sqrt()) if x > -1 else +PI


def angle(y: Decimal, x: Decimal) -> Decimal:
    if x > 0:
        return arctangent(y / x)
    return arctangent(y / x) + (PI if y >= 0 else -PI) if x else (PI / 2).copy_sign(y)


def power(x: Decimal, y: Decimal) -> Decimal:
    return (x.ln() * y).exp()


FUNCTIONS: dict[str, Real] = {
    "exp": lambda x: x.exp(),
    "exp2": lambda x: (x * Decimal(2).ln()).exp(),
    "expm1": lambda x: x.exp() - 1,
    "log": lambda x: x.ln(),
    "log2": lambda x: x.ln() / Decimal(2).ln(),
    "log10": lambda x: x.ln() / Decimal(10).ln(),
    "log1p": lambda x: (1 + x).ln(),
    "sin": sine,
    "cos": cosine,
    "tan": lambda x: sine(x) / cosine(x),
    "asin": arcsine,
    "acos": arccosine,
    "atan": arctangent,
    "atan2": angle,
    "sinh": lambda x: (x.exp() - (-x).exp()) / 2,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "tanh": lambda x: 1 - 2 / ((2 * x).exp() + 1),
    "asinh": lambda x: (abs(x) + (x * x + 1).sqrt()).ln().copy_sign(x),
    "acosh": lambda x: (x + (x * x - 1).sqrt()).ln(),
    "atanh": lambda x: ((1 + x) / (1 - x)).ln() / 2,
    "erf": error_function,
    "erfc": complement,
    "cbrt": lambda x: (abs(x).ln() / 3).exp().copy_sign(x),
    "rsqrt": lambda x: 1 / x.sqrt(),
    "pow": power,
}


def real(name: str, *operands: float) -> Decimal:
    """The value of a function at f64 operands, good for 40 digits where it cancels."""
    with localcontext() as context:
        context.prec = DIGITS + 60
        return FUNCTIONS[name](*map(Decimal, operands))


assert getcontext().prec < DIGITS
