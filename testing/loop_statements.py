"""Statements that consist of whole loops, for the passes that transform loads and stores of
loops."""

from __future__ import annotations

from tileir.op import Successor
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Mul, Overflow
from tileir.ops.control import Branch, CondBranch
from tileir.ops.dot import Dot
from tileir.ops.floats import FAdd, FMaxNum, FMul, FSub
from tileir.ops.memory import Load, Store
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.shape import Broadcast, ExpandDims, GetElementPtr, MakeRange, Splat
from tileir.testing.access import REGION, Base, address
from tileir.testing.large_tile_statements import WIDE
from tileir.testing.writer import Writer
from tileir.types import F32, I32, tile
from tileir.values import Operand, Value, constant

SIDE = 16
"""Rows and columns of the operands of a dot in `matmul_loop`."""
DEEP = 4
"""Dots along K."""
OPERAND_SIZE = SIDE * SIDE * DEEP
"""Elements per instance of the buffers of operands."""
_LARGEST = 2**31 - 1
_ROW = tile(F32, (8,))
_STEPS = (FAdd, FSub, FMul, FMaxNum)


def walk(writer: Writer, base: Base, trips: int, how: int, start: int) -> None:
    """A loop over consecutive rows of an input, combined by an op that `how` selects. For an even
    `start` the loop is left at the end of the body, for an odd one in the header."""
    first = address(writer, base, REGION, start % 8, (8,))
    initial = writer.of_type(_ROW, how)
    pointer, total = Value(first.type, "p"), Value(_ROW, "t")

    def body() -> tuple[Operand, ...]:
        row = writer.hide(Load(pointer))
        new = writer.hide(_STEPS[how % 4](total, row))
        return writer.hide(GetElementPtr(pointer, constant(tile(I32, (8,)), 8))), new

    last = _loop(writer, 1 + trips % 4, start % 2 == 0, (pointer, total), (first, initial), body)
    writer.reveal(last[1])


