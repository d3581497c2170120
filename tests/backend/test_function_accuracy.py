"""Mathematical functions as formulas over threads, against numbers of 60 digits: how far off they
are at worst, in units in the last place. The bounds are measured, so what makes a function worse
shows, even where it still keeps what its op promises."""

import json
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.codegen.libm.expression import Term
from tileir.backend.codegen.libm.fmod import remainder
from tileir.backend.codegen.libm.payne_hanek import reduce32, reduce64
from tileir.backend.codegen.libm.trigonometric64 import reduce
from tileir.backend.codegen.rules.math import _DOUBLE, _SINGLE
from tileir.backend.cpu.approximate import FORMULAS
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.machine.functions import _F64
from tileir.op import lookup
from tileir.types import F32, F64

ROOT = Path(__file__).parents[2]
DIGITS = 60


def evaluate(function, element, *numbers, approximates=True):
    """With `approximates`, powers, reciprocals and roots are instructions, which the simulator
    rounds; else they are formulas, as on a CPU."""
    thread = SimtThread(len(numbers[0]), (0, 0, 0), (1, 1, 1), SimtMemory(0))
    thread.approximates = approximates
    with np.errstate(all="ignore"):
        return function(
            *(Term(thread, element, ThreadValues(np.ascontiguousarray(x))) for x in numbers)
        )


def log(x):
    return x.ln()


def area(x, sign):
    return (x + (x * x + sign).sqrt()).ln()


EXACT = {
    "exp": lambda x: x.exp(),
    "exp2": lambda x: (x * Decimal(2).ln()).exp(),
    "expm1": lambda x: x.exp() - 1,
    "log": log,
    "log2": lambda x: x.ln() / Decimal(2).ln(),
    "log10": lambda x: x.log10(),
    "log1p": lambda x: (1 + x).ln(),
    "sinh": lambda x: (x.exp() - (-x).exp()) / 2,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "tanh": lambda x: 1 - 2 / ((2 * x).exp() + 1),
    "asinh": lambda x: area(abs(x), 1).copy_sign(x),
    "acosh": lambda x: area(x, -1),
    "atanh": lambda x: ((1 + x) / (1 - x)).ln() / 2,
    "cbrt": lambda x: ((abs(x).ln() / 3).exp()).copy_sign(x),
    "rsqrt": lambda x: 1 / x.sqrt(),
}

WORST_F64 = {
    "acosh": 1.78, "asinh": 2.19, "atanh": 2.01, "cbrt": 0.5, "cosh": 0.99, "exp": 0.69, "exp2":
    0.78, "expm1": 0.92, "log": 0.72, "log10": 0.61, "log1p": 0.71, "log2": 0.56, "rsqrt": 1.34,
    "sinh": 1.58, "tanh": 1.94,
}  # fmt: skip
WORST_F32 = {
    "acos": 1.31, "acosh": 1.63, "asin": 1.57, "asinh": 1.63, "atan": 1.03, "atanh": 1.71, "cbrt":
    0.73, "cos": 1.11, "cosh": 1.32, "erf": 0.78, "erfc": 3.82, "exp": 0.96, "exp2": 0.93,
    "expm1": 1.47, "log": 0.85, "log10": 0.83, "log1p": 1.43, "log2": 0.81, "rsqrt": 0.5, "sin":
    1.25, "sinh": 1.4, "tan": 2.04, "tanh": 1.25,
}  # fmt: skip


WORST_WITH_INSTRUCTIONS = {**WORST_F32, "erf": 0.74, "exp": 0.99, "tanh": 1.57,
                           "cosh": 1.33, "cbrt": 0.9}  # fmt: skip


def domain(name, count):
    """Numbers that the function takes, of all sizes at which it is not its limit."""
    random = np.random.default_rng(7)
    mild, wide = random.uniform(-0.75, 0.75, count), random.uniform(-20, 20, count)
    small, large = np.exp(random.uniform(-40, 0, count)), np.exp(random.uniform(0, 300, count))
    if name in ("log", "log2", "log10", "rsqrt"):
        return np.concatenate([1 + mild, small, large])
    if name == "acosh":
        return 1 + np.concatenate([abs(mild), small, large])
    if name == "atanh":
        return np.concatenate([mild, small * 0.99, 1 - abs(mild) / 2])
    if name == "log1p":
        beyond = 0.4142136 + abs(mild) / 1000  # where the logarithm is no longer taken of x itself
        return np.concatenate([mild, -small * 0.99, small, large, beyond])
    if name in ("asinh", "cbrt"):
        return np.concatenate([mild, wide, small, large])
    return np.concatenate([mild, wide, small])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sorted(EXACT))
