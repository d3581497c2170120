"""Values carried from one chunk of a tile to the next: accumulators and prefixes of scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs

from tileir.backend.codegen.combiners import identity
from tileir.backend.strip_mine.plan import Sink
from tileir.backend.strip_mine.slicing import ChunkEmitter, chunk_type, tiled_operands
from tileir.op import Op, lookup
from tileir.ops.arith import Add, Select
from tileir.ops.private import PrivateStore
from tileir.ops.rearrange import Join
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.shape import Broadcast, ExpandDims, Splat
from tileir.types import Element, Tile, Type, element_of, shape_of
from tileir.values import Constant, Operand

Carried = Sequence[Operand]
"""The loop-carried values of one sink."""


@attrs.frozen(eq=False)
class ChunkCarry:
    """The values that `sink` carries from chunk to chunk: by default none."""

    sink: Sink
    continues = False
    """Whether the smaller last chunk continues with the carried values of the loop. Otherwise it
    starts from scratch, and `finish` combines both."""

    @property
    def op(self) -> Any:
        return self.sink.op

    def start(self, size: int) -> Carried | None:
        """The initial carried values for chunks of `size` elements; None where the first chunk
        itself is the initial value."""
        return ()

    def add(self, emitter: ChunkEmitter, before: Carried | None) -> Carried:
        """Emit one chunk; returns the carried values after it."""
        emitter.add(emitter.evolve(self.op, self.sink.needs))
        return ()

    def finish(self, ops: list[Op], total: Carried, remainder: Carried | None) -> None:
        """Append the ops that compute the results of the sink from the carried values `total` of
        the loop and those of the smaller last chunk."""


class StagedChunks(ChunkCarry):
    """A staged op: its chunks are computed once, for all loops that need them."""

    def add(self, emitter: ChunkEmitter, before: Carried | None) -> Carried:
        emitter.stage(self.op, self.sink.dim)
        return ()


class NamedReduction(ChunkCarry):
    """A reduction by a named combiner: chunks are combined element by element, then reduced."""

    def start(self, size: int) -> Carried | None:
        return (
            _identity_constant(self.op, chunk_type(self.op.values[0].type, self.sink.dim, size)),
        )

    def add(self, emitter: ChunkEmitter, before: Carried | None) -> Carried:
        (total,), op = cast(Carried, before), self.op
        value = emitter.chunk(op.values[0], self.sink.dim)
        if op.predicate is not None:
            predicate, neutral = (
                emitter.chunk(*self.sink.needs[-1]),
                _identity_constant(op, value.type),
            )
            value = emitter.add(Select(predicate, value, neutral, location=op.location)).result
        return (emitter.add(_combine(op, total, value)).result,)

    def finish(self, ops: list[Op], total: Carried, remainder: Carried | None) -> None:
        op = self.op
        if remainder is None:
            ops.append(attrs.evolve(op, values=tuple(total), predicate=None))
            return
        first, second = (
            attrs.evolve(op, values=tuple(v), predicate=None, results=(), comments=())
            for v in (total, remainder)
        )
        ops += [first, second, *self._combine_parts(first.results, second.results)]

    def _combine_parts(self, a: Carried, b: Carried) -> list[Op]:
        """The ops that combine the results of two parts into those of the sink."""
        return [attrs.evolve(_combine(self.op, a[0], b[0]), results=self.op.results)]


class FunctionReduction(NamedReduction):
    """A reduction by a function, which starts from the first chunk: two chunks are joined in a new
    dimension and reduced along it."""

    def start(self, size: int) -> Carried | None:
        return None

    def add(self, emitter: ChunkEmitter, before: Carried | None) -> Carried:
        chunks = tuple([emitter.chunk(v, self.sink.dim) for v in self.op.values])
        if before is None:
            return chunks
        ops = self._fold(before, chunks)
        for op in ops:
            emitter.add(op)
        return ops[-1].results

    def _combine_parts(self, a: Carried, b: Carried) -> list[Op]:
        *joins, last = self._fold(a, b)
        return [*joins, attrs.evolve(last, results=self.op.results)]

    def _fold(self, a: Carried, b: Carried) -> list[Op]:
        location = self.op.location
        joins = [Join(x, y, location=location) for x, y in zip(a, b, strict=True)]
        joined, axis = tuple([j.result for j in joins]), len(shape_of(a[0].type))
        return [*joins, Reduce(joined, axis=axis, combiner=self.op.combiner, location=location)]


class HistogramCarry(ChunkCarry):
    """A histogram: the sum of the histograms of its chunks."""

    def start(self, size: int) -> Carried | None:
        return (Constant(self.op.to, 0),)

    def add(self, emitter: ChunkEmitter, before: Carried | None) -> Carried:
        (total,) = cast(Carried, before)
        counts = emitter.add(emitter.evolve(self.op, self.sink.needs)).result
        return (emitter.add(Add(total, counts, location=self.op.location)).result,)

    def finish(self, ops: list[Op], total: Carried, remainder: Carried | None) -> None:
        counts = self.start(0) if remainder is None else remainder
        assert counts is not None
        ops.append(Add(total[0], counts[0], location=self.op.location, results=self.op.results))


class ScanCarry(ChunkCarry):
    """A scan along the strip-mined dimension: the prefix of all earlier chunks is combined with the
    scan of each chunk."""

    continues = True

    def start(self, size: int) -> Carried | None:
        return (_identity_constant(self.op, self._reduced_type),)

    def add(self, emitter: ChunkEmitter, before: Carried | None) -> Carried:
        (total,), op = cast(Carried, before), self.op
        chunk = emitter.add(emitter.evolve(op, tiled_operands(op, self.sink.dim)))
        value = emitter.chunk(op.values[0], self.sink.dim)
        prefix = _broadcast_along_axis(emitter, total, chunk.result.type, op)
        emitter.keep(op, self.sink.dim, (emitter.add(_combine(op, prefix, chunk.result)).result,))
        chunk_total = Reduce((value,), axis=op.axis, combiner=op.combiner, location=op.location)
        return (emitter.add(_combine(op, total, emitter.add(chunk_total).result)).result,)

    @property
    def _reduced_type(self) -> Type:
        kind: Any = self.op.values[0].type
        shape = (*kind.shape[: self.op.axis], *kind.shape[self.op.axis + 1 :])
        return Tile(kind.element, shape) if shape else kind.element


class SpilledStore(ChunkCarry):
    """A spilled value, stored chunk by chunk."""

    def add(self, emitter: ChunkEmitter, before: Carried | None) -> Carried:
        value = emitter.chunk(self.op.value, self.sink.dim)
        buffer = emitter.chunk_buffers[self.op.buffer].at(emitter)
        emitter.add(PrivateStore(*buffer, value, location=self.op.location))
        return ()


def carry_of(sink: Sink) -> ChunkCarry:
    """The carry of `sink`."""
    op = cast(Any, sink.op)
    if op.mnemonic == "scan" and sink.dim == op.axis:
        return ScanCarry(sink)
    if sink.stages:
        return StagedChunks(sink)
    if op.mnemonic == "gpu.private_store":
        return SpilledStore(sink)
    if op.mnemonic == "histogram":
        return HistogramCarry(sink)
    if op.mnemonic == "reduce":
        return (NamedReduction if isinstance(op.combiner, Combiner) else FunctionReduction)(sink)
    return ChunkCarry(sink)


def _identity_constant(op: Any, kind: Type) -> Constant:
    """The neutral element of the combiner of `op`, as a constant of type `kind`."""
    return Constant(kind, identity(op.combiner.value, cast(Element, element_of(kind))))


def _combine(op: Any, a: Operand, b: Operand) -> Op:
    """The op that combines `a` and `b` by the combiner of `op`."""
    cls = cast(Any, lookup(op.combiner.value))
    return cls(a, b, location=op.location)


def _broadcast_along_axis(emitter: ChunkEmitter, value: Operand, kind: Type, op: Any) -> Operand:
    """`value`, which lacks the axis of `op`, broadcast along it to type `kind`."""
    if not isinstance(value.type, Tile):
        return emitter.add(Splat(value, kind, location=op.location)).result
    wide = emitter.add(ExpandDims(value, axis=op.axis, location=op.location)).result
    return emitter.add(Broadcast(wide, kind, location=op.location)).result
