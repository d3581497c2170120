"""Float arithmetic. LLVM's instructions round once, to nearest even. Other rounding modes use PTX
instructions (PTX ISA, "Floating-Point Instructions")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.backend.codegen.rules.elementwise import elementwise, result_element
from tileir.types import F32, F64, Element
from tileir.values import Constant, decode, encode

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

_FLAGS = {"none": "", "contract": "contract", "approx": "arcp", "fast": "contract arcp reassoc"}
_EXTREMES = {
    "fminimum": "minimum", "fmaximum": "maximum",
    "fminnum": "minimumnum", "fmaxnum": "maximumnum",
}  # fmt: skip


def _arithmetic(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    element, name = result_element(op), op.mnemonic[1:]
    if name == "div" and element is F32 and op.fast.value in ("approx", "fast"):
        if op.ftz and _is_one(op.lhs):
            return t.instruction("rcp.approx.ftz.f32 $0, $1;", F32, [(F32, b)])
        ftz = ".ftz" if op.ftz else ""
        return t.instruction(f"div.full{ftz}.f32 $0, $1, $2;", F32, [(F32, a), (F32, b)])
    if op.rounding.value == "rn" and not op.ftz:
        return t.binary(op.mnemonic, element, a, b, _FLAGS[op.fast.value])
    return rounded_instruction(t, name, op, element, a, b)


_quotients = elementwise(_arithmetic)


def _quotient(lowering: Lowering, op: Any) -> list[Fragment]:
    """Lower a division. A divisor that several numbers share is inverted once, whereas
    `div.full.f32` would invert it for each. A constant divisor is inverted at compile time.

    If the inverse of the divisor is not normal, the divisor and the numbers are scaled. A target
    without approximate instructions divides each number separately, with one rounding.
    """
    element, divisors = result_element(op), lowering.fragment(op.rhs)
    approximate = op.fast.value in ("approx", "fast") and lowering.thread.approximates
    if element is not F32 or op.ftz or not approximate:
        return _quotients(lowering, op)
    if isinstance(op.rhs, Constant) and _NORMAL <= op.rhs.bits & _SIZE <= _LARGE:
        return _by_constant(lowering, op)
    if 2 * len(set(divisors)) > len(lowering.fragment(op.lhs)):
        return _quotients(lowering, op)
    return _by_inverses(lowering, op)


def _by_inverse(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    size = t.intrinsic("fabs", F32, b)
    large = t.compare("ogt", F32, size, t.constant(F32, _LARGE))
    small = t.compare("olt", F32, size, t.constant(F32, _NORMAL))
    scale = t.select(F32, large, t.constant(F32, _QUARTER), t.constant(F32, _ONE))
    scale = t.select(F32, small, t.constant(F32, _UP), scale)
    scaled = t.binary("fmul", F32, b, scale)
    inverse = t.instruction("rcp.approx.ftz.f32 $0, $1;", F32, [(F32, scaled)])
    return t.binary("fmul", F32, t.binary("fmul", F32, a, scale), inverse)


_by_inverses = elementwise(_by_inverse)
_LARGE, _NORMAL, _QUARTER, _ONE, _UP = 0x7E800000, 0x00800000, 0x3E800000, 0x3F800000, 0x4B800000
"""2 to the powers of 126, -126, -2, 0 and 24 as f32."""
_SIZE = 0x7FFFFFFF
"""The bits of an f32 without its sign."""


def _by_constant(lowering: Lowering, op: Any) -> list[Fragment]:
    """Numbers times the inverse of a constant, both rounded once: within 1.5 ulp."""
    inverse = encode(F32, 1.0 / float(decode(F32, op.rhs.bits)))
    multiplied = elementwise(lambda t, op, a, b: t.binary("fmul", F32, a, t.constant(F32, inverse)))
    return multiplied(lowering, op)


def _is_one(value: Any) -> bool:
    """Whether a float is 1, or every element of a tile is 1."""
    return isinstance(value, Constant) and value.bits == _ONE


def rounded_instruction(
    t: Thread, name: str, op: Any, element: Element, *operands: Handle
) -> Handle:
    """The result of PTX instruction `name` with the rounding mode and the flush-to-zero flag of
    `op`."""
    ftz = ".ftz" if op.ftz else ""
    names = ", ".join(f"${i}" for i in range(len(operands) + 1))
    text = f"{name}.{op.rounding.value}{ftz}.f{element.bits} {names};"
    return t.instruction(text, element, [(element, x) for x in operands])


def _remainder(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    from tileir.backend.codegen.libm.expression import Term  # few kernels divide so
    from tileir.backend.codegen.libm.fmod import remainder

    element = result_element(op)
    if element in (F32, F64):
        return remainder(Term(t, element, a), Term(t, element, b)).handle
    wide = (Term(t, element, x).cast("fpext", F32) for x in (a, b))
    return remainder(*wide).cast("fptrunc", element).handle


def _negation(t: Thread, op: Any, a: Handle) -> Handle:
    return t.negate(result_element(op), a)


def _absolute(t: Thread, op: Any, a: Handle) -> Handle:
    return t.intrinsic("fabs", result_element(op), a)


def _sign(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    return t.intrinsic("copysign", result_element(op), a, b)


_signs = elementwise(_sign)


def _copysign(lowering: Lowering, op: Any) -> list[Fragment]:
    """Copy a sign. If the magnitude is `min(|x|, limit)` for a positive constant limit, and the
    sign is that of `x`, one instruction clamps `x` from both sides (PTX ISA, `min.xorsign.abs`,
    sm_86 and later)."""
    smaller = lowering.origin(op.lhs)
    is_minimum = smaller is not None and smaller.mnemonic == "fminnum" and smaller.predicate is None
    target = lowering.target
    if not is_minimum or not target.bf16_arithmetic or not lowering.thread.approximates:
        return _signs(lowering, op)
    size, limit = cast(Any, smaller).lhs, cast(Any, smaller).rhs
    magnitude = lowering.origin(size)
    if (
        result_element(op) is not F32
        or not isinstance(limit, Constant)
        or not 0 < limit.bits < _INFINITE
        or magnitude is None
        or magnitude.mnemonic != "fabs"
        or magnitude.inputs[0] is not op.rhs
    ):
        return _signs(lowering, op)
    bound = lowering.thread.constant(F32, limit.bits)
    return _clamps(lowering, lowering.fragment(op.rhs), bound)


def _clamps(lowering: Lowering, numbers: Fragment, bound: Handle) -> list[Fragment]:
    clamped: dict[int, Handle] = {}
    for x in numbers:
        if id(x) not in clamped:
            clamped[id(x)] = lowering.thread.instruction(
                "min.xorsign.abs.f32 $0, $1, $2;", F32, [(F32, x), (F32, bound)]
            )
    return [[clamped[id(x)] for x in numbers]]


_INFINITE = 0x7F800000
"""The bits of an infinite f32."""


def _extreme(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    return extreme(t, op.mnemonic, result_element(op), a, b)


def extreme(t: Thread, name: str, element: Element, a: Handle, b: Handle) -> Handle:
    """`fminimum`, `fmaximum`, `fminnum` or `fmaxnum` of two floats."""
    if element is F64 and name in ("fminimum", "fmaximum"):
        number = t.intrinsic(_EXTREMES[name] + "num", F64, a, b)
        unordered = t.compare("uno", F64, a, b)
        return t.select(F64, unordered, t.constant(F64, 0x7FF8 << 48), number)
    return t.intrinsic(_EXTREMES[name], element, a, b)


RULES: dict[str, Rule] = {
    **{name: elementwise(_arithmetic) for name in ("fadd", "fsub", "fmul")},
    "fdiv": _quotient,
    **{name: elementwise(_extreme) for name in _EXTREMES},
    "frem": elementwise(_remainder),
    "fneg": elementwise(_negation),
    "fabs": elementwise(_absolute),
    "copysign": _copysign,
}