def test_f64_is_as_near_as_measured(name):
    x = domain(name, 400)
    result = evaluate(_DOUBLE[name], F64, x).handle.array
    with localcontext() as context:
        context.prec = DIGITS
        exact = [EXACT[name](Decimal(float(v))) for v in x]
        unit = np.spacing(np.abs(np.array([float(e) for e in exact])))
        off = [abs(Decimal(float(f)) - e) / Decimal(float(u))
               for f, e, u in zip(result, exact, unit, strict=True)]  # fmt: skip
    assert max(off) <= WORST_F64[name]


@pytest.mark.sampled(31)
@pytest.mark.parametrize("approximates", [False, True])
@pytest.mark.parametrize("name", sorted(set(_SINGLE) - {"pow", "atan2"}))
def test_f32_is_as_near_as_measured(name, approximates):
    x = np.minimum(domain(name if name in EXACT else "exp", 4000), 3e38).astype(np.float32)
    result = evaluate(_SINGLE[name], F32, x, approximates=approximates)
    results = result.handle.array.astype(np.float64)
    with np.errstate(all="ignore"):
        exact = _F64[name](x.astype(np.float64))
        off = np.abs(results - exact) / np.spacing(np.abs(exact.astype(np.float32)))
    worst = WORST_WITH_INSTRUCTIONS if approximates else WORST_F32
    assert np.nanmax(off[np.isfinite(off)]) <= worst[name]


SPECIAL = np.array(
    [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7FBFFFFF,
     0x3F800000, 0x3F7FFFFF, 0x3F800001, 0x33800000, 0x42B17218, 0x42AEAC50, 0x42CFF1B5],
    np.uint32,
)  # fmt: skip
"""Bits at the ends of formats and of domains."""


def of_any_bits(seed, count):
    """Numbers of any exponent, subnormal ones and special ones, of both signs."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 32, count).astype(np.uint32)
    small = random.integers(0, 1 << 23, count // 16).astype(np.uint32)
    bits = np.concatenate([bits, small, SPECIAL])
    return np.concatenate([bits, bits ^ np.uint32(1 << 31)]).view(np.float32)


GREATEST = float(np.finfo(np.float32).max)


def assert_near(result, exact, most):
    """NaNs, infinities and signs are where they should be, other numbers within `most` units. A
    number within those of the greatest may be infinite."""
    result, exact = (v[~(np.abs(np.abs(exact) - GREATEST) < 1e32)] for v in (result, exact))
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        off = np.abs(result - exact) / np.spacing(np.abs(rounded))
    np.testing.assert_array_equal(np.isnan(result), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(rounded))
    there = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(result[there]), np.signbit(rounded[there]))
    assert off[np.isfinite(rounded)].max() <= most


@pytest.mark.sampled(14)
@pytest.mark.parametrize("approximates", [False, True])
@pytest.mark.parametrize("name", sorted(set(_SINGLE) - {"pow", "atan2"}))
def test_f32_of_any_bits(name, approximates):
    x = of_any_bits(11, 6000)
    result = evaluate(_SINGLE[name], F32, x, approximates=approximates).handle.array
    with np.errstate(all="ignore"):
        assert_near(result, _F64[name](x.astype(np.float64)), {"erfc": 4, "tan": 2.5}.get(name, 2))


@pytest.mark.parametrize("approximates", [False, True])
@pytest.mark.parametrize(("name", "of"), [("pow", np.power), ("atan2", np.arctan2)])
def test_f32_of_any_two_numbers(name, of, approximates):
    x = of_any_bits(12, 6000)
    y = np.random.default_rng(3).permutation(x)
    whole = np.rint(np.random.default_rng(4).uniform(-40, 40, len(x))).astype(np.float32)
    numbers = SPECIAL.view(np.float32)
    numbers = np.concatenate([numbers, -numbers, np.array([2, 3, 0.5, 8388609.5], np.float32)])
    pairs = np.meshgrid(numbers, numbers)
    x, y = np.concatenate([x, x, *pairs[0]]), np.concatenate([y, whole, *pairs[1]])
    result = evaluate(_SINGLE[name], F32, x, y, approximates=approximates).handle.array
    with np.errstate(all="ignore"):
        assert_near(result, of(x.astype(np.float64), y.astype(np.float64)), 2)


@pytest.mark.parametrize(("approximates", "worst"), [(False, 1.11), (True, 1.32)])
def test_powers_are_as_near_as_measured(approximates, worst):
    """Where the logarithm's error counts most: of numbers near 1, to powers near overflow."""
    random = np.random.default_rng(5)
    x = np.exp(random.uniform(-0.35, 0.35, 20000)).astype(np.float32)
    y = (random.uniform(60, 88, 20000) / np.log(x)).astype(np.float32)
    result = evaluate(_SINGLE["pow"], F32, x, y, approximates=approximates)
    results = result.handle.array.astype(np.float64)
    exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert np.max(np.abs(results - exact) / np.spacing(exact.astype(np.float32))) <= worst


