"""Spilling of large values whose live range crosses blocks or ops that nothing may be moved past.

A value that is defined in one region and used in another, or that a loop carries, is stored to a
private buffer where it is defined and loaded where it is used. Its stores and loads are then
strip-mined in each block independently, along one dimension and in chunks of one size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import attrs

from tileir.analysis.partial import collects
from tileir.backend.demand import words
from tileir.backend.strip_mine.plan import is_reorderable, straight_line_regions
from tileir.backend.strip_mine.slicing import ChunkBuffers, chunk_type, dimension
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.control import Branch
from tileir.ops.private import PrivateAlloc, PrivateLoad, PrivateStore
from tileir.passes.cfg_edit import fresh_label, map_edges, without_arguments
from tileir.types import I32, Buffer, Tile
from tileir.values import Operand, Value, constant

Region = tuple[str, int]
"""The label of a block, and the number of one of its straight-line regions."""

_FIRST = constant(I32, 0)


def values_to_spill(function: Function, definitions: Mapping[Value, Op], limit: int) -> list[Value]:
    """Values of more than `limit` words that are used outside the region that defines them and
    cannot be recomputed there, and block parameters of that size."""
    regions = dict[Value, Region]()
    for block in function.blocks.values():
        regions.update(dict.fromkeys(block.parameters, (block.label, 0)))
        for number, part in enumerate(straight_line_regions(block.ops[:-1], limit)):
            regions.update({v: (block.label, number) for op in part for v in op.results})
    carried = {v for block in function.blocks.values() for v in block.parameters}
    spilled = dict.fromkeys(v for v in regions if v in carried and _is_large(v, limit))
    for value, region in _reads(function, limit):
        elsewhere = _is_large(value, limit) and regions.get(value, region) != region
        if elsewhere and value not in carried and not _is_cheap(value, definitions):
            spilled[value] = None
    return list(spilled)


def _is_large(value: Value, limit: int) -> bool:
    kind = value.type
    return isinstance(kind, Tile) and words(kind) > limit


def _reads(function: Function, limit: int) -> Iterator[tuple[Value, Region]]:
    """Every use of a value, with its region: arguments of edges are used in the last one."""
    for block in function.blocks.values():
        last = 0
        for number, part in enumerate(straight_line_regions(block.ops[:-1], limit)):
            last = number + (not is_reorderable(part[-1], limit))
            for op in part:
                yield from ((v, (block.label, number)) for v in op.operands if type(v) is Value)
        for edge in block.successors:
            yield from ((v, (block.label, last)) for v in edge.arguments if type(v) is Value)


def _is_cheap(value: Value, definitions: Mapping[Value, Op]) -> bool:
    """Whether ops without effects compute a tile from scalars and literals, so that it can be
    recomputed anywhere."""
    op = definitions.get(value)
    if op is None or op.effects or collects(op):
        return False
    tiles = [v for v in op.operands if type(v) is Value and isinstance(v.type, Tile)]
    return all(_is_cheap(v, definitions) for v in tiles)


@attrs.frozen
class SpilledFunction:
    """A function with spilled values, and the private buffer of each."""

    function: Function
    buffers: Mapping[Value, Value]


def spill_values(function: Function, values: Sequence[Value], limit: int) -> SpilledFunction:
    """`function` with a private buffer of one tile for each of `values`."""
    allots = [PrivateAlloc(Buffer(cast(Tile, v.type), 1, "private")) for v in values]
    buffers = {v: op.result for v, op in zip(values, allots, strict=True)}
    return SpilledFunction(_SpillRewriter(function, buffers, limit).run(allots), buffers)


@attrs.define
class _SpillRewriter:
    function: Function
    buffers: Mapping[Value, Value]
    limit: int
    new_blocks: list[Block] = attrs.field(init=False, factory=list)

    def run(self, allots: Sequence[Op]) -> Function:
        kept_parameters = {
            block.label: tuple([v not in self.buffers for v in block.parameters])
            for block in self.function.blocks.values()
        }
        blocks = [self._block(block, kept_parameters) for block in self.function.blocks.values()]
        first = blocks[0]
        blocks[0] = attrs.evolve(first, ops=(*allots, *first.ops))
        return self.function.with_blocks({b.label: b for b in (*blocks, *self.new_blocks)})

    def _block(self, block: Block, kept_parameters: Mapping[str, tuple[bool, ...]]) -> Block:
        *body, terminator = block.ops
        ops: list[Op] = []
        edges = [e for e in block.successors if self._stores(e)]
        is_only_edge = len({e.label for e in block.successors}) == 1
        for part in straight_line_regions(body, self.limit):
            ops += self._spill_region(part)
        if edges and is_only_edge:
            ops += self._edge_stores(edges[0])
        elif edges:
            terminator = map_edges(terminator, self._split_edge)
        terminator = self._load_spilled(without_arguments(terminator, kept_parameters), ops)
        parameters = tuple([v for v in block.parameters if v not in self.buffers])
        return attrs.evolve(block, parameters=parameters, ops=(*ops, terminator))

    def _spill_region(self, part: Sequence[Op]) -> list[Op]:
        """A region with loads of the spilled values it uses and stores of those it defines."""
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

    def _edge_stores(self, edge: Successor) -> list[Op]:
        """Stores of the spilled arguments of `edge`."""
        parameters = self.function.blocks[edge.label].parameters
        moved = [
            PrivateStore(self.buffers[p], _FIRST, a)
            for p, a in zip(parameters, edge.arguments, strict=True)
            if p in self.buffers
        ]
        return self._spill_region(moved)

    def _split_edge(self, edge: Successor) -> Successor:
        """`edge` split by a block with its stores, if it has spilled arguments."""
        if not self._stores(edge):
            return edge
        labels = {*self.function.blocks, *(b.label for b in self.new_blocks)}
        label = fresh_label(f"{edge.label}.from", labels)
        parameters = self.function.blocks[edge.label].parameters
        arguments = [
            a for a, p in zip(edge.arguments, parameters, strict=True) if p not in self.buffers
        ]
        ops = (*self._edge_stores(edge), Branch(Successor(edge.label, tuple(arguments))))
        self.new_blocks.append(Block(label, (), ops))
        return Successor(label, ())

    def _load_spilled(self, terminator: Op, ops: list[Op]) -> Op:
        """`terminator` with loads, appended to `ops`, of the spilled values it passes on."""
        handed = [a for edge in terminator.successors for a in edge.arguments]
        for value in dict.fromkeys(v for v in handed if type(v) is Value and v in self.buffers):
            ops.append(load := PrivateLoad(self.buffers[value], _FIRST))
            terminator = terminator.remap({value: load.result})
        return terminator


@attrs.frozen
class SpillChunks:
    """The chunks of spilled values: elements of a chunk by extent, and buffers of chunks by the
    buffer of the whole tile. Both are empty if nothing is spilled."""

    sizes: Mapping[int, int] = attrs.field(factory=dict)
    chunk_buffers: Mapping[Operand, ChunkBuffers] = attrs.field(factory=dict)


def add_chunk_buffers(
    through: SpilledFunction, limit: int, size: Callable[[int, int], int]
) -> tuple[Function, SpillChunks]:
    """The function with additional buffers for the chunks of spilled values. `size` returns the
    elements of a chunk for an extent and the most words of one element along it."""
    sizes = _sizes(through.function, limit, size)
    chunk_buffers, allots = dict[Operand, ChunkBuffers](), list[Op]()
    for value, buffer in through.buffers.items():
        result = _allocate_chunks(cast(Tile, value.type), sizes)
        chunk_buffers[buffer] = result[0]
        allots += result[1]
    first, *later_blocks = through.function.blocks.values()
    first = attrs.evolve(first, ops=(*allots, *first.ops))
    return through.function.with_blocks({b.label: b for b in (first, *later_blocks)}), SpillChunks(
        sizes, chunk_buffers
    )


def _sizes(function: Function, limit: int, size: Callable[[int, int], int]) -> dict[int, int]:
    units: dict[int, int] = {}
    for kind in {v.type for op in function.ops for v in (*op.results, *op.inputs)}:
        if isinstance(kind, Tile):
            for extent in kind.shape:
                units[extent] = max(units.get(extent, 1), words(kind) // extent)
    return {extent: size(extent, unit) for extent, unit in units.items()}


def _allocate_chunks(kind: Tile, sizes: Mapping[int, int]) -> tuple[ChunkBuffers, list[Op]]:
    """Buffers for the chunks of a tile, and the ops that allocate them."""
    dim = dimension(kind)
    extent, size = kind.shape[dim], sizes[kind.shape[dim]]
    allots: list[Op] = []
    buffers: list[Value | None] = []
    for length, count in ((size, extent // size), (extent % size, 1)):
        buffer = None
        if length and count:
            tile = cast(Tile, chunk_type(kind, dim, length))
            allots.append(PrivateAlloc(Buffer(tile, count, "private")))
            buffer = allots[-1].results[0]
        buffers.append(buffer)
    return ChunkBuffers(size, *buffers), allots


def remove_whole_buffers(function: Function, spilled: SpillChunks) -> Function:
    """`function` without the buffers of whole tiles, which have no accesses left."""
    first, *later_blocks = function.blocks.values()
    ops = tuple([op for op in first.ops if not any(v in spilled.chunk_buffers for v in op.results)])
    blocks = (
        (attrs.evolve(first, ops=ops), *later_blocks)
        if spilled.chunk_buffers
        else (first, *later_blocks)
    )
    return function.with_blocks({b.label: b for b in blocks})
