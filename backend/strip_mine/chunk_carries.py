"""What goes from one piece of a tile to the next: sums of pieces, and what a scan has come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs

from tileir.backend.codegen.combiners import identity
from tileir.backend.strip_mine.plan import Sink
from tileir.backend.strip_mine.slicing import ChunkEmitter, resized, tiled_operands
from tileir.op import Op, lookup
from tileir.ops.arith import Add
from tileir.ops.compare import Select
from tileir.ops.private import PrivateStore
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.shape import Broadcast, ExpandDims, Join, Splat
from tileir.types import Element, Tile, Type, element_of, shape_of
from tileir.values import Constant, Operand

Carried = Sequence[Operand]
"""What one sink hands on."""


@attrs.frozen(eq=False)
class ChunkCarry:
    """What `sink` hands on from piece to piece: by default nothing, each being done for itself."""

    sink: Sink
    on = False
    """Whether the smaller piece at the end goes on from where others stopped, and is no sum of its
    own."""

    @property
    def op(self) -> Any:
        return self.sink.op

    def start(self, size: int) -> Carried | None:
        """What the first piece, of `size` elements, begins with; None where it begins itself."""
        return ()

    def add(self, cutter: ChunkEmitter, before: Carried | None) -> Carried:
        """One piece more."""
        cutter.add(cutter.evolve(self.op, self.sink.needs))
        return ()

    def finish(self, ops: list[Op], total: Carried, rest: Carried | None) -> None:
        """What the op gives, from that of its pieces and that of a smaller one."""


class Kept(ChunkCarry):
    """Pieces that are computed once, for all loops that need them."""

    def add(self, cutter: ChunkEmitter, before: Carried | None) -> Carried:
        cutter.stage(self.op, self.sink.dim)
        return ()


class NamedReduction(ChunkCarry):
    """A reduction by a named combiner: pieces are combined element by element, then reduced."""

    def start(self, size: int) -> Carried | None:
        return (_neutral(self.op, resized(self.op.values[0].type, self.sink.dim, size)),)

    def add(self, cutter: ChunkEmitter, before: Carried | None) -> Carried:
        (total,), op = cast(Carried, before), self.op
        value = cutter.piece(op.values[0], self.sink.dim)
        if op.predicate is not None:
            held, neutral = cutter.piece(*self.sink.needs[-1]), _neutral(op, value.type)
            value = cutter.add(Select(held, value, neutral, location=op.location)).result
        return (cutter.add(_pair(op, total, value)).result,)

    def finish(self, ops: list[Op], total: Carried, rest: Carried | None) -> None:
        op = self.op
        if rest is None:
            ops.append(attrs.evolve(op, values=tuple(total), predicate=None))
            return
        first, second = (
            attrs.evolve(op, values=tuple(v), predicate=None, results=(), comments=())
            for v in (total, rest)
        )
        ops += [first, second, *self._joined(first.results, second.results)]

    def _joined(self, a: Carried, b: Carried) -> list[Op]:
        """The op's results, from those of two parts."""
        return [attrs.evolve(_pair(self.op, a[0], b[0]), results=self.op.results)]


class FunctionReduction(NamedReduction):
    """A reduction by a function, whose pieces begin with the first one: two tiles side by side in a
    new dimension are reduced along it."""

    def start(self, size: int) -> Carried | None:
        return None

    def add(self, cutter: ChunkEmitter, before: Carried | None) -> Carried:
        pieces = tuple([cutter.piece(v, self.sink.dim) for v in self.op.values])
        if before is None:
            return pieces
        made = self._fold(before, pieces)
        for op in made:
            cutter.add(op)
        return made[-1].results

    def _joined(self, a: Carried, b: Carried) -> list[Op]:
        *joins, last = self._fold(a, b)
        return [*joins, attrs.evolve(last, results=self.op.results)]

    def _fold(self, a: Carried, b: Carried) -> list[Op]:
        place = self.op.location
        joins = [Join(x, y, location=place) for x, y in zip(a, b, strict=True)]
        sides, axis = tuple([j.result for j in joins]), len(shape_of(a[0].type))
        return [*joins, Reduce(sides, axis=axis, combiner=self.op.combiner, location=place)]


