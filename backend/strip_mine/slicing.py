"""What a piece of a tile is computed from: the chain of ops behind it, cut along one dimension.

An op can be cut along a dimension of its result if each piece needs only a piece of each operand,
or the whole of one that does not extend along it. `ChunkSlice` collects what a piece needs;
`ChunkEmitter` makes the ops that compute it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, cast

import attrs

from tileir.effects import Effects
from tileir.field import FieldKind
from tileir.layout import differs_in_units
from tileir.op import Op, lookup
from tileir.ops.arith import Add, Sub, UDiv
from tileir.ops.memory import Eviction, Load, LoadCache
from tileir.ops.shape import ExtractSlice, MakeRange, Splat
from tileir.types import I32, Element, Tile, Type, element_of, shape_of
from tileir.values import Constant, Operand, Undef, Value, constant

Need = tuple[Operand, int | None]
"""An operand and the dimension it is cut along; None where it is needed whole."""

_REPEATABLE = Effects.READ | Effects.TRAP
"""Effects of ops that may run again in another loop."""


"""Accesses of which each lane's is one by itself."""


@attrs.define
class ChunkSlice:
    """What a piece of a value is computed from. `loads` are read once per piece; `whole` values
    are needed as they are; `staged` ops have pieces along a dimension that were computed before;
    `largest` is the number of registers a cut along one element takes."""

    loads: dict[Op, None] = attrs.field(factory=dict)
    whole: dict[Value, None] = attrs.field(factory=dict)
    staged: dict[Op, int] = attrs.field(factory=dict)
    seen: set[tuple[Value, int]] = attrs.field(factory=set)
    largest: int = 1


