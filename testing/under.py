"""Statements under predicates: reductions, scans, histograms, elementwise ops and accesses, on live
values and on literals. Their predicates may themselves be computed under a predicate. Lanes that
are undefined because the predicate is false are replaced by a literal."""

from __future__ import annotations

from tileir.effects import EXACT, ROUNDED
from tileir.op import Op
from tileir.ops.arith import ICmp, IntegerPredicate, Select
from tileir.ops.atomic import AtomicKind, AtomicRMW
from tileir.ops.memory import Load, Store
from tileir.ops.reduce import Combiner, Histogram, Reduce, Scan
from tileir.ops.shape import GetElementPtr, MakeRange, Reshape, Splat
from tileir.testing.access import COUNTERS, REGION, TILES, Base, address, size_of
from tileir.testing.elementwise import elementwise, elementwise_ops
from tileir.testing.reduction_statements import combiner_for
from tileir.testing.shapes import LARGEST
from tileir.testing.writer import Writer, literal
from tileir.types import F32, I1, I32, Tile, element_of, shape_of, tile
from tileir.values import Operand, Undef, Value, constant

_ELEMENTS = (I32, F32)
_TESTS = (
    IntegerPredicate.SLT, IntegerPredicate.SGE, IntegerPredicate.NE, IntegerPredicate.EQ,
    IntegerPredicate.ULT,
)  # fmt: skip


def predicate_for(writer: Writer, shape: tuple[int, ...], digit: int) -> tuple[Value, Operand]:
    """A predicate for `shape`, and the value that is true where it is. For an odd digit it is
    computed under another predicate, or from a value that is undefined elsewhere. For the last
    digit it is a literal, which passes recognize as uniform."""
    index: Operand
    if shape and digit % 16 == 15:
        uniform = writer.hide(Splat(constant(I1, digit % 32 > 15), tile(I1, shape)))
        return uniform, uniform
    if shape:
        size = size_of(tile(I32, shape))
        index = writer.hide(MakeRange(tile(I32, (size,)), start=0))
        if len(shape) > 1:
            index = writer.hide(Reshape(index, tile(I32, shape)))
    else:
        index = writer.of_type(I32, digit, clean=True)
    outer = ICmp(index, constant(index.type, digit // 2), predicate_=_TESTS[digit % 5])
    writer.append(outer)
    first = outer.results[digit // 4 % 2]
    if digit % 2 == 0:
        return first, first
    bound, under = constant(index.type, digit // 3), first if digit % 8 != 7 else None
    if under is None:
        index = writer.hide(Select(first, index, Undef(index.type)))
    inner = ICmp(index, bound, predicate_=_TESTS[(digit + 1) % 5], predicate=under)
    writer.append(inner)
    second = inner.results[digit // 8 % 2]
    return second, writer.hide(Select(first, second, constant(first.type, False)))


def reduce_under(writer: Writer, back: int, axis: int, which: int) -> None:
    """Reduce one dimension of a tile, or of a literal for the last digit, under a predicate."""
    value = _tile(writer, back, which)
    how = combiner_for(writer, value, which)
    if how is None:
        return
    predicate, lanes = predicate_for(writer, shape_of(value.type), which + axis)
    at = axis % len(shape_of(value.type))
    combined = writer.hide(Reduce((value,), axis=at, combiner=how, predicate=predicate))
    some = writer.hide(Reduce((lanes,), axis=at, combiner=Combiner.OR))
    writer.emit(Select(some, combined, literal(combined.type, which)))


def scan_under(writer: Writer, back: int, axis: int, which: int) -> None:
    """Scan along one dimension of the lanes in which a predicate is true."""
    value = _tile(writer, back, which)
    how = combiner_for(writer, value, which)
    if how is None:
        return
    predicate, lanes = predicate_for(writer, shape_of(value.type), which + axis)
    at = axis % len(shape_of(value.type))
    scan = Scan((value,), axis=at, combiner=how, reverse=which % 2 == 0, predicate=predicate)
    result = writer.hide(scan)
    writer.emit(Select(lanes, result, literal(result.type, which)))


def histogram_under(writer: Writer, back: int, bins: int, which: int) -> None:
    """Emit the histogram of the lanes in which a predicate is true."""
    value: Operand | None = writer.pick(back, lambda t: element_of(t) is I32 and bool(shape_of(t)))
    if value is None or back == 15:
        value = literal(tile(I32, (16,)), which)
    _, lanes = predicate_for(writer, shape_of(value.type), which)
    writer.emit(Histogram(value, tile(I32, (1 + bins,)), predicate=lanes))


def op_under(writer: Writer, kind: int, a: int, b: int) -> None:
    """An elementwise op under a predicate."""
    ops = [c for c in elementwise_ops() if writer.inexact or c.numerics in (EXACT, ROUNDED)]
    cls = ops[(kind * 16 + a) % len(ops)]

    def put(op: Op) -> None:
        shape = shape_of(op.results[0].type)
        predicate, lanes = predicate_for(writer, shape, b)
        predicated = op.evolve(predicate=predicate, results=())
        writer.append(predicated)
        for result in predicated.results:
            writer.emit(Select(lanes, result, literal(result.type, b)))

    elementwise(writer, cls, (a, b, kind), put)


def memory_under(writer: Writer, base: Base, counters: Base, a: int, b: int, c: int) -> None:
    """A store to scratch memory, a load of it and an atomic addition, each under a predicate.

    For one digit of three, the load is masked instead. Two selects follow it; the first one
    replaces the lanes that the mask leaves undefined.
    """
    element = element_of(base.pointer.type.pointee)  # type: ignore[union-attr]
    value = writer.pick(a, lambda t: element_of(t) is element and size_of(t) <= LARGEST)
    shape = (8,) if value is None else shape_of(value.type)
    stored = literal(tile(element, shape), b) if value is None or a == 15 else value  # type: ignore[arg-type]
    where = address(writer, base, REGION, b % TILES * LARGEST, shape)
    lanes = predicate_for(writer, shape, b)[1]
    writer.append(Store(where, stored, predicate=lanes))
    predicate, loaded = predicate_for(writer, shape, c)
    masked = bool(shape) and c % 3 == 0
    result = writer.hide(Load(where, loaded) if masked else Load(where, predicate=predicate))
    defined = writer.hide(Select(loaded, result, literal(result.type, c)))
    writer.emit(Select(lanes, defined, literal(result.type, a)))
    place = writer.hide(GetElementPtr(counters.pointer, constant(I32, c % COUNTERS)))
    flag = predicate_for(writer, (), c)[1]
    writer.append(AtomicRMW(place, constant(I32, 1 + a), op=AtomicKind.ADD, predicate=flag))


def _tile(writer: Writer, back: int, which: int) -> Operand:
    """A live tile, or a literal for the last digit or if there is no live tile."""
    operand = writer.pick(back, lambda t: isinstance(t, Tile) and t.element is not I1)
    if operand is None or back == 15:
        return literal(tile(_ELEMENTS[which % 2], ((8,), (4, 4), (5,))[which % 3]), which)
    return operand
