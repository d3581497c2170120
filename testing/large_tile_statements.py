"""The statement `wide`: a chain of ops on a tile that exceeds the registers, which `strip-mine`
cuts."""

from __future__ import annotations

from tileir.ops.arith import Sub
from tileir.ops.atomic import AtomicKind, AtomicRMW
from tileir.ops.floats import FAdd, FMul, FSub
from tileir.ops.memory import Load, Store
from tileir.ops.reduce import Combiner, Reduce, Scan
from tileir.ops.shape import GetElementPtr, MakeRange, Splat
from tileir.testing.access import REGION, Base, address
from tileir.testing.writer import Writer
from tileir.types import F32, I32, tile
from tileir.values import Value, constant

WIDE = 256
"""Elements of the tile."""

_KIND = tile(F32, (WIDE,))


def wide(writer: Writer, source: Base, target: Base, back: int, how: int, where: int) -> None:
    """Emit a tile of many elements that is loaded, computed with, and then stored, scanned, added
    to memory or reduced.

    For an odd `how`, its maximum is subtracted first. `where` selects further uses: a load of the
    target from its end, if the program promises nothing about its pointers; and whether later
    statements, in other blocks too, may use the value.
    """
    place = address(writer, target, WIDE, 0, (WIDE,))
    value = writer.hide(Load(address(writer, source, REGION, 0, (WIDE,))))
    value = writer.hide(
        FMul(value, writer.hide(Splat(writer.of_type(F32, back, clean=True), _KIND)))
    )
    if where % 2:
        writer.promised = False
        result = writer.hide(Load(_from_the_end(writer, target) if where // 2 % 2 else place))
        value = writer.hide(FAdd(value, result))
    if how % 2:
        value = writer.hide(FSub(value, _spread(writer, _largest(writer, value))))
    if where // 4 % 2:
        writer.live.append(value)
    match how // 2 % 6:
        case 0:
            writer.ops.append(Store(place, value))
        case 1:
            writer.ops.append(Store(place, value))
            reloaded = writer.hide(Load(_from_the_end(writer, target)))
            writer.ops.append(Store(place, writer.hide(FAdd(reloaded, value))))
        case 2:
            prefix = writer.hide(Scan((value,), axis=0, combiner=Combiner.FMAXNUM))
            writer.ops.append(Store(place, writer.hide(FSub(prefix, value))))
        case 3:
            old = writer.hide(AtomicRMW(place, value, op=AtomicKind.FMAX))
            writer.ops.append(Store(_from_the_end(writer, target), old))
        case 4:
            writer.ops.append(Store(_from_the_end(writer, target), value))
        case _:
            writer.live.append(_largest(writer, value))


def _largest(writer: Writer, value: Value) -> Value:
    return writer.hide(Reduce((value,), axis=0, combiner=Combiner.FMAXNUM))


def _spread(writer: Writer, value: Value) -> Value:
    return writer.hide(Splat(value, _KIND))


def _from_the_end(writer: Writer, base: Base) -> Value:
    """Pointers to the elements of a tile of `base`, in reverse order."""
    numbers = tile(I32, (WIDE,))
    line = writer.hide(MakeRange(numbers))
    back = writer.hide(Sub(constant(numbers, WIDE - 1), line))
    start = address(writer, base, WIDE, 0, ())
    everywhere = writer.hide(Splat(start, tile(base.pointer.type, (WIDE,))))  # type: ignore[arg-type]
    return writer.hide(GetElementPtr(everywhere, back))
