"""Integer arithmetic, comparisons and selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.codegen.rules.elementwise import elementwise, fits_i32, result_element
from tileir.types import I1, I8, I32, I64, Tile

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

_FLAGS = {"none": "", "nsw": "nsw", "nuw": "nuw", "nsw_nuw": "nuw nsw"}
_I1_EXTREMES = {"smin": "or", "smax": "and", "umin": "and", "umax": "or"}


def _wrapping(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    return t.binary(op.mnemonic, result_element(op), a, b, _FLAGS[op.overflow.value])


def _plain(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    return t.binary(op.mnemonic, result_element(op), a, b)


def _extreme(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    element = result_element(op)
    if element is I1:
        return t.binary(_I1_EXTREMES[op.mnemonic], I1, a, b)
    return t.intrinsic(op.mnemonic, element, a, b)


def _shift(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    element = result_element(op)
    return a if element is I1 else t.binary(op.mnemonic, element, a, b)


def _multiply_high(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    element, signed = result_element(op), op.mnemonic == "smulhi"
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
    element = result_element(op)
    return t.binary("sub", element, t.constant(element, 0), a)


def _absolute(t: Thread, op: Any, a: Handle) -> Handle:
    element = result_element(op)
    return a if element is I1 else t.intrinsic("abs", element, a)


def _count(t: Thread, op: Any, a: Handle) -> Handle:
    element = result_element(op)
    name = "ctpop" if op.mnemonic == "ctpop" else "ctlz"
    if element is I1:
        return a if name == "ctpop" else t.binary("xor", I1, a, t.constant(I1, 1))
    return t.intrinsic(name, element, a)


def _compare(t: Thread, op: Any, a: Handle, b: Handle) -> tuple[Handle, Handle]:
    result = t.compare(op.predicate_.value, scalar_of(op.lhs.type), a, b)
    return result, t.binary("xor", I1, result, t.constant(I1, 1))


def _comparisons(lowering: Lowering, op: Any) -> list[Fragment]:
    """Elements of 64 bits that are within the range of an i32 are compared as such, whose order is
    the same, signed and unsigned: a comparison of 64 bits takes several instructions."""
    if scalar_of(op.lhs.type) is not I64 or not isinstance(op.lhs.type, Tile):
        return elementwise(_compare)(lowering, op)
    from tileir.analysis.ranges import ranges_of  # most tiles have 32 bits

    ranges = ranges_of(lowering.function, op.lhs, op.rhs)
    if not all(fits_i32(ranges.of(x)) for x in (op.lhs, op.rhs)):
        return elementwise(_compare)(lowering, op)

    def narrow(t: Thread, op: Any, a: Handle, b: Handle) -> tuple[Handle, Handle]:
        a, b = (t.convert("trunc", I64, I32, x) for x in (a, b))
        result = t.compare(op.predicate_.value, I32, a, b)
        return result, t.binary("xor", I1, result, t.constant(I1, 1))

    return elementwise(narrow)(lowering, op)


def _select(t: Thread, op: Any, condition: Handle, a: Handle, b: Handle) -> Handle:
    return t.select(scalar_of(op.result.type), condition, a, b)


def _bytewise(alone: Rule) -> Rule:
    """A rule that computes four bytes at a time where it can, and otherwise applies `alone`."""

    def rule(lowering: Lowering, op: Any) -> list[Fragment]:
        if lowering.thread.slow_conversions and result_element(op) is I8:
            from tileir.backend.codegen.rules.packed_bytes import by_words  # few have bytes

            result = by_words(lowering, op)
            if result is not None:
                return result
        return alone(lowering, op)

    return rule


RULES: dict[str, Rule] = {
    **{name: _bytewise(elementwise(_wrapping)) for name in ("add", "sub")},
    "mul": elementwise(_wrapping),
    **{name: _bytewise(elementwise(_plain)) for name in ("and", "or", "xor")},
    **{name: elementwise(_extreme) for name in ("smin", "smax", "umin", "umax")},
    **{name: _bytewise(elementwise(_shift)) for name in ("shl", "lshr", "ashr")},
    **{name: elementwise(_multiply_high) for name in ("smulhi", "umulhi")},
    **{name: elementwise(_count) for name in ("ctpop", "clz")},
    "neg": elementwise(_negation),
    "iabs": elementwise(_absolute),
    "icmp": _comparisons,
    "fcmp": elementwise(_compare),
    "select": elementwise(_select),
}
