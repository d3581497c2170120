"""Mathematical functions, in f32 and f64; narrower floats compute in f32 and round once.

Within the bounds that the ops state. `fast = approx` uses the target's approximate instructions
(PTX ISA, ex2, lg2, sin, cos, tanh, rsqrt).
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any, TypeAlias

from tileir.backend.lowering import Rule, scalar_of
from tileir.backend.rules.elementwise import each
from tileir.backend.thread import Handle, Thread
from tileir.types import BF16, F16, F32, F64, I32, I64, Element
from tileir.values import encode

Function32: TypeAlias = Callable[[Thread, Handle], Handle]


def _number(t: Thread, value: float, element: Element = F32) -> Handle:
    return t.constant(element, encode(element, value))


def _mul(t: Thread, a: Handle, b: Handle) -> Handle:
    return t.binary("fmul", F32, a, b)


def _fma(t: Thread, a: Handle, b: Handle, c: Handle) -> Handle:
    return t.intrinsic("fma", F32, a, b, c)


def _approximate(name: str) -> Function32:
    return lambda t, x: t.instruction(f"{name}.f32 $0, $1;", F32, [(F32, x)])


_ex2, _lg2 = _approximate("ex2.approx.ftz"), _approximate("lg2.approx")


def exp2_32(t: Thread, x: Handle) -> Handle:
    """2^x within 2 ulp: ex2.approx, its subnormal results by scaling (PTX ISA: ex2.approx.ftz
    flushes them)."""
    return t.instruction("ex2.approx.f32 $0, $1;", F32, [(F32, x)])


def exp_32(t: Thread, x: Handle) -> Handle:
    """e^x within 2 ulp: x = n ln 2 + r with n rounded and ln 2 in two parts (Cody and Waite),
    then 2^n e^r, e^r as ex2.approx of r log2 e, |r| <= 0.35. The factor 2^n is applied in two
    steps, so that subnormal results are rounded once and large ones do not overflow early."""
    held = t.intrinsic("maximumnum", F32, x, _number(t, -105.0))
    held = t.intrinsic("minimumnum", F32, held, _number(t, 89.0))
    n = t.intrinsic("rint", F32, _mul(t, held, _number(t, 1.4426950408889634)))
    r = _fma(t, n, _number(t, -0.693145751953125), held)
    r = _fma(t, n, _number(t, -1.42860682030941723212e-6), r)
    power = _ex2(t, _mul(t, r, _number(t, 1.4426950408889634)))
    whole = t.convert("fptosi", F32, I32, n)
    half = t.binary("ashr", I32, whole, t.integer(1))
    rest = t.binary("sub", I32, whole, half)
    scaled = _mul(t, _mul(t, power, _power_of_two(t, half)), _power_of_two(t, rest))
    nan = t.compare("uno", F32, x, x)
    return t.select(F32, nan, x, scaled)


def _power_of_two(t: Thread, n: Handle) -> Handle:
    """2^n for n from -126 to 127, by its exponent bits."""
    biased = t.binary("add", I32, n, t.integer(127))
    return t.convert("bitcast", I32, F32, t.binary("shl", I32, biased, t.integer(23)))


def exp_64(t: Thread, x: Handle) -> Handle:
    """e^x within 2 ulp in f64: x = n ln 2 + r, 2^n times the Taylor polynomial of degree 13,
    whose error for |r| <= 0.35 is below 2^-58."""
    held = t.intrinsic("maximumnum", F64, x, _number(t, -746.0, F64))
    held = t.intrinsic("minimumnum", F64, held, _number(t, 710.0, F64))
    n = t.intrinsic("rint", F64, t.binary("fmul", F64, held, _number(t, 1.4426950408889634, F64)))
    r = t.intrinsic("fma", F64, n, _number(t, -6.93147180369123816490e-01, F64), held)
    r = t.intrinsic("fma", F64, n, _number(t, -1.90821492927058770002e-10, F64), r)
    return _scaled_64(t, x, _taylor_64(t, r), n)


def exp2_64(t: Thread, x: Handle) -> Handle:
    """2^x within 2 ulp in f64: the same with r = (x - n) ln 2."""
    held = t.intrinsic("maximumnum", F64, x, _number(t, -1076.0, F64))
    held = t.intrinsic("minimumnum", F64, held, _number(t, 1025.0, F64))
    n = t.intrinsic("rint", F64, held)
    rest = t.binary("fsub", F64, held, n)
    r = t.binary("fmul", F64, rest, _number(t, 0.6931471805599453, F64))
    return _scaled_64(t, x, _taylor_64(t, r), n)


def _taylor_64(t: Thread, r: Handle) -> Handle:
    total = _number(t, 1 / factorial(13), F64)
    for k in reversed(range(13)):
        total = t.intrinsic("fma", F64, total, r, _number(t, 1 / factorial(k), F64))
    return total


def _scaled_64(t: Thread, x: Handle, power: Handle, n: Handle) -> Handle:
    """`power` times 2^n in two steps; NaN where `x` is."""
    whole = t.convert("fptosi", F64, I64, n)
    half = t.binary("ashr", I64, whole, t.constant(I64, 1))
    for part in (half, t.binary("sub", I64, whole, half)):
        biased = t.binary("add", I64, part, t.constant(I64, 1023))
        bits = t.binary("shl", I64, biased, t.constant(I64, 52))
        power = t.binary("fmul", F64, power, t.convert("bitcast", I64, F64, bits))
    return t.select(F64, t.compare("uno", F64, x, x), x, power)


def _rsqrt_64(t: Thread, x: Handle) -> Handle:
    """1 / sqrt(x) by two correctly rounded steps: within 1.5 ulp."""
    return t.binary("fdiv", F64, _number(t, 1.0, F64), t.intrinsic("sqrt", F64, x))


def _fast_exp(t: Thread, x: Handle) -> Handle:
    return _ex2(t, _mul(t, x, _number(t, 1.4426950408889634)))


def _fast_log(t: Thread, x: Handle) -> Handle:
    return _mul(t, _lg2(t, x), _number(t, 0.6931471805599453))


def _fast_log10(t: Thread, x: Handle) -> Handle:
    return _mul(t, _lg2(t, x), _number(t, 0.30102999566398120))


def _rsqrt_32(t: Thread, x: Handle) -> Handle:
    return t.instruction("rsqrt.approx.f32 $0, $1;", F32, [(F32, x)])


_FAST: dict[str, Function32] = {
    "exp": _fast_exp,
    "exp2": _ex2,
    "log": _fast_log,
    "log2": _lg2,
    "log10": _fast_log10,
    "sin": _approximate("sin.approx"),
    "cos": _approximate("cos.approx"),
    "tanh": _approximate("tanh.approx"),
    "rsqrt": _rsqrt_32,
    "sqrt": _approximate("sqrt.approx"),
}
_EXACT: dict[str, Function32] = {"exp": exp_32, "exp2": exp2_32, "rsqrt": _rsqrt_32}
_EXACT_64: dict[str, Function32] = {"exp": exp_64, "exp2": exp2_64, "rsqrt": _rsqrt_64}
_ROUNDING = {
    "floor": "floor", "ceil": "ceil", "ftrunc": "trunc", "fround": "round", "frint": "rint",
}  # fmt: skip


def _function(t: Thread, op: Any, x: Handle) -> Handle:
    element = scalar_of(op.result.type)
    if element is F64:
        return _EXACT_64[op.mnemonic](t, x)
    fast = op.fast.value in ("approx", "fast")
    rule = (_FAST.get(op.mnemonic) if fast else None) or _EXACT[op.mnemonic]
    return through_f32(t, element, x, rule)


def through_f32(t: Thread, element: Element, x: Handle, rule: Function32) -> Handle:
    """`rule` of `x` computed in f32."""
    if element is F32:
        return rule(t, x)
    wide = t.convert("fpext", element, F32, x)
    return t.convert("fptrunc", F32, element, rule(t, wide))


def _root(t: Thread, op: Any, x: Handle) -> Handle:
    element = scalar_of(op.result.type)
    if op.fast.value in ("approx", "fast") and element is not F64:
        return through_f32(t, element, x, _FAST["sqrt"])
    if element in (F16, BF16):
        return through_f32(t, element, x, lambda t, y: t.intrinsic("sqrt", F32, y))
    return t.intrinsic("sqrt", element, x)


def _round(t: Thread, op: Any, x: Handle) -> Handle:
    element = scalar_of(op.result.type)
    name = _ROUNDING[op.mnemonic]
    if element in (F16, BF16):
        return through_f32(t, element, x, lambda t, y: t.intrinsic(name, F32, y))
    return t.intrinsic(name, element, x)


RULES: dict[str, Rule] = {
    **{name: each(_function) for name in _EXACT},
    **{name: each(_round) for name in _ROUNDING},
    "sqrt": each(_root),
}
