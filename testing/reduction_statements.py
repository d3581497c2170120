"""Statements that combine several elements of a tile, or several values under predicates."""

from __future__ import annotations

from tileir.ops.arith import (
    Add,
    And,
    FCmp,
    FloatPredicate,
    ICmp,
    IntegerPredicate,
    Mul,
    Select,
    SMax,
    Sub,
    Xor,
)
from tileir.ops.floats import FMul
from tileir.ops.predicate import Psi
from tileir.ops.reduce import Combiner, Reduce, Scan
from tileir.testing.writer import Writer
from tileir.types import I1, Scalar, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value, constant

_LEAST = (Combiner.FMINIMUM, Combiner.FMINNUM, Combiner.FMAXIMUM)
_PREDICATED = (Add, Sub, Mul, Xor, And, SMax)
_COMBINERS = {
    False: (Combiner.ADD, Combiner.SMAX, Combiner.XOR, Combiner.UMIN, Combiner.MUL),
    True: (Combiner.FADD, Combiner.FMAXNUM, Combiner.FMINIMUM),
}


def reduce(writer: Writer, back: int, axis: int, variant: int) -> None:
    """Reduce one dimension of a tile."""
    value = writer.tile(back)
    if value is None or (how := combiner_for(writer, value, variant)) is None:
        return
    writer.emit(Reduce((value,), axis=axis % len(shape_of(value.type)), combiner=how))


def row_max(writer: Writer, rows: Value, variant: int) -> None:
    """Take the scaled maximum of each row if it exceeds a bound, or another reduction of the
    row."""
    scale, others = (0.5, 1.0, -1.0, 2.0)[variant // 8 % 4], _LEAST[variant // 2 % 2 :][:2]
    largest = writer.hide(Reduce((rows,), axis=1, combiner=Combiner.FMAXNUM))
    bound, fallback = (writer.hide(Reduce((rows,), axis=1, combiner=c)) for c in others)
    scaled = largest if variant % 2 else writer.hide(FMul(largest, constant(largest.type, scale)))
    test = FCmp(scaled, bound, predicate_=FloatPredicate.OGT)
    writer.append(test)
    writer.emit(Select(test.results[0], scaled, fallback))


def scan(writer: Writer, back: int, axis: int, variant: int) -> None:
    """Scan along one dimension of a tile."""
    value = writer.tile(back)
    if value is None or (how := combiner_for(writer, value, variant)) is None:
        return
    at, reverse = axis % len(shape_of(value.type)), variant % 2 == 1
    writer.emit(Scan((value,), axis=at, combiner=how, reverse=reverse))


def predicated_pair(writer: Writer, back: int, variant: int, other: int) -> None:
    """Two ops, one under a predicate and one under its complement, merged by `psi`."""
    value = writer.pick(back, lambda t: getattr(element_of(t), "is_integer", False))
    if value is None:
        return
    yes, no = _complements(writer, value, other)
    right = writer.of_type(value.type, other)
    first = writer.hide(_PREDICATED[variant % 6](value, right, predicate=yes))
    second = writer.hide(_PREDICATED[(variant + 1 + other) % 6](value, right, predicate=no))
    writer.emit(Psi((yes, first, no, second)))


def _complements(writer: Writer, value: Value, digit: int) -> tuple[Value, Value]:
    """A predicate of `value`'s shape and its complement, or scalar ones for an odd digit."""
    kind = value.type
    if digit % 2 and isinstance(kind, Tile):
        flag = writer.flag(digit // 2)
        if flag is not None:
            test = ICmp(flag, constant(I1, True), predicate_=IntegerPredicate.EQ)
            writer.append(test)
            return test.results[0], test.results[1]
    test = ICmp(value, writer.of_type(kind, digit), predicate_=IntegerPredicate.SLT)
    writer.append(test)
    return test.results[0], test.results[1]


def combiner_for(writer: Writer, value: Operand, variant: int) -> Combiner | None:
    """A combiner for the elements of `value`, whose result does not depend on the order; None if
    there is none."""
    element = element_of(value.type)
    if not isinstance(element, Scalar) or element.bits < 8:
        return None
    if element.is_float and element.bits < 16:
        return None
    choices = _COMBINERS[element.is_float]
    if element.is_float and not writer.inexact and not _adds_to_itself(value):
        choices = tuple([c for c in choices if c is not Combiner.FADD])
    return choices[variant % len(choices)]


def _adds_to_itself(value: Operand) -> bool:
    """Whether `value` is a literal whose sum with itself is itself: a zero of either sign, an
    infinity or a NaN. The sum of such literals does not depend on the order."""
    if not isinstance(value, Constant):
        return False
    number = value.value
    return number == 2 * number or number != number
