"""The backward slice of a chunk of a tile, and the ops that compute the chunk.

An op can be cut along a dimension of its result if each chunk of the result needs only a chunk of
each operand, or the whole of an operand that does not extend along that dimension. `slice_of`
collects the backward slice; `ChunkEmitter` emits its ops for one chunk.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, cast

import attrs

from tileir.backend.layouts.shape_ops import dimension_of_operand, is_layout_only
from tileir.effects import Effects
from tileir.field import FieldKind
from tileir.op import Op, lookup
from tileir.ops.arith import Add, Sub
from tileir.ops.division import UDiv
from tileir.ops.memory import Eviction, Load, LoadCache
from tileir.ops.rearrange import ExtractSlice
from tileir.ops.shape import MakeRange, Splat
from tileir.types import I32, I64, Element, Tile, Type, element_of, shape_of
from tileir.values import Constant, Operand, Undef, Value, constant

Need = tuple[Operand, int | None]
"""An operand and the dimension along which it is cut; None where it is needed whole."""

_REPEATABLE = Effects.READ | Effects.TRAP
"""Effects of ops that several loops may repeat."""


@attrs.define
class ChunkSlice:
    """The backward slice of a chunk. `loads` are repeated per chunk; `whole` values are needed
    whole; chunks of `staged` ops, along the given dimension, were computed by an earlier loop;
    `seen` values are cut along a dimension. `largest` is the number of words, over all threads,
    that one element along the dimension takes in the largest tile of the slice."""

    loads: dict[Op, None] = attrs.field(factory=dict)
    whole: dict[Value, None] = attrs.field(factory=dict)
    staged: dict[Op, int] = attrs.field(factory=dict)
    seen: set[tuple[Value, int]] = attrs.field(factory=set)
    largest: int = 1


def slice_of(
    needs: Iterable[Need], definitions: Mapping[Value, Op], available: set[Op],
    staged: Container[Op] = (), sliced: Container[Value] = (),
) -> ChunkSlice | None:  # fmt: skip
    """The backward slice of chunks of `needs`; None where an op cannot be cut.

    Loads are repeated only if they are among the ops `available`. The slice ends at `staged` ops
    and at ops that run once and in order, each cut along one dimension. Chunks of `sliced` values
    are slices of the whole value."""
    slice, waiting = ChunkSlice(), list(needs)
    while waiting:
        operand, dim = waiting.pop()
        if dim is None:
            if type(operand) is Value:
                slice.whole[operand] = None
            continue
        op = definitions.get(operand) if type(operand) is Value else None
        slice.largest = max(slice.largest, _words(operand, op) // shape_of(operand.type)[dim])
        if type(operand) is not Value or (operand, dim) in slice.seen:
            continue
        if operand in sliced:
            slice.whole[operand] = None
            slice.seen.add((operand, dim))
            continue
        if op is not None and (op in staged or (op in available and runs_in_order(op, dim))):
            if slice.staged.setdefault(op, dim) != dim:
                return None
            slice.seen.add((operand, dim))
            continue
        needs_of_op = None if op is None else operand_chunks(op, dim)
        if op is None or needs_of_op is None or (op.effects & Effects.READ and op not in available):
            return None
        if op.effects & Effects.READ:
            slice.loads[op] = None
        slice.seen.add((operand, dim))
        waiting += needs_of_op
    return slice


def _words(operand: Operand, op: Op | None) -> int:
    """32-bit registers that the result of `op` takes, over all threads. Integers of 64 bits that
    are computed count as one: they are indices, most of them a common base and an offset."""
    from tileir.backend.demand import words

    computed = op is not None and not op.effects & Effects.READ
    return words(operand.type) // (2 if computed and element_of(operand.type) is I64 else 1)


def operand_chunks(op: Op, dim: int) -> list[Need] | None:
    """The operands of `op` and the dimensions to cut them along for a chunk of its results along
    `dim`; None where `op` cannot be cut along `dim`."""
    if op.effects & ~_REPEATABLE:
        return None
    if op.elementwise or op.mnemonic == "load":
        return tiled_operands(op, dim)
    if op.mnemonic == "gpu.private_load":
        result_type = cast(Tile, op.results[0].type)
        return tiled_operands(op, dim) if dim == dimension(result_type) else None
    if isinstance(op, MakeRange) and op.predicate is not None:
        return None  # a chunk of the result is a sum, and each of its ops would need the predicate
    rule = _OPERAND_DIMS.get(op.mnemonic)
    dims: tuple[int | None] | None = None
    if is_layout_only(op):
        dims = (dimension_of_operand(op, dim),)
    elif rule is not None:
        dims = rule(op, dim)
    if dims is None:
        return None
    along = dims[0] if op.predicate_follows_operand else dim
    return [*((v, dims[0]) for v in op.inputs), *_predicate(op, along)]


def dimension(kind: Tile) -> int:
    """The dimension along which spilled tiles of `kind` are cut: the longest."""
    return kind.shape.index(max(kind.shape))


def runs_in_order(op: Op, dim: int) -> bool:
    """Whether chunks of `op` along `dim` must be computed once and in order: those of an atomic
    access, and of a scan along `dim`, which carries a prefix from chunk to chunk."""
    from tileir.ops.reduce import Combiner

    if op.is_atomic:
        return True
    attributes = cast(Any, op)
    along = op.mnemonic == "scan" and attributes.axis == dim and op.predicate is None
    return along and isinstance(attributes.combiner, Combiner)


def operand_chunks_once(op: Op, dim: int) -> list[Need] | None:
    """The chunks of operands as in `operand_chunks`, also for ops whose chunks run once and in
    order."""
    return tiled_operands(op, dim) if runs_in_order(op, dim) else operand_chunks(op, dim)


def tiled_operands(op: Op, dim: int) -> list[Need]:
    """The operands of `op`: tiles cut along `dim`, the others whole."""
    return [(v, dim if isinstance(v.type, Tile) else None) for v in op.operands]


def _predicate(op: Op, dim: int | None) -> list[Need]:
    """The predicate of `op`, cut along `dim` if it is a tile."""
    if op.predicate is None:
        return []
    return [(op.predicate, dim if isinstance(op.predicate.type, Tile) else None)]


def _reduce(op: Op, dim: int) -> tuple[int | None]:
    return (dim + 1 if dim >= cast(Any, op).axis else dim,)


def _other_axis(op: Op, dim: int) -> tuple[int | None] | None:
    return None if dim == cast(Any, op).axis else (dim,)


def _join(op: Op, dim: int) -> tuple[int | None] | None:
    return (dim,) if dim < len(shape_of(op.inputs[0].type)) else None


def _split(op: Op, dim: int) -> tuple[int | None]:
    return (dim,)


_OPERAND_DIMS: dict[str, Any] = {
    "reduce": _reduce, "scan": _other_axis, "cat": _other_axis, "join": _join, "split": _split,
}  # fmt: skip


@attrs.frozen
class StagedBuffers:
    """Private buffers of a staged op, one per result, for its chunks of `size` elements along
    `dim`. The first chunk in a buffer is chunk number `first` of the tile."""

    buffers: tuple[Value, ...]
    dim: int
    size: int
    first: int

    def contains(self, start: Operand, size: int) -> bool:
        """Whether the buffers have an entry for the chunk of `size` elements at `start`."""
        chunk_index = int(start.value) // size if isinstance(start, Constant) else self.first
        return size == self.size and chunk_index >= self.first


@attrs.frozen
class ChunkBuffers:
    """Private buffers of a spilled tile: `whole` for its chunks of `size` elements, `rest` for the
    smaller last chunk."""

    size: int
    whole: Value | None
    rest: Value | None

    def at(self, emitter: ChunkEmitter) -> tuple[Operand, Operand]:
        """The buffer of the chunk that `emitter` emits, and the index of the tile in it."""
        if emitter.size != self.size:
            assert self.rest is not None
            return self.rest, index(0)
        assert self.whole is not None
        return self.whole, emitter.chunk_index()


@attrs.define
class ChunkEmitter:
    """Appends the ops of the chunk of `size` elements at `start` (an i32 value or literal) to
    `ops`."""

    definitions: Mapping[Value, Op]
    start: Operand
    size: int
    ops: list[Op]
    reloaded: frozenset[Op] = frozenset()
    """Loads that a later loop repeats: they must not evict their data from the caches."""
    chunk_buffers: Mapping[Operand, ChunkBuffers] = attrs.field(factory=dict)
    """Buffers of the chunks, by the buffer of the whole tile."""
    staged: Mapping[Op, StagedBuffers] = attrs.field(factory=dict)
    """Buffers of the ops whose chunks earlier loops staged."""
    sliced: Container[Value] = ()
    """Values whose chunks are `extract_slice` ops."""
    results: dict[tuple[Op, int], tuple[Value, ...]] = attrs.field(init=False, factory=dict)
    """Emitted chunks of the results of an op, by op and dimension."""
    _slices: dict[tuple[Value, int], Value] = attrs.field(init=False, factory=dict)

    def chunk(self, operand: Operand, dim: int | None) -> Operand:
        """The chunk of `operand` along `dim`; `operand` itself for None."""
        if dim is None:
            return operand
        if isinstance(operand, Constant):
            return Constant(chunk_type(operand.type, dim, self.size), operand.bits)
        if isinstance(operand, Undef):
            return Undef(chunk_type(operand.type, dim, self.size))
        if operand in self.sliced:
            return self._slice(operand, dim)
        op = self.definitions[operand]
        results = self.results.get((op, dim))
        if results is None:
            buffers = self.staged.get(op)
            results = (
                self._emit_chunk(op, dim)
                if buffers is None or buffers.dim != dim
                else self._load_staged(buffers)
            )
            self.results[op, dim] = results
        return results[op.results.index(operand)]

    def stage(self, op: Op, dim: int) -> None:
        """Emit the chunk of `op` and the stores to its staging buffers."""
        self.keep(op, dim, self._emit_chunk(op, dim))

    def keep(self, op: Op, dim: int, chunks: tuple[Value, ...]) -> None:
        """Record `chunks` as the results of `op`, and store them for later loops if `op` is
        staged."""
        from tileir.ops.private import PrivateStore

        self.results[op, dim] = chunks
        buffers = self.staged.get(op)
        if buffers is not None and buffers.contains(self.start, self.size):
            position = self._buffer_index(buffers)
            for buffer, value in zip(buffers.buffers, chunks, strict=True):
                self.add(PrivateStore(buffer, position, value, location=op.location))

    def _load_staged(self, buffers: StagedBuffers) -> tuple[Value, ...]:
        from tileir.ops.private import PrivateLoad

        position = self._buffer_index(buffers)
        return tuple([self.add(PrivateLoad(buffer, position)).result for buffer in buffers.buffers])

    def _buffer_index(self, buffers: StagedBuffers) -> Operand:
        """The index of this chunk in `buffers`."""
        chunk_index = self.chunk_index()
        if isinstance(chunk_index, Constant):
            return index(int(chunk_index.value) - buffers.first)
        if not buffers.first:
            return chunk_index
        return self.add(Sub(chunk_index, index(buffers.first))).result

    def chunk_index(self) -> Operand:
        """The index of this chunk among those of its size."""
        if isinstance(self.start, Constant):
            return index(int(self.start.value) // self.size)
        return self.add(UDiv(self.start, index(self.size))).result

    def add(self, op: Op) -> Op:
        """Append `op`."""
        self.ops.append(op)
        return op

    def evolve(self, op: Op, needs: list[Need], **changes: Any) -> Op:
        """`op` with its operands replaced by the chunks of `needs`, and its results retyped."""
        chunks = iter([self.chunk(*need) for need in needs])
        changes = op.map_fields(lambda _: next(chunks)) | changes
        if op.predicate is not None:
            changes["predicate"] = next(chunks)
        new = attrs.evolve(op, **changes, results=(), comments=())
        results = tuple(Value(n.type, v.name) for n, v in zip(new.results, op.results, strict=True))
        return attrs.evolve(new, results=results) if results else new

    def _slice(self, value: Value, dim: int) -> Value:
        chunk = self._slices.get((value, dim))
        if chunk is None:
            rank = len(shape_of(value.type))
            offsets = tuple([self.start if d == dim else index(0) for d in range(rank)])
            extract = ExtractSlice(value, chunk_type(value.type, dim, self.size), offsets)
            chunk = self._slices[value, dim] = self.add(extract).result
        return chunk

    def _emit_chunk(self, op: Op, dim: int) -> tuple[Value, ...]:
        from tileir.ops.private import PrivateLoad

        if isinstance(op, MakeRange):
            return (self._emit_range(op),)
        if isinstance(op, PrivateLoad):
            return (self.add(PrivateLoad(*self.chunk_buffers[op.buffer].at(self))).result,)
        needs = operand_chunks_once(op, dim)
        assert needs is not None
        changes = {
            f.name: chunk_type(getattr(op, f.name), dim, self.size)
            for f in op.schema
            if f.kind is FieldKind.RESULT_TYPE
        }
        if op in self.reloaded:
            changes |= _without_streaming_policy(cast(Load, op))
        return self.add(self.evolve(op, needs, **changes)).results

    def _emit_range(self, op: MakeRange) -> Value:
        kind = chunk_type(op.to, 0, self.size)
        if isinstance(self.start, Constant):
            moved = MakeRange(kind, start=op.start + int(self.start.value), location=op.location)
            return self.add(moved).result
        base = self.add(attrs.evolve(op, to=kind, results=(), comments=())).result
        element = cast(Element, element_of(kind))
        start = self.add(Splat(self._start_as(element), kind, location=op.location)).result
        return self.add(Add(base, start, location=op.location)).result

    def _start_as(self, element: Element) -> Operand:
        """The start as an integer of type `element`."""
        if element is I32:
            return self.start
        cls = cast(Any, lookup("sext" if element.bits > 32 else "trunc"))
        return self.add(cls(self.start, element)).result


def _without_streaming_policy(op: Load) -> dict[str, Any]:
    """Fields of `op` without an eviction-first or streaming policy."""
    if op.eviction is Eviction.FIRST:
        return {"eviction": Eviction.NORMAL}
    return {"cache": LoadCache.NONE} if op.cache in (LoadCache.CS, LoadCache.LU) else {}


def chunk_type(type: Any, dim: int, size: int) -> Any:
    """The tile type `type`, or each type of a tuple, with `size` elements along `dim`."""
    if isinstance(type, tuple):
        return tuple([chunk_type(t, dim, size) for t in cast(tuple[Type, ...], type)])
    shape = shape_of(type)
    return Tile(cast(Tile, type).element, (*shape[:dim], size, *shape[dim + 1 :]))


def index(number: int) -> Constant:
    """`number` as an i32."""
    return constant(I32, number)