def taps(writer: Writer, base: Base, trips: int, how: int, back: int) -> None:
    """A loop over the taps of a filter: it loads rows of an input that begin 1 or 2 elements apart,
    multiplies them by one weight and adds them. For an even `how`, only a live number of elements
    is loaded."""
    step = 1 + how // 2 % 2
    numbers = tile(I32, (8,))
    start = Mul(base.instance, constant(I32, REGION), overflow=Overflow.NSW)
    place = writer.hide(GetElementPtr(base.pointer, writer.hide(start)))
    line = writer.hide(MakeRange(numbers, start=how % 8))
    everywhere = writer.hide(Splat(place, tile(base.pointer.type, (8,))))  # type: ignore[arg-type]
    first = writer.hide(GetElementPtr(everywhere, line))
    limit = writer.hide(Splat(writer.of_type(I32, back, clean=True), numbers))
    index = writer.hide(MakeRange(numbers, start=0))
    pointer, at, total = Value(first.type, "p"), Value(numbers, "i"), Value(_ROW, "t")

    def body() -> tuple[Operand, ...]:
        inside = ICmp(at, limit, predicate_=IntegerPredicate.SLT)
        writer.append(inside)
        masked = (inside.results[0], constant(_ROW, 0.0)) if how % 2 == 0 else ()
        row = writer.hide(Load(pointer, *masked))
        new = writer.hide(FAdd(total, writer.hide(FMul(row, constant(_ROW, 0.5)))))
        further = Add(at, constant(numbers, step), overflow=Overflow.NSW)
        ahead = writer.hide(GetElementPtr(pointer, constant(numbers, step)))
        return ahead, writer.hide(further), new

    initial = (first, index, constant(_ROW, 0.0))
    last = _loop(writer, 2 + trips % 4, how // 4 % 2 == 0, (pointer, at, total), initial, body)
    writer.reveal(last[2])


def matmul_loop(writer: Writer, left: Base, right: Base, trips: int, how: int) -> None:
    """A matmul of two f16 matrices in a loop over K, then a reduction of its rows or columns."""
    width = SIDE * DEEP
    a = _matrix(writer, left, OPERAND_SIZE, width)
    b = _matrix(writer, right, OPERAND_SIZE, SIDE)
    pa, pb, total = Value(a.type, "a"), Value(b.type, "b"), Value(tile(F32, (SIDE, SIDE)), "t")

    def body() -> tuple[Operand, ...]:
        x, y = writer.hide(Load(pa)), writer.hide(Load(pb))
        more = writer.hide(Dot(x, y, total))
        square = (SIDE, SIDE)
        next_a = writer.hide(GetElementPtr(pa, constant(tile(I32, square), SIDE)))
        next_b = writer.hide(GetElementPtr(pb, constant(tile(I32, square), SIDE * SIDE)))
        return next_a, next_b, more

    zero = constant(total.type, 0.0)
    last = _loop(writer, 1 + trips % DEEP, how % 2 == 0, (pa, pb, total), (a, b, zero), body)
    writer.emit(Reduce((last[2],), axis=how // 2 % 2, combiner=Combiner.FADD))


def _loop(
    writer: Writer,
    trips: int,
    at_end: bool,
    parameters: tuple[Value, ...],
    initial: tuple[Operand, ...],
    body: object,
) -> tuple[Operand, ...]:
    """Write a counted loop; the values of its parameters after it. A loop of an even number of
    iterations counts up to the largest integer, so that a counter that runs ahead overflows."""
    number, counter = writer.fresh(), Value(I32, "i")
    end = _LARGEST if trips % 2 == 0 else trips
    head, done = f"walk{number}", f"walked{number}"
    writer.finish(Branch(Successor(head, (constant(I32, end - trips), *initial))))
    writer.begin(head, (counter, *parameters))
    if not at_end:
        more = ICmp(counter, constant(I32, end), predicate_=IntegerPredicate.SLT)
        writer.ops.append(more)
        writer.finish(CondBranch(more.results[0], Successor(f"step{number}"), Successor(done)))
        writer.begin(f"step{number}")
    carried = body()  # type: ignore[operator]
    count = writer.hide(Add(counter, constant(I32, 1), overflow=Overflow.NSW))
    successor = Successor(head, (count, *carried))
    if at_end:
        more = ICmp(count, constant(I32, end), predicate_=IntegerPredicate.SLT)
        writer.ops.append(more)
        writer.finish(CondBranch(more.results[0], successor, Successor(done)))
    else:
        writer.finish(Branch(successor))
    writer.begin(done)
    return carried if at_end else parameters


def _matrix(writer: Writer, base: Base, region: int, width: int) -> Value:
    """Pointers to a square block of a matrix of `width` columns."""
    start = writer.hide(Mul(base.instance, constant(I32, region)))
    first = writer.hide(GetElementPtr(base.pointer, start))
    line = writer.hide(MakeRange(tile(I32, (SIDE,)), start=0))
    square, row = tile(I32, (SIDE, SIDE)), tile(I32, (SIDE, 1))
    rows = writer.hide(Mul(writer.hide(ExpandDims(line, axis=1)), constant(row, width)))
    columns = writer.hide(Broadcast(writer.hide(ExpandDims(line, axis=0)), square))
    index = writer.hide(Add(writer.hide(Broadcast(rows, square)), columns))
    everywhere = writer.hide(Splat(first, tile(base.pointer.type, (SIDE, SIDE))))  # type: ignore[arg-type]
    return writer.hide(GetElementPtr(everywhere, index))


def bounded_row(writer: Writer, source: Base, target: Base, back: int, how: int) -> None:
    """Load a row, compute with it, and store it, up to a live number of elements."""
    extent = (32, 64, 7, 48)[how % 4]
    kind = tile(I32, (extent,))
    limit = writer.of_type(I32, back, clean=True)
    index = writer.hide(MakeRange(kind, start=0))
    inside = ICmp(index, writer.hide(Splat(limit, kind)), predicate_=IntegerPredicate.SLT)
    writer.append(inside)
    mask = inside.results[0]
    row = tile(F32, (extent,))
    value = writer.hide(
        Load(address(writer, source, REGION, 0, (extent,)), mask, constant(row, 1.0))
    )
    value = writer.hide(_STEPS[how // 4 % 4](value, writer.of_type(row, how)))
    writer.append(Store(address(writer, target, WIDE, 0, (extent,)), value, mask))