class HistogramCarry(ChunkCarry):
    """A histogram: those of pieces, added."""

    def start(self, size: int) -> Carried | None:
        return (Constant(self.op.to, 0),)

    def add(self, cutter: ChunkEmitter, before: Carried | None) -> Carried:
        (total,) = cast(Carried, before)
        found = cutter.add(cutter.evolve(self.op, self.sink.needs)).result
        return (cutter.add(Add(total, found, location=self.op.location)).result,)

    def finish(self, ops: list[Op], total: Carried, rest: Carried | None) -> None:
        more = self.start(0) if rest is None else rest
        assert more is not None
        ops.append(Add(total[0], more[0], location=self.op.location, results=self.op.results))


class ScanCarry(ChunkCarry):
    """A scan along the dimension that is cut: each piece is combined with what came before it."""

    on = True

    def start(self, size: int) -> Carried | None:
        return (_neutral(self.op, self._reduced),)

    def add(self, cutter: ChunkEmitter, before: Carried | None) -> Carried:
        (total,), op = cast(Carried, before), self.op
        piece = cutter.add(cutter.evolve(op, tiled_operands(op, self.sink.dim)))
        value = cutter.piece(op.values[0], self.sink.dim)
        spread = _spread(cutter, total, piece.result.type, op)
        cutter.keep(op, self.sink.dim, (cutter.add(_pair(op, spread, piece.result)).result,))
        whole = Reduce((value,), axis=op.axis, combiner=op.combiner, location=op.location)
        return (cutter.add(_pair(op, total, cutter.add(whole).result)).result,)

    @property
    def _reduced(self) -> Type:
        kind: Any = self.op.values[0].type
        shape = (*kind.shape[: self.op.axis], *kind.shape[self.op.axis + 1 :])
        return Tile(kind.element, shape) if shape else kind.element


class Moved(ChunkCarry):
    """A value that goes through memory, by its pieces."""

    def add(self, cutter: ChunkEmitter, before: Carried | None) -> Carried:
        value = cutter.piece(self.op.value, self.sink.dim)
        place = cutter.pieces[self.op.buffer].at(cutter)
        cutter.add(PrivateStore(*place, value, location=self.op.location))
        return ()


def sum_of(sink: Sink) -> ChunkCarry:
    """What goes from piece to piece of `sink`."""
    op = cast(Any, sink.op)
    if op.mnemonic == "scan" and sink.dim == op.axis:
        return ScanCarry(sink)
    if sink.stages:
        return Kept(sink)
    if op.mnemonic == "gpu.private_store":
        return Moved(sink)
    if op.mnemonic == "histogram":
        return HistogramCarry(sink)
    if op.mnemonic == "reduce":
        return (NamedReduction if isinstance(op.combiner, Combiner) else FunctionReduction)(sink)
    return ChunkCarry(sink)


def _neutral(op: Any, kind: Type) -> Constant:
    """What changes nothing under the combiner of `op`."""
    return Constant(kind, identity(op.combiner.value, cast(Element, element_of(kind))))


def _pair(op: Any, a: Operand, b: Operand) -> Op:
    """Two values under the combiner of `op`."""
    cls = cast(Any, lookup(op.combiner.value))
    return cls(a, b, location=op.location)


def _spread(cutter: ChunkEmitter, value: Operand, kind: Type, op: Any) -> Operand:
    """`value`, which lacks the axis of `op`, along it."""
    if not isinstance(value.type, Tile):
        return cutter.add(Splat(value, kind, location=op.location)).result
    wide = cutter.add(ExpandDims(value, axis=op.axis, location=op.location)).result
    return cutter.add(Broadcast(wide, kind, location=op.location)).result