BASES = (0.0, 1.0, 2.0, 3.0, 0.5, 2.5, np.inf, 1e-45, 1e-40, 3e38, 1.0000001, 0.9999999, 150.0)
EXPONENTS = (*BASES, 127.0, 128.0, 4194303.5, 8388608.5, 16777215.0, 16777216.0)


@pytest.mark.parametrize("approximates", [False, True])
@pytest.mark.parametrize("element", [F32, F64])
def test_powers_of_special_numbers(element, approximates):
    """Zeros, infinities, NaNs, negative bases, whole and odd exponents up to where all are even."""
    kind, functions = (np.float32, _SINGLE) if element is F32 else (np.float64, _DOUBLE)
    bases, exponents = ([*v, *(-u for u in v), np.nan] for v in (BASES, EXPONENTS))
    x, y = (v.ravel().astype(kind) for v in np.meshgrid(bases, exponents))
    result = evaluate(functions["pow"], element, x, y, approximates=approximates).handle.array
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64)).astype(kind)
    unusual = ~np.isfinite(exact)
    np.testing.assert_array_equal(result[unusual], exact[unusual])
    numbers, expected = result[~unusual].astype(np.float64), exact[~unusual].astype(np.float64)
    assert np.array_equal(np.signbit(numbers), np.signbit(expected))
    assert (np.abs(numbers - expected) <= 2 * np.spacing(np.abs(exact[~unusual]))).all()


PROMISED: dict[str, tuple[float, float]] = {
    "ex2": (2, 0), "rcp": (1, 0), "rsqrt": (0, 2**-22.9), "sqrt": (0, 2**-23), "tanh": (0, 2**-11),
    "lg2": (0, 2**-22),
}  # fmt: skip
"""Errors of `.approx.f32`, in ulp and relative (PTX ISA, "Floating-Point Instructions"); that of
`lg2` is absolute for results below 1."""


class WorstThread(SimtThread):
    """A thread whose approximate instructions are as far off as PTX allows: above the exact
    result, below it, or either."""

    side = 0

    def instruction(self, text, result, operands):
        near = super().instruction(text, result, operands)
        name = text.split(".")[0]
        if ".approx" not in text or name not in PROMISED:
            return near
        ulp, relative = PROMISED[name]
        value = near.array.astype(np.float64)
        size = np.maximum(np.abs(value), 1.0 if name == "lg2" else 0.0)
        off = ulp * np.spacing(np.abs(near.array)).astype(np.float64) + relative * size
        signs = (
            np.random.default_rng(13).choice([-1, 1], len(value)) if self.side == 0 else self.side
        )
        with np.errstate(all="ignore"):
            moved = (value + signs * off).astype(np.float32)
        usual = np.isfinite(near.array) & (near.array != 0)
        return ThreadValues(np.where(usual, moved, near.array))


EXHAUSTED = {"exp", "rsqrt"}
"""What PTX's promises leave above the op's bound; `benchmarks/results/functions.json` has its error
over all numbers on a GPU."""


@pytest.mark.parametrize("name", sorted(EXHAUSTED))
def test_f32_was_within_its_bound_on_a_gpu(name):
    """Over all numbers, `exp` as libdevice's function, which has the op's numerics."""
    rows = json.loads((ROOT / "benchmarks/results/functions.json").read_text())["rows"]
    result = rows[{"exp": "exact exp"}.get(name, name)]["tileir"]
    assert max(result["ulp"], result["ulp_subnormal"]) <= lookup(name).numerics.ulp