def chain_of(
    needs: Iterable[Need], definitions: Mapping[Value, Op], available: set[Op],
    staged: Container[Op] = (), sliced: Container[Value] = (),
) -> ChunkSlice | None:  # fmt: skip
    """What pieces of `needs` are computed from; None where something cannot be cut. Loads count
    as computable only if they are among the ops `available`; pieces of `staged` ops are there,
    along one dimension, as are those of ops that can only be computed once. Pieces of `sliced`
    values are slices of the whole."""
    from tileir.backend.strip_mine.register_limits import words

    chain, waiting = ChunkSlice(), list(needs)
    while waiting:
        operand, dim = waiting.pop()
        if dim is None:
            if type(operand) is Value:
                chain.whole[operand] = None
            continue
        chain.largest = max(chain.largest, words(operand.type) // shape_of(operand.type)[dim])
        if type(operand) is not Value or (operand, dim) in chain.seen:
            continue
        if operand in sliced:
            chain.whole[operand] = None
            chain.seen.add((operand, dim))
            continue
        op = definitions.get(operand)
        if op is not None and (op in staged or (op in available and is_once(op, dim))):
            if chain.staged.setdefault(op, dim) != dim:
                return None
            chain.seen.add((operand, dim))
            continue
        found = None if op is None else operand_chunks(op, dim)
        if op is None or found is None or (op.effects & Effects.READ and op not in available):
            return None
        if op.effects & Effects.READ:
            chain.loads[op] = None
        chain.seen.add((operand, dim))
        waiting += found
    return chain


def operand_chunks(op: Op, dim: int) -> list[Need] | None:
    """What each operand of `op` must give for a piece of its results along `dim`; None where a
    piece needs more than pieces."""
    if op.effects & ~_REPEATABLE:
        return None
    if op.elementwise or op.mnemonic == "load":
        return tiled_operands(op, dim)
    if op.mnemonic == "gpu.private_load":
        whole = cast(Tile, op.results[0].type)
        return tiled_operands(op, dim) if dim == dimension(whole) else None
    rule = _CUTS.get(op.mnemonic)
    found = rule(op, dim) if rule is not None else None
    return None if found is None else [*((v, found[0]) for v in op.inputs), *_predicate(op, found)]


def dimension(kind: Tile) -> int:
    """The dimension along which tiles of `kind` that go through memory are cut: the longest."""
    return kind.shape.index(max(kind.shape))


def is_once(op: Op, dim: int) -> bool:
    """Whether pieces of `op` along `dim` can be computed, but once and in order: an op that changes
    memory, and a scan along `dim`, of which each needs what those before have come to."""
    from tileir.ops.reduce import Combiner

    if op.is_atomic:
        return True
    said = cast(Any, op)
    along = op.mnemonic == "scan" and said.axis == dim and op.predicate is None
    return along and isinstance(said.combiner, Combiner)


def operand_chunks_once(op: Op, dim: int) -> list[Need] | None:
    """As `operand_chunks`, of ops that are computed once as well."""
    return tiled_operands(op, dim) if is_once(op, dim) else operand_chunks(op, dim)


def tiled_operands(op: Op, dim: int) -> list[Need]:
    """Every operand that is a tile along `dim`."""
    return [(v, dim if isinstance(v.type, Tile) else None) for v in op.operands]


def _predicate(op: Op, found: tuple[int | None]) -> list[Need]:
    if op.predicate is None:
        return []
    return [(op.predicate, found[0] if isinstance(op.predicate.type, Tile) else None)]


def _whole(op: Op, dim: int) -> tuple[int | None]:
    return (None,)


def _broadcast(op: Op, dim: int) -> tuple[int | None]:
    repeated = shape_of(op.inputs[0].type)[dim] != shape_of(op.results[0].type)[dim]
    return (None if repeated else dim,)


def _expand_dims(op: Op, dim: int) -> tuple[int | None]:
    axis = cast(Any, op).axis
    return (dim - 1 if dim > axis else dim,)


def _reshape(op: Op, dim: int) -> tuple[int | None] | None:
    before, after = shape_of(op.inputs[0].type), shape_of(op.results[0].type)
    if not differs_in_units(before, after):
        return None
    place = sum(1 for n in after[:dim] if n > 1)
    return ([d for d, n in enumerate(before) if n > 1][place],)


def _trans(op: Op, dim: int) -> tuple[int | None]:
    return (cast(Any, op).order[dim],)


def _reduce(op: Op, dim: int) -> tuple[int | None]:
    return (dim + 1 if dim >= cast(Any, op).axis else dim,)


def _beside_axis(op: Op, dim: int) -> tuple[int | None] | None:
    return None if dim == cast(Any, op).axis else (dim,)


def _join(op: Op, dim: int) -> tuple[int | None] | None:
    return (dim,) if dim < len(shape_of(op.inputs[0].type)) else None


def _split(op: Op, dim: int) -> tuple[int | None]:
    return (dim,)


_CUTS: dict[str, Any] = {
    "make_range": _whole, "splat": _whole, "broadcast": _broadcast, "expand_dims": _expand_dims,
    "reshape": _reshape, "trans": _trans, "reduce": _reduce, "scan": _beside_axis,
    "cat": _beside_axis, "join": _join, "split": _split,
}  # fmt: skip


@attrs.frozen
class Buffers:
    """Private buffers, one per result of an op, for its pieces of `size` elements along dimension
    `dim` from number `first` on."""

    buffers: tuple[Value, ...]
    dim: int
    size: int
    first: int

    def holds(self, start: Operand, size: int) -> bool:
        """Whether there is room for the piece of `size` elements at `start`."""
        known = int(start.value) // size if isinstance(start, Constant) else self.first
        return size == self.size and known >= self.first


@attrs.frozen
class ChunkBuffers:
    """Private buffers for the pieces of a tile, each of `size` elements, and for a smaller one."""

    size: int
    whole: Value | None
    rest: Value | None

    def at(self, cutter: ChunkEmitter) -> tuple[Operand, Operand]:
        """The buffer of the piece that `cutter` makes, and which tile of it."""
        if cutter.size != self.size:
            assert self.rest is not None
            return self.rest, index(0)
        assert self.whole is not None
        return self.whole, cutter.number()


@attrs.define
class ChunkEmitter:
    """Makes pieces of `size` elements from `start`, an i32 or a literal, into `ops`."""

    definitions: Mapping[Value, Op]
    start: Operand
    size: int
    ops: list[Op]
    again: frozenset[Op] = frozenset()
    """Loads that another loop repeats: what they read shall stay in the caches until then."""
    pieces: Mapping[Operand, ChunkBuffers] = attrs.field(factory=dict)
    """By the buffers of whole tiles: those of their pieces."""
    staged: Mapping[Op, Buffers] = attrs.field(factory=dict)
    """Ops of which earlier loops wrote the pieces into private buffers."""
    sliced: Container[Value] = ()
    """Values whose pieces are slices."""
    made: dict[tuple[Op, int], tuple[Value, ...]] = attrs.field(init=False, factory=dict)
    """Results of ops cut along a dimension."""
    _slices: dict[tuple[Value, int], Value] = attrs.field(init=False, factory=dict)

    def piece(self, operand: Operand, dim: int | None) -> Operand:
        """The piece of `operand` along `dim`; itself for None."""
        if dim is None:
            return operand
        if isinstance(operand, Constant):
            return Constant(resized(operand.type, dim, self.size), operand.bits)
        if isinstance(operand, Undef):
            return Undef(resized(operand.type, dim, self.size))
        if operand in self.sliced:
            return self._slice(operand, dim)
        op = self.definitions[operand]
        made = self.made.get((op, dim))
        if made is None:
            kept = self.staged.get(op)
            made = self._cut(op, dim) if kept is None or kept.dim != dim else self._read(kept)
            self.made[op, dim] = made
        return made[op.results.index(operand)]

    def stage(self, op: Op, dim: int) -> None:
        """Compute the piece of `op`, and write it where loops that come later read it."""
        self.keep(op, dim, self._cut(op, dim))

    def keep(self, op: Op, dim: int, made: tuple[Value, ...]) -> None:
        """Let `made` be the piece of `op`, here and in loops that come later."""
        from tileir.ops.private import PrivateStore

        self.made[op, dim] = made
        kept = self.staged.get(op)
        if kept is not None and kept.holds(self.start, self.size):
            slot = self._slot(kept)
            for buffer, value in zip(kept.buffers, made, strict=True):
                self.add(PrivateStore(buffer, slot, value, location=op.location))

    def _read(self, kept: Buffers) -> tuple[Value, ...]:
        from tileir.ops.private import PrivateLoad

        slot = self._slot(kept)
        return tuple([self.add(PrivateLoad(buffer, slot)).result for buffer in kept.buffers])

    def _slot(self, kept: Buffers) -> Operand:
        """The number of the piece in buffers that begin with a later one."""
        number = self.number()
        if isinstance(number, Constant):
            return index(int(number.value) - kept.first)
        return self.add(Sub(number, index(kept.first))).result if kept.first else number

    def number(self) -> Operand:
        """Which of the pieces of its size this one is."""
        if isinstance(self.start, Constant):
            return index(int(self.start.value) // self.size)
        return self.add(UDiv(self.start, index(self.size))).result

    def add(self, op: Op) -> Op:
        """Append `op`."""
        self.ops.append(op)
        return op

    def evolve(self, op: Op, needs: list[Need], **changes: Any) -> Op:
        """`op` with the pieces that `needs` says in place of its operands."""
        pieces = iter([self.piece(*need) for need in needs])
        for field in op.schema:
            old = getattr(op, field.name)
            if field.kind in (FieldKind.OPERAND, FieldKind.OPTIONAL):
                changes[field.name] = None if old is None else next(pieces)
            elif field.kind in (FieldKind.VARIADIC, FieldKind.PAIRS):
                changes[field.name] = tuple([next(pieces) for _ in old])
        if op.predicate is not None:
            changes["predicate"] = next(pieces)
        new = attrs.evolve(op, **changes, results=(), comments=())
        named = tuple(Value(n.type, v.name) for n, v in zip(new.results, op.results, strict=True))
        return attrs.evolve(new, results=named) if named else new

    def _slice(self, value: Value, dim: int) -> Value:
        found = self._slices.get((value, dim))
        if found is None:
            rank = len(shape_of(value.type))
            offsets = tuple([self.start if d == dim else index(0) for d in range(rank)])
            made = ExtractSlice(value, resized(value.type, dim, self.size), offsets)
            found = self._slices[value, dim] = self.add(made).result
        return found

    def _cut(self, op: Op, dim: int) -> tuple[Value, ...]:
        from tileir.ops.private import PrivateLoad

        if isinstance(op, MakeRange):
            return (self._range(op),)
        if isinstance(op, PrivateLoad):
            return (self.add(PrivateLoad(*self.pieces[op.buffer].at(self))).result,)
        needs = operand_chunks_once(op, dim)
        assert needs is not None
        changes = {
            f.name: resized(getattr(op, f.name), dim, self.size)
            for f in op.schema
            if f.kind is FieldKind.RESULT_TYPE
        }
        if op in self.again:
            changes |= _staying(cast(Load, op))
        return self.add(self.evolve(op, needs, **changes)).results

    def _range(self, op: MakeRange) -> Value:
        kind = resized(op.to, 0, self.size)
        if isinstance(self.start, Constant):
            moved = MakeRange(kind, start=op.start + int(self.start.value), location=op.location)
            return self.add(moved).result
        base = self.add(attrs.evolve(op, to=kind, results=(), comments=())).result
        element = cast(Element, element_of(kind))
        start = self.add(Splat(self._as(element), kind, location=op.location)).result
        return self.add(Add(base, start, location=op.location)).result

    def _as(self, element: Element) -> Operand:
        """The start as an integer of type `element`."""
        if element is I32:
            return self.start
        cls = cast(Any, lookup("sext" if element.bits > 32 else "trunc"))
        return self.add(cls(self.start, element)).result


def _staying(op: Load) -> dict[str, Any]:
    """Without the policy that what is read is not needed again."""
    if op.eviction is Eviction.FIRST:
        return {"eviction": Eviction.NORMAL}
    return {"cache": LoadCache.NONE} if op.cache in (LoadCache.CS, LoadCache.LU) else {}


def resized(type: Any, dim: int, size: int) -> Any:
    """`type`, or each of several, with `size` elements along `dim`."""
    if isinstance(type, tuple):
        return tuple([resized(t, dim, size) for t in cast(tuple[Type, ...], type)])
    shape = shape_of(type)
    return Tile(cast(Tile, type).element, (*shape[:dim], size, *shape[dim + 1 :]))


def index(number: int) -> Constant:
    """`number` as an i32."""
    return constant(I32, number)
