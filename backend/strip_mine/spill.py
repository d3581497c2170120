"""Large values that cross blocks, or ops between them that nothing may pass: through memory.

A value that is computed in one block and read in another, or that a loop carries, is written into a
private buffer where it is computed, and read from there where it is needed. What stands for it is
then cut in each block by itself, along one dimension and in pieces of one size everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import attrs

from tileir.analysis.partial import collects
from tileir.backend.strip_mine.plan import is_reorderable, straight_line_regions
from tileir.backend.strip_mine.register_limits import words
from tileir.backend.strip_mine.slicing import ChunkBuffers, dimension, resized
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.control import Branch
from tileir.ops.private import PrivateAlloc, PrivateLoad, PrivateStore
from tileir.passes.cfg_edit import fresh_label, map_edges, without_arguments
from tileir.types import I32, Buffer, Tile
from tileir.values import Operand, Value, constant

Place = tuple[str, int]
"""A block, and which of its stretches."""

_FIRST = constant(I32, 0)


def values_to_spill(function: Function, definitions: Mapping[Value, Op], limit: int) -> list[Value]:
    """Values of more than `limit` words that are read elsewhere than they are computed, and cannot
    be computed again there; parameters of blocks among them."""
    homes = dict[Value, Place]()
    for block in function.blocks.values():
        homes.update(dict.fromkeys(block.parameters, (block.label, 0)))
        for number, part in enumerate(straight_line_regions(block.ops[:-1], limit)):
            homes.update({v: (block.label, number) for op in part for v in op.results})
    carried = {v for block in function.blocks.values() for v in block.parameters}
    found = dict.fromkeys(v for v in homes if v in carried and _is_large(v, limit))
    for value, place in _reads(function, limit):
        elsewhere = _is_large(value, limit) and homes.get(value, place) != place
        if elsewhere and value not in carried and not _is_cheap(value, definitions):
            found[value] = None
    return list(found)


def _is_large(value: Value, limit: int) -> bool:
    kind = value.type
    return isinstance(kind, Tile) and words(kind) > limit


def _reads(function: Function, limit: int) -> Iterator[tuple[Value, Place]]:
    """Every value that is read, and where: arguments of edges behind all else."""
    for block in function.blocks.values():
        last = 0
        for number, part in enumerate(straight_line_regions(block.ops[:-1], limit)):
            last = number + (not is_reorderable(part[-1], limit))
            for op in part:
                yield from ((v, (block.label, number)) for v in op.operands if type(v) is Value)
        for edge in block.successors:
            yield from ((v, (block.label, last)) for v in edge.arguments if type(v) is Value)


def _is_cheap(value: Value, definitions: Mapping[Value, Op]) -> bool:
    """Whether a tile is made of scalars and literals alone, by ops that may run anywhere."""
    op = definitions.get(value)
    if op is None or op.effects or collects(op):
        return False
    tiles = [v for v in op.operands if type(v) is Value and isinstance(v.type, Tile)]
    return all(_is_cheap(v, definitions) for v in tiles)


@attrs.frozen
class SpilledFunction:
    """A function in which `values` go through private buffers, by value."""

    function: Function
    buffers: Mapping[Value, Value]


def spill_values(function: Function, values: Sequence[Value], limit: int) -> SpilledFunction:
    """`function` with a private buffer of one tile for each of `values`."""
    allots = [PrivateAlloc(Buffer(cast(Tile, v.type), 1, "private")) for v in values]
    buffers = {v: op.result for v, op in zip(values, allots, strict=True)}
    return SpilledFunction(_Rewriting(function, buffers, limit).run(allots), buffers)


@attrs.define
class _Rewriting:
    function: Function
    buffers: Mapping[Value, Value]
    limit: int
    split: list[Block] = attrs.field(init=False, factory=list)

    def run(self, allots: Sequence[Op]) -> Function:
        keeping = {
            block.label: tuple([v not in self.buffers for v in block.parameters])
            for block in self.function.blocks.values()
        }
        blocks = [self._block(block, keeping) for block in self.function.blocks.values()]
        first = blocks[0]
        blocks[0] = attrs.evolve(first, ops=(*allots, *first.ops))
        return self.function.with_blocks({b.label: b for b in (*blocks, *self.split)})

    def _block(self, block: Block, keeping: Mapping[str, tuple[bool, ...]]) -> Block:
        *body, terminator = block.ops
        ops: list[Op] = []
        edges = [e for e in block.successors if self._stores(e)]
        alone = len({e.label for e in block.successors}) == 1
        for part in straight_line_regions(body, self.limit):
            ops += self._part(part)
        if edges and alone:
            ops += self._written(edges[0])
        elif edges:
            terminator = map_edges(terminator, self._around)
        terminator = self._read(without_arguments(terminator, keeping), ops)
        kept = tuple([v for v in block.parameters if v not in self.buffers])
        return attrs.evolve(block, parameters=kept, ops=(*ops, terminator))

    def _part(self, part: Sequence[Op]) -> list[Op]:
        """A stretch that reads what comes from elsewhere first, and writes what goes elsewhere."""
        here = {v for op in part for v in op.results}
        env: dict[Value, Operand] = {}
        ops: list[Op] = []
        for op in part:
            for value in op.operands:
                if type(value) is Value and value in self.buffers and value not in (*here, *env):
                    ops.append(load := PrivateLoad(self.buffers[value], _FIRST))
                    env[value] = load.result
        for op in part:
            ops.append(op.remap(env))
            ops += [PrivateStore(self.buffers[v], _FIRST, v) for v in op.results
                    if v in self.buffers]  # fmt: skip
        return ops

    def _stores(self, edge: Successor) -> bool:
        return any(v in self.buffers for v in self.function.blocks[edge.label].parameters)

    def _written(self, edge: Successor) -> list[Op]:
        """What `edge` hands on in memory."""
        parameters = self.function.blocks[edge.label].parameters
        moved = [
            PrivateStore(self.buffers[p], _FIRST, a)
            for p, a in zip(parameters, edge.arguments, strict=True)
            if p in self.buffers
        ]
        return self._part(moved)

    def _around(self, edge: Successor) -> Successor:
        """`edge` by way of a block of its own, where it hands on anything in memory."""
        if not self._stores(edge):
            return edge
        taken = {*self.function.blocks, *(b.label for b in self.split)}
        label = fresh_label(f"{edge.label}.from", taken)
        parameters = self.function.blocks[edge.label].parameters
        kept = [a for a, p in zip(edge.arguments, parameters, strict=True) if p not in self.buffers]
        ops = (*self._written(edge), Branch(Successor(edge.label, tuple(kept))))
        self.split.append(Block(label, (), ops))
        return Successor(label, ())

    def _read(self, terminator: Op, ops: list[Op]) -> Op:
        """The terminator, which reads what goes through memory from there, if it still does."""
        handed = [a for edge in terminator.successors for a in edge.arguments]
        for value in dict.fromkeys(v for v in handed if type(v) is Value and v in self.buffers):
            ops.append(load := PrivateLoad(self.buffers[value], _FIRST))
            terminator = terminator.remap({value: load.result})
        return terminator


@attrs.frozen
class SpillChunks:
    """How what goes through memory is cut: elements of a piece by extent, and the buffers for
    pieces by those for whole tiles. Nothing goes through memory where both are empty."""

    sizes: Mapping[int, int] = attrs.field(factory=dict)
    pieces: Mapping[Operand, ChunkBuffers] = attrs.field(factory=dict)


def in_pieces(
    through: SpilledFunction, limit: int, size: Callable[[int, int], int]
) -> tuple[Function, SpillChunks]:
    """The function of `through` with buffers for pieces behind those for whole tiles, `size` being
    that of a piece by an extent and the most words that one element along it takes."""
    sizes = _sizes(through.function, limit, size)
    pieces, allots = dict[Operand, ChunkBuffers](), list[Op]()
    for value, buffer in through.buffers.items():
        found = _pieces(cast(Tile, value.type), sizes)
        pieces[buffer] = found[0]
        allots += found[1]
    first, *others = through.function.blocks.values()
    first = attrs.evolve(first, ops=(*allots, *first.ops))
    return through.function.with_blocks({b.label: b for b in (first, *others)}), SpillChunks(
        sizes, pieces
    )


def _sizes(function: Function, limit: int, size: Callable[[int, int], int]) -> dict[int, int]:
    units: dict[int, int] = {}
    for kind in {v.type for op in function.ops for v in (*op.results, *op.inputs)}:
        if isinstance(kind, Tile):
            for extent in kind.shape:
                units[extent] = max(units.get(extent, 1), words(kind) // extent)
    return {extent: size(extent, unit) for extent, unit in units.items()}


def _pieces(kind: Tile, sizes: Mapping[int, int]) -> tuple[ChunkBuffers, list[Op]]:
    """Buffers for the pieces of a tile, and the ops that allot them."""
    dim = dimension(kind)
    extent, size = kind.shape[dim], sizes[kind.shape[dim]]
    allots: list[Op] = []
    found: list[Value | None] = []
    for length, count in ((size, extent // size), (extent % size, 1)):
        made = None
        if length and count:
            tile = cast(Tile, resized(kind, dim, length))
            allots.append(PrivateAlloc(Buffer(tile, count, "private")))
            made = allots[-1].results[0]
        found.append(made)
    return ChunkBuffers(size, *found), allots


def without_whole(function: Function, moving: SpillChunks) -> Function:
    """`function` without the buffers for whole tiles, which nothing accesses any more."""
    first, *others = function.blocks.values()
    ops = tuple([op for op in first.ops if not any(v in moving.pieces for v in op.results)])
    blocks = (attrs.evolve(first, ops=ops), *others) if moving.pieces else (first, *others)
    return function.with_blocks({b.label: b for b in blocks})