@pytest.mark.sampled(4)
@pytest.mark.parametrize("side", [-1, 0, 1])
@pytest.mark.parametrize("name", sorted(set(_SINGLE) - EXHAUSTED))
def test_f32_is_within_its_bound_with_the_worst_instructions(name, side):
    """Whatever a GPU's approximate instructions return within what PTX promises."""
    x = np.minimum(domain(name if name in EXACT else "exp", 20000), 3e38).astype(np.float32)
    x = np.concatenate([x, np.random.default_rng(17).uniform(-87, 88, 20000).astype(np.float32)])
    numbers = [x]
    if name in ("pow", "atan2"):
        numbers.append(np.random.default_rng(19).uniform(-8, 8, len(x)).astype(np.float32))
    thread = WorstThread(len(x), (0, 0, 0), (1, 1, 1), SimtMemory(0))
    thread.side = side
    with np.errstate(all="ignore"):
        terms = [Term(thread, F32, ThreadValues(v)) for v in numbers]
        result = _SINGLE[name](*terms).handle.array.astype(np.float64)
        exact = _F64[name](*(v.astype(np.float64) for v in numbers))
        least = np.finfo(np.float32).tiny
        unit = np.spacing(np.maximum(np.abs(exact.astype(np.float32)), least)).astype(np.float64)
        off = np.abs(result - exact) / unit
    worst = np.max(off[np.isfinite(off)])
    assert worst <= lookup(name).numerics.ulp


@pytest.mark.parametrize("side", [-1, 0, 1])
def test_remainders_are_exact_with_the_worst_instructions(side):
    """A quotient from an inverse is right or too large by one, however far off the inverse is."""
    random = np.random.default_rng(23)
    y = np.exp(random.uniform(-80, 70, 20000)).astype(np.float32)
    whole = np.exp2(random.uniform(0, 22, 20000)).astype(np.float32).round()
    x = np.concatenate([y * whole, np.nextafter(y * whole, np.float32(0)), random.permutation(y)])
    y = np.concatenate([y, y, y]) * random.choice(np.array([-1, 1], np.float32), 60000)
    thread = WorstThread(len(x), (0, 0, 0), (1, 1, 1), SimtMemory(0))
    thread.side = side
    with np.errstate(all="ignore"):
        terms = [Term(thread, F32, ThreadValues(v)) for v in (x, y)]
        array = remainder(*terms).handle.array
        np.testing.assert_array_equal(array, np.fmod(x, y))


LIMITS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1e-38, 1e-30, 88.8, -88.8, -100.0,
          -103.9, -104.1, 200.0, -200.0, 3e38, -3e38, 1.0, -1.0, 9.5, 0.5)  # fmt: skip


@for_each("approximates", [False, True])
@for_each("name", sorted(set(_SINGLE) - {"pow", "atan2"}))
def test_f32_at_the_limits_of_its_domain(name, approximates):
    """Zeros with their signs, infinities, NaNs, subnormal arguments and results."""
    x = np.array(LIMITS, np.float32)
    result = evaluate(_SINGLE[name], F32, x, approximates=approximates).handle.array
    with np.errstate(all="ignore"):
        exact = _F64[name](x.astype(np.float64)).astype(np.float32)
    unusual = ~np.isfinite(exact)
    assert np.array_equal(result[unusual], exact[unusual], equal_nan=True)
    assert np.isfinite(result[~unusual]).all()
    zero = exact == 0
    assert np.array_equal(np.signbit(result[zero]), np.signbit(exact[zero]))
    off = np.abs(result[~unusual].astype(np.float64) - exact[~unusual])
    assert (off <= 4 * np.spacing(np.abs(exact[~unusual]))).all()


def test_an_eighth_of_a_revolution_is_the_nearest_number():
    """So that four times the arc tangent of 1 is pi."""
    y, x = np.array([[1, -1, 3e38, np.inf], [1, 1, 3e38, np.inf]], np.float32)
    exact = np.array([1, -1, 1, 1]) * np.float32(np.pi / 4)
    assert evaluate(_SINGLE["atan"], F32, y[:2]).handle.array.tolist() == exact[:2].tolist()
    assert evaluate(_SINGLE["atan2"], F32, y, x).handle.array.tolist() == exact.tolist()
    zero = np.zeros(1, np.float32)
    assert evaluate(_SINGLE["atan2"], F32, zero, zero).handle.array.tolist() == [0.0]


