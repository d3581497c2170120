"""Integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.codegen.rules.elementwise import elementwise
from tileir.types import I1, I32, I64, Element
from tileir.values import Constant

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

_FLAGS = {"none": "", "nsw": "nsw", "nuw": "nuw", "nsw_nuw": "nuw nsw"}
_I1_EXTREMES = {"smin": "or", "smax": "and", "umin": "and", "umax": "or"}


def _wrapping(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    return t.binary(op.mnemonic, _element(op), a, b, _FLAGS[op.overflow.value])


def _plain(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    return t.binary(op.mnemonic, _element(op), a, b)


def _extreme(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    element = _element(op)
    if element is I1:
        return t.binary(_I1_EXTREMES[op.mnemonic], I1, a, b)
    return t.intrinsic(op.mnemonic, element, a, b)


_Operation: TypeAlias = "Callable[[Thread, Element, str, bool, Handle, Handle], Handle]"
"""Of the type, the rounding, whether there are signs, and the operands."""


def _divisions(lowering: Lowering, op: Any) -> list[Fragment]:
    """By the ranges of the operands: without signs where there are none, and in 32 bits where those
    suffice, since a division of 64 is a function of a hundred instructions."""
    operation, signed = _DIVISIONS[op.mnemonic]
    element, mode = _element(op), op.rounding.value if op.mnemonic != "urem" else "zero"
    narrow = False
    if element in (I32, I64) and not isinstance(op.rhs, Constant):
        from tileir.analysis.ranges import ranges_of  # few kernels divide so

        ranges = ranges_of(lowering.function, op.lhs, op.rhs)
        a, b = ranges.of(op.lhs), ranges.of(op.rhs)
        positive = a[0] >= 0 and b[0] >= 0
        narrow = element is I64 and _fits(a) and _fits(b)
        narrow = narrow and (positive or (signed and (a[0] > _LEAST or b[0] >= 0)))
        signed = signed and not positive

    def rule(t: Thread, _: Any, a: Handle, b: Handle) -> Handle:
        if not narrow:
            return operation(t, element, mode, signed, a, b)
        a, b = (t.convert("trunc", I64, I32, x) for x in (a, b))
        return t.convert("sext", I32, I64, operation(t, I32, mode, signed, a, b))

    return elementwise(rule)(lowering, op)


_LEAST = -(2**31)


def _fits(range_: tuple[int, int]) -> bool:
    """Whether numbers are those of an i32."""
    return range_[0] >= _LEAST and range_[1] < -_LEAST


def _quotient(t: Thread, element: Element, mode: str, signed: bool, a: Handle, b: Handle) -> Handle:
    """Quotient to zero, then one step down or up where there is a remainder of that sign."""
    b = _nonzero(t, element, b)
    if element is I1:
        return a
    quotient = _signed_quotient(t, element, a, b) if signed else t.binary("udiv", element, a, b)
    if mode == "zero":
        return quotient
    rest = t.binary("sub", element, a, t.binary("mul", element, quotient, b))
    inexact = t.compare("ne", element, rest, t.constant(element, 0))
    toward = _differ(t, element, a, b) if signed else t.constant(I1, 0)
    if mode == "ceil":
        toward = t.binary("xor", I1, toward, t.constant(I1, 1))
    step = t.binary("and", I1, inexact, toward)
    moved = t.binary("sub" if mode == "floor" else "add", element, quotient, t.constant(element, 1))
    return t.select(element, step, moved, quotient)


def _signed_quotient(t: Thread, element: Element, a: Handle, b: Handle) -> Handle:
    """Division by -1 is negation, which wraps; the instruction would overflow."""
    ones = (1 << element.bits) - 1
    minus = t.compare("eq", element, b, t.constant(element, ones))
    safe = t.select(element, minus, t.constant(element, 1), b)
    negated = t.binary("sub", element, t.constant(element, 0), a)
    return t.select(element, minus, negated, t.binary("sdiv", element, a, safe))


def _remainder(
    t: Thread, element: Element, mode: str, signed: bool, a: Handle, b: Handle
) -> Handle:
    """With the sign of `a`, that of `b` where the quotient is rounded down."""
    if element is I1:
        return t.constant(I1, 0)
    b = _nonzero(t, element, b)
    if not signed:
        return t.binary("urem", element, a, b)
    ones = (1 << element.bits) - 1
    minus = t.compare("eq", element, b, t.constant(element, ones))
    safe = t.select(element, minus, t.constant(element, 1), b)
    rest = t.binary("srem", element, a, safe)
    if mode == "zero":
        return rest
    inexact = t.compare("ne", element, rest, t.constant(element, 0))
    step = t.binary("and", I1, inexact, _differ(t, element, rest, b))
    return t.select(element, step, t.binary("add", element, rest, b), rest)


def _nonzero(t: Thread, element: Element, b: Handle) -> Handle:
    """The divisor, 1 for zero: padding and inactive lanes may contain any value, and LLVM's
    division by zero is undefined."""
    zero = t.compare("eq", element, b, t.constant(element, 0))
    return t.select(element, zero, t.constant(element, 1), b)


def _differ(t: Thread, element: Element, a: Handle, b: Handle) -> Handle:
    """Whether signs differ."""
    return t.compare("slt", element, t.binary("xor", element, a, b), t.constant(element, 0))


def _shift(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    element = _element(op)
    return a if element is I1 else t.binary(op.mnemonic, element, a, b)


def _multiply_high(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    element, signed = _element(op), op.mnemonic == "smulhi"
    kind = "s" if signed else "u"
    if element in (I32, I64):
        text = f"mul.hi.{kind}{element.bits} $0, $1, $2;"
        return t.instruction(text, element, [(element, a), (element, b)])
    extend = "sext" if signed else "zext"
    wide = [t.convert(extend, element, I32, x) for x in (a, b)]
    product = t.binary("mul", I32, *wide)
    high = t.binary("lshr", I32, product, t.constant(I32, element.bits))
    return t.convert("trunc", I32, element, high)


def _negation(t: Thread, op: Any, a: Handle) -> Handle:
    element = _element(op)
    return t.binary("sub", element, t.constant(element, 0), a)


def _absolute(t: Thread, op: Any, a: Handle) -> Handle:
    element = _element(op)
    return a if element is I1 else t.intrinsic("abs", element, a)


def _count(t: Thread, op: Any, a: Handle) -> Handle:
    element = _element(op)
    name = "ctpop" if op.mnemonic == "ctpop" else "ctlz"
    if element is I1:
        return a if name == "ctpop" else t.binary("xor", I1, a, t.constant(I1, 1))
    return t.intrinsic(name, element, a)


def _element(op: Any) -> Element:
    return scalar_of(op.result.type)


_DIVISIONS: dict[str, tuple[_Operation, bool]] = {
    "sdiv": (_quotient, True),
    "udiv": (_quotient, False),
    "srem": (_remainder, True),
    "urem": (_remainder, False),
}
"""The operation, and whether it is of signed numbers."""

RULES: dict[str, Rule] = {
    **{name: elementwise(_wrapping) for name in ("add", "sub", "mul")},
    **{name: elementwise(_plain) for name in ("and", "or", "xor")},
    **{name: elementwise(_extreme) for name in ("smin", "smax", "umin", "umax")},
    **{name: elementwise(_shift) for name in ("shl", "lshr", "ashr")},
    **dict.fromkeys(("sdiv", "udiv", "srem", "urem"), _divisions),
    **{name: elementwise(_multiply_high) for name in ("smulhi", "umulhi")},
    **{name: elementwise(_count) for name in ("ctpop", "clz")},
    "neg": elementwise(_negation),
    "iabs": elementwise(_absolute),
}
