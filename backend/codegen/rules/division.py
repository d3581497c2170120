"""Integer division. The results of cases that LLVM leaves undefined (a zero divisor, overflow) are
defined here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from tileir.analysis.uses import definitions, uses
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.backend.codegen.rules.elementwise import elementwise, fits_i32, result_element
from tileir.layout import Layout
from tileir.op import Op
from tileir.types import I1, I8, I16, I32, I64, Element, Tile, Type
from tileir.values import Constant, Operand, Value

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread


@attrs.frozen(eq=False, repr=False)
class _Division:
    """A kind of integer division: the rounding, whether operands are signed, whether a divisor may
    be 0, and whether a quotient by -1 may overflow."""

    element: Element
    mode: str
    signed: bool = True
    by_zero: bool = True
    overflows: bool = True
    has_quotient: bool = False
    """Whether the quotient of the same numbers is computed, too."""

    def instruction(self, t: Thread, name: str, a: Handle, b: Handle) -> Handle | None:
        """The quotient (`name` is `div`) or remainder (`rem`) by the machine's instruction, which
        accepts any operands. None if the target has no such instruction, or if LLVM's own division
        is defined for these operands. A division by zero then has the result that it has in code of
        other compilers."""
        element, wide = self.element, _INSTRUCTIONS.get(self.element)
        if wide is None or not t.divides_all:
            return None
        if not (self.by_zero or (self.signed and self.overflows)):
            return None
        if wide is not element:
            a, b = (t.convert("sext" if self.signed else "zext", element, wide, x) for x in (a, b))
        text = f"{name}.{'s' if self.signed else 'u'}{wide.bits} $0, $1, $2;"
        result = t.instruction(text, wide, [(wide, a), (wide, b)])
        return result if wide is element else t.convert("trunc", wide, element, result)


_INSTRUCTIONS: dict[Element, Element] = {I8: I16, I16: I16, I32: I32}
"""The integers that an instruction divides, by those that are divided."""

_Operation: TypeAlias = "Callable[[Thread, _Division, Handle, Handle], Handle]"


def _divisions(lowering: Lowering, op: Any) -> list[Fragment]:
    """The cheapest division that the ranges of the operands allow. It is unsigned if both are
    nonnegative, and has 32 bits if these suffice: a 64-bit division is a function of about a
    hundred instructions."""
    operation, signed = _DIVISIONS[op.mnemonic]
    element, mode = result_element(op), op.rounding.value if op.mnemonic != "urem" else "zero"
    how, narrow = _Division(element, mode, signed), False
    if isinstance(op.rhs, Constant):
        number = int(op.rhs.value)
        how = _Division(element, mode, signed, number == 0, number == -1)
    elif element in (I32, I64):
        from tileir.analysis.ranges import ranges_of  # few kernels divide

        ranges = ranges_of(lowering.function, op.lhs, op.rhs)
        a, b = ranges.of(op.lhs), ranges.of(op.rhs)
        positive = a[0] >= 0 and b[0] >= 0
        narrow = element is I64 and fits_i32(a) and fits_i32(b)
        narrow = narrow and (positive or (signed and (a[0] > _LEAST or b[0] >= 0)))
        elements_only = op.predicate is None and _has_no_padding(op.result.type)
        least = -(1 << (32 if narrow else element.bits) - 1)
        how = _Division(
            I32 if narrow else element,
            mode,
            signed and not positive,
            not elements_only or (_contains(b, 0) and not _traps_on_zero(lowering, op)),
            not elements_only or (a[0] <= least and _contains(b, -1)),
            _has_quotient(lowering, op),
        )

    def rule(t: Thread, _: Any, a: Handle, b: Handle) -> Handle:
        if not narrow:
            return operation(t, how, a, b)
        a, b = (t.convert("trunc", I64, I32, x) for x in (a, b))
        return t.convert("sext", I32, I64, operation(t, how, a, b))

    return elementwise(rule)(lowering, op)


_LEAST = -(2**31)


def _contains(range_: tuple[int, int], number: int) -> bool:
    return range_[0] <= number <= range_[1]


def _has_quotient(lowering: Lowering, op: Any) -> bool:
    """Whether the operands of a remainder are also divided by a quotient op."""
    name = {"srem": "sdiv", "urem": "udiv"}.get(op.mnemonic)
    readers = uses(lowering.function).get(op.lhs, ())
    return any(
        user.mnemonic == name and user.inputs == op.inputs and user.predicate is op.predicate
        for user in readers
    )


def _has_no_padding(kind: Type) -> bool:
    """Whether every register of a value contains an element."""
    return not isinstance(kind, Tile) or cast(Layout, kind.layout).extents == kind.shape


def _traps_on_zero(lowering: Lowering, op: Any) -> bool:
    """Whether a divisor of 0 is an error of the whole program instance: the divisor is a computed
    scalar, or a tile filled with one. False on a target whose division by zero ends the process."""
    if not lowering.thread.divides_all:
        return False
    divisor: Operand = op.rhs
    defined = definitions(lowering.function)
    while isinstance(divisor.type, Tile):
        source = defined.get(divisor) if isinstance(divisor, Value) else None
        if source is None or not _keeps_number(source):
            return False
        divisor = source.inputs[0]
    return isinstance(divisor, Value)


def _keeps_number(op: Op) -> bool:
    """Whether each element of the result equals an element of the operand."""
    return op.moves_elements or op.mnemonic in ("sext", "zext")


def _quotient(t: Thread, how: _Division, a: Handle, b: Handle) -> Handle:
    """The quotient rounded toward zero, then moved down or up by one where the remainder requires
    it."""
    element, signed = how.element, how.signed
    quotient = how.instruction(t, "div", a, b)
    if quotient is None:
        b = _nonzero(t, how, b)
        if element is I1:
            return a
        quotient = (_signed_quotient if signed else _unsigned_quotient)(t, how, a, b)
    if how.mode == "zero":
        return quotient
    remainder = t.binary("sub", element, a, t.binary("mul", element, quotient, b))
    inexact = t.compare("ne", element, remainder, t.constant(element, 0))
    toward = _differ(t, element, a, b) if signed else t.constant(I1, 0)
    if how.mode == "ceil":
        toward = t.binary("xor", I1, toward, t.constant(I1, 1))
    step = t.binary("and", I1, inexact, toward)
    name = "sub" if how.mode == "floor" else "add"
    moved = t.binary(name, element, quotient, t.constant(element, 1))
    return t.select(element, step, moved, quotient)


def _unsigned_quotient(t: Thread, how: _Division, a: Handle, b: Handle) -> Handle:
    return t.binary("udiv", how.element, a, b)


def _signed_quotient(t: Thread, how: _Division, a: Handle, b: Handle) -> Handle:
    """A signed quotient. Division by -1 is a negation, which wraps; the instruction would
    overflow."""
    element = how.element
    if not how.overflows:
        return t.binary("sdiv", element, a, b)
    ones = (1 << element.bits) - 1
    minus = t.compare("eq", element, b, t.constant(element, ones))
    safe = t.select(element, minus, t.constant(element, 1), b)
    negated = t.binary("sub", element, t.constant(element, 0), a)
    return t.select(element, minus, negated, t.binary("sdiv", element, a, safe))


def _remainder(t: Thread, how: _Division, a: Handle, b: Handle) -> Handle:
    """The remainder, with the sign of `a`, or that of `b` if the quotient is rounded down."""
    element = how.element
    if element is I1:
        return t.constant(I1, 0)
    if how.has_quotient:
        quotient = _quotient(t, attrs.evolve(how, mode="zero"), a, b)
        remainder = t.binary("sub", element, a, t.binary("mul", element, quotient, b))
    elif (remainder := how.instruction(t, "rem", a, b)) is None:
        b = _nonzero(t, how, b)
        remainder = (_signed_remainder if how.signed else _unsigned_remainder)(t, how, a, b)
    if how.mode == "zero" or not how.signed:
        return remainder
    inexact = t.compare("ne", element, remainder, t.constant(element, 0))
    step = t.binary("and", I1, inexact, _differ(t, element, remainder, b))
    return t.select(element, step, t.binary("add", element, remainder, b), remainder)


def _unsigned_remainder(t: Thread, how: _Division, a: Handle, b: Handle) -> Handle:
    return t.binary("urem", how.element, a, b)


def _signed_remainder(t: Thread, how: _Division, a: Handle, b: Handle) -> Handle:
    element = how.element
    if how.overflows:
        ones = (1 << element.bits) - 1
        minus = t.compare("eq", element, b, t.constant(element, ones))
        b = t.select(element, minus, t.constant(element, 1), b)
    return t.binary("srem", element, a, b)


def _nonzero(t: Thread, how: _Division, b: Handle) -> Handle:
    """The divisor, or 1 where it is zero: padding and inactive lanes may contain any value, and
    LLVM's division by zero is undefined."""
    if not how.by_zero:
        return b
    zero = t.compare("eq", how.element, b, t.constant(how.element, 0))
    return t.select(how.element, zero, t.constant(how.element, 1), b)


def _differ(t: Thread, element: Element, a: Handle, b: Handle) -> Handle:
    """Whether the signs of `a` and `b` differ."""
    return t.compare("slt", element, t.binary("xor", element, a, b), t.constant(element, 0))


_DIVISIONS: dict[str, tuple[_Operation, bool]] = {
    "sdiv": (_quotient, True),
    "udiv": (_quotient, False),
    "srem": (_remainder, True),
    "urem": (_remainder, False),
}
"""The operation, and whether it is of signed numbers."""

RULES: dict[str, Rule] = dict.fromkeys(_DIVISIONS, _divisions)