@pytest.mark.parametrize(("name", "function", "ulp"), [("ex2", np.exp2, 1), ("lg2", np.log2, 2)])
def test_a_cpu_is_nearer_than_approximate_instructions(name, function, ulp):
    """Of base 2, where PTX promises 2 units, and 2^-22 between 1/2 and 2."""
    random = np.random.default_rng(3)
    x = (
        random.uniform(-126, 127, 4000)
        if name == "ex2"
        else np.exp2(random.uniform(-140, 127, 4000))
    )
    x = x.astype(np.float32)
    result = evaluate(FORMULAS[name], F32, x).handle.array.astype(np.float64)
    exact = function(x.astype(np.float64))
    off = np.abs(result - exact) / np.spacing(np.abs(exact.astype(np.float32)))
    assert off.max() <= ulp


def pi(bits):
    """Pi times 2^bits by Machin's formula, a few units off."""

    def arctan(n):
        term = total = (1 << bits) // n
        for k in range(3, bits, 2):
            term //= -n * n
            total += term // k
        return total

    return 4 * (4 * arctan(5) - arctan(239))


BITS = 1400
HALF_PI = Fraction(pi(BITS), 1 << (BITS + 1))


def far_numbers(dtype, first, last):
    random = np.random.default_rng(11)
    x = np.ldexp(random.uniform(1, 2, 300), random.integers(first, last, 300))
    return (x * random.choice([-1, 1], 300)).astype(dtype)


def check_reduced(x, quadrants, reduced, least):
    """Quadrants and rests are those of the nearest multiple of pi/2, rests to `least`."""
    for value, quadrant, rest in zip(x, quadrants, reduced, strict=True):
        quarters = round(Fraction(float(value)) / HALF_PI)
        exact = Fraction(float(value)) - quarters * HALF_PI
        assert (quarters - int(quadrant)) % 4 == 0
        assert abs(rest - exact) <= least * abs(exact) + least * Fraction(1, 1 << 40)


def test_f64_is_reduced_to_its_own_bits():
    """The nearest numbers to multiples of pi/2 too, where most digits cancel."""
    whole = np.random.default_rng(3).integers(1, 1 << 19, 300)
    near = [float(int(n) * HALF_PI) for n in whole]
    x = np.concatenate([far_numbers(np.float64, 0, 1023), near])
    quadrants, rest = evaluate(reduce, F64, x)
    reduced = [Fraction(float(a)) for a in rest.handle.array]
    check_reduced(x, quadrants.handle.array, reduced, Fraction(1, 1 << 52))


@pytest.mark.parametrize("approximates", [False, True])
@pytest.mark.parametrize(
    ("name", "worst"), [("sin", 1.34), ("cos", 1.39), ("tan", 2.51), ("asin", 1.5), ("acos", 0.77),
     ("atan", 1.18)],
)  # fmt: skip
def test_f64_angles_are_as_near_as_measured(name, worst, approximates):
    """Against the C library's functions of 64 bits."""
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("this machine has no numbers of 64 bits")
    random = np.random.default_rng(9)
    most = 1 if name in ("asin", "acos") else 60
    x = np.concatenate([random.uniform(-1, 1, 20000), random.uniform(-most, most, 20000)])
    result = evaluate(_DOUBLE[name], F64, x, approximates=approximates).handle.array
    exact = getattr(np, f"arc{name[1:]}" if name[0] == "a" else name)(x.astype(np.longdouble))
    off = np.abs(result - exact) / np.spacing(np.abs(exact.astype(np.float64)))
    assert off.max() <= worst


def test_inverse_roots_of_unusual_numbers():
    x = np.array([0.0, -0.0, 5e-324, 1e-310, -1e-310, 2.2250738585072014e-308, -1.0, 1e308,
                  np.inf, -np.inf, np.nan])  # fmt: skip
    result = evaluate(_DOUBLE["rsqrt"], F64, x).handle.array
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, 1 / np.sqrt(x), rtol=4e-16)


def test_f64_is_reduced_to_a_hundred_bits():
    x = np.concatenate([far_numbers(np.float64, 20, 1023), [6381956970095103 * 2.0**797]])
    quadrants, (high, low) = evaluate(reduce64, F64, x)
    pairs = zip(high.handle.array, low.handle.array, strict=True)
    reduced = [Fraction(float(a)) + Fraction(float(b)) for a, b in pairs]
    check_reduced(x, quadrants.handle.array, reduced, Fraction(1, 1 << 80))


def test_f32_is_reduced_to_its_own_bits():
    x = far_numbers(np.float32, 16, 127)
    quadrants, rest = evaluate(reduce32, F32, x)
    reduced = [Fraction(float(a)) for a in rest.handle.array]
    check_reduced(x, quadrants.handle.array, reduced, Fraction(1, 1 << 23))
