"""Arithmetic on the four bytes of a word at once, for targets with 32-bit registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeAlias

from tileir.analysis import memoize
from tileir.analysis.uses import definitions, uses
from tileir.backend.codegen.lowering import Fragment, Lowering, scalar_of
from tileir.ir import Function
from tileir.op import Op
from tileir.types import I8, I32, element_of
from tileir.values import Constant, Operand, Value

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

OfWords: TypeAlias = "Callable[[Thread, Handle, Any], Handle]"
"""The word of a result from the word of an operand, and that of the other one or the number of bits
by which bytes are shifted."""

_EACH = 0x01010101
_HIGH, _REST = 0x80 * _EACH, 0x7F * _EACH


def by_words(lowering: Lowering, op: Any) -> list[Fragment] | None:
    """The result of an op on bytes, four at a time: unpacked weights are then computed in the words
    in which they are loaded and converted. None where the bytes are in no words, and what is
    computed of them, too, or where there is no such instruction."""
    t, shifts = lowering.thread, op.mnemonic in _SHIFTS
    columns = [lowering.fragment(x) for x in op.inputs]
    count = max(map(len, columns))
    if count % 4 or (shifts and not _is_short_shift(op.rhs)):
        return None
    packs = op.result not in _values_of_other_readers(lowering.function)
    words = [_words(t, *x, count, packs=packs) for x in zip(op.inputs, columns, strict=True)]
    left, right = (words[0], [op.rhs.bits] * (count // 4)) if shifts else words
    if left is None or right is None:
        return None
    computed: dict[tuple[Handle, Any], list[Handle]] = {}
    result: Fragment = []
    for a, b in zip(left, right, strict=True):
        if (a, b) not in computed:
            computed[a, b] = t.unpack(I8, OF_WORDS[op.mnemonic](t, a, b))
        result += computed[a, b]
    return [result]


@memoize
def _values_of_other_readers(function: Function) -> Set[Value]:
    """The byte values from which something other than bytes and floats is computed, directly or
    through other bytes."""
    origin, result = definitions(function), set[Value]()
    of_bytes = {x: readers for x, readers in uses(function).items() if element_of(x.type) is I8}
    waiting = [x for x, readers in of_bytes.items() if not all(map(_packs, readers))]
    while waiting:
        value = waiting.pop()
        if value not in result:
            result.add(value)
            operands = origin[value].inputs if value in origin else ()
            waiting += [x for x in operands if x in of_bytes]
    return result


def _packs(reader: Op) -> bool:
    """Whether `reader` processes four bytes at a time: it converts bytes to floats, or computes or
    moves bytes."""
    kinds = {scalar_of(x.type) for x in reader.results}
    if reader.elementwise and all(kind.is_float for kind in kinds):
        return True
    alone = reader.elementwise and reader.mnemonic not in OF_WORDS
    return kinds == {I8} and not (alone or reader.effects or reader.is_terminator)


def _words(
    t: Thread, operand: Operand, column: Sequence[Handle], count: int, *, packs: bool
) -> Any:
    """The words of `count` bytes; None if the bytes are not those of whole words. If `packs`, the
    bytes are packed into words instead."""
    if isinstance(operand, Constant):
        return [t.constant(I32, operand.bits * _EACH)] * (count // 4)
    fours = [tuple(column[i : i + 4]) for i in range(0, count, 4)]
    if len(column) % 4 or not (packs or all(t.in_one_word(I8, four) for four in fours)):
        return None
    return [t.pack(I8, four) for four in fours]


def _is_short_shift(amount: Operand) -> bool:
    return isinstance(amount, Constant) and 0 < amount.bits < I8.bits


def _bitwise(name: str) -> OfWords:
    return lambda t, a, b: t.binary(name, I32, a, b)


def _add(t: Thread, a: Handle, b: Handle) -> Handle:
    """Add bytewise: the low seven bits of each byte are added, which carries into no other byte."""
    high, rest = t.constant(I32, _HIGH), t.constant(I32, _REST)
    total = t.binary("add", I32, *(t.binary("and", I32, x, rest) for x in (a, b)))
    differ = t.binary("and", I32, t.binary("xor", I32, a, b), high)
    return t.binary("xor", I32, total, differ)


def _subtract(t: Thread, a: Handle, b: Handle) -> Handle:
    """Subtract bytewise: the low seven bits of each byte are subtracted from a byte of 128 or more,
    which borrows from no other byte."""
    high, rest = t.constant(I32, _HIGH), t.constant(I32, _REST)
    left, right = t.binary("or", I32, a, high), t.binary("and", I32, b, rest)
    differ = t.binary("and", I32, t.binary("xor", I32, a, b), high)
    same = t.binary("xor", I32, differ, high)
    return t.binary("xor", I32, t.binary("sub", I32, left, right), same)


def _shift_left(t: Thread, a: Handle, amount: int) -> Handle:
    shifted = t.binary("shl", I32, a, t.constant(I32, amount))
    return t.binary("and", I32, shifted, t.constant(I32, (0xFF << amount & 0xFF) * _EACH))


def _shift_right(t: Thread, a: Handle, amount: int) -> Handle:
    shifted = t.binary("lshr", I32, a, t.constant(I32, amount))
    return t.binary("and", I32, shifted, t.constant(I32, (0xFF >> amount) * _EACH))


def _shift_signed(t: Thread, a: Handle, amount: int) -> Handle:
    """Shift bytewise, with sign: the sign bit is inverted, shifted, and subtracted from a byte of
    128 or more."""
    sign, high = t.constant(I32, (0x80 >> amount) * _EACH), t.constant(I32, _HIGH)
    inverted = t.binary("xor", I32, _shift_right(t, a, amount), sign)
    less = t.binary("sub", I32, t.binary("or", I32, inverted, high), sign)
    return t.binary("xor", I32, less, high)


_SHIFTS: dict[str, OfWords] = {"shl": _shift_left, "lshr": _shift_right, "ashr": _shift_signed}

OF_WORDS: dict[str, OfWords] = {
    **{name: _bitwise(name) for name in ("and", "or", "xor")}, "add": _add, "sub": _subtract,
    **_SHIFTS,
}  # fmt: skip
