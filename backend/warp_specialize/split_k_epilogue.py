"""Slice the epilogue by rows of the accumulators: every rank of a cluster runs one slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import attrs

from tileir.analysis.loops import Loop
from tileir.analysis.uses import definitions, uses
from tileir.backend.strip_mine.slicing import (
    ChunkEmitter,
    chunk_type,
    operand_chunks,
    tiled_operands,
)
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.descriptor import DescriptorLoad, DescriptorStore, MakeDescriptor
from tileir.ops.shape import Reshape
from tileir.passes.dce import has_effects
from tileir.types import Descriptor, Tile, shape_of
from tileir.values import Constant, Operand, Value

_SINKS = ("store", "descriptor_store", "atomic_rmw")


class UnsliceableError(Exception):
    """The epilogue cannot be sliced by rows; the message states the reason."""


@attrs.frozen(eq=False)
class RowSlices:
    """The ops of block `label` with writes of slices only, and by op that makes a descriptor the
    ops that make those of slices, which follow it."""

    label: str
    ops: tuple[Op, ...]
    descriptors: Mapping[Op, tuple[Op, ...]]


def slice_rows(
    function: Function, loop: Loop, totals: Mapping[Value, Value], start: Value, rows: int
) -> RowSlices:
    """The writes of `function`, which all depend on accumulators of `loop`, for `rows` rows from
    `start` on. `totals` maps an accumulator to the slice of its sum over all ranks. Raises
    UnsliceableError."""
    label, sinks = _writes(function)
    derived = _derived_values(function, loop, totals)
    for op in sinks:
        if op.mnemonic not in _SINKS or derived.isdisjoint(op.inputs):
            raise UnsliceableError(f"{op.mnemonic} does not write rows of an accumulator")
        if any(uses(function).get(v) for v in op.results):
            raise UnsliceableError(f"the result of {op.mnemonic} is used")
    _check_others(function, loop, derived, sinks)
    cutter = _RowSlicer.of(function, derived, totals, start, rows)
    for op in function.blocks[label].ops:
        if op in sinks:
            cutter.write(op)
        else:
            cutter.ops.append(op)
    descriptors = {maker: tuple(results) for maker, results in cutter.descriptors.items()}
    return RowSlices(label, tuple(cutter.ops), descriptors)


def _check_others(function: Function, loop: Loop, derived: set[Value], sinks: Sequence[Op]) -> None:
    """Check that the ops which are not sliced neither depend on accumulators, which differ between
    ranks, nor have an effect outside that would occur once per rank. Raises UnsliceableError."""
    if any(v in derived for v in _edge_arguments(function)):
        raise UnsliceableError("an accumulator is an argument of a block")
    for label, block in function.blocks.items():
        for op in block.ops:
            if op.effects & Effects.OUTSIDE and not (op.results or op.effects & Effects.TRAP):
                raise UnsliceableError(f"{op.mnemonic} would run once per block")
            if label in loop.blocks or op in sinks or not has_effects(op):
                continue
            if not derived.isdisjoint(op.operands):
                raise UnsliceableError(f"{op.mnemonic} reads a whole accumulator")


def _writes(function: Function) -> tuple[str, list[Op]]:
    """The ops that write, and the block that has them all."""
    writes = {
        label: ops
        for label, block in function.blocks.items()
        if (ops := [op for op in block.ops if op.effects & Effects.WRITE])
    }
    if len(writes) != 1:
        raise UnsliceableError("its writes are not all in one block")
    ((label, ops),) = writes.items()
    return label, ops


def _derived_values(function: Function, loop: Loop, totals: Mapping[Value, Value]) -> set[Value]:
    """The accumulators, and the values outside of `loop` that depend on them."""
    values = set[Value](totals)
    size = 0
    while len(values) > size:
        size = len(values)
        for label, block in function.blocks.items():
            for op in block.ops if label not in loop.blocks else ():
                if not values.isdisjoint(op.operands):
                    values.update(op.results)
    return values


def _edge_arguments(function: Function) -> Iterator[Value]:
    """The arguments of edges, except parameters that are passed to themselves."""
    for block in function.blocks.values():
        for edge in block.successors:
            there = function.blocks[edge.label].parameters
            for value, parameter in zip(edge.arguments, there, strict=True):
                if isinstance(value, Value) and value is not parameter:
                    yield value


@attrs.define
class _RowSlicer(ChunkEmitter):
    """Slices the ops that depend on accumulators, descriptor accesses included."""

    derived: set[Value] = attrs.field(factory=set, kw_only=True)
    descriptors: dict[Op, list[Op]] = attrs.field(factory=dict, kw_only=True)
    height: int = attrs.field(default=0, kw_only=True)
    """Rows of the accumulators."""
    writes: int = attrs.field(default=0, kw_only=True)
    """The number of writes that have been sliced."""

    @staticmethod
    def of(
        function: Function, derived: set[Value], totals: Mapping[Value, Value], start: Value,
        rows: int,
    ) -> _RowSlicer:  # fmt: skip
        """An emitter that starts with the slices of the accumulators along dimension 0."""
        placeholders = {v: Reshape(v, v.type, results=(v,)) for v in totals}
        height = max(shape_of(v.type)[0] for v in totals)
        producers = {**definitions(function), **placeholders}
        cutter = _RowSlicer(producers, start, rows, [], derived=derived, height=height)
        cutter.results.update({(placeholders[v], 0): (total,) for v, total in totals.items()})
        return cutter

    def write(self, op: Op) -> None:
        """Emit the slice of a write along the dimension that the rows of the accumulators
        became."""
        why = f"no dimension of {op.mnemonic} has the rows of the accumulators"
        for dim, extent in enumerate(shape_of(op.inputs[1].type)):
            if extent != self.height:
                continue
            before = (
                len(self.ops),
                dict(self.results),
                {k: [*v] for k, v in self.descriptors.items()},
            )
            try:
                self._write(op, dim)
            except UnsliceableError as error:
                del self.ops[before[0] :]
                _, self.results, self.descriptors = before
                why = str(error)
            else:
                self.writes += 1
                return
        raise UnsliceableError(why)

    def _write(self, op: Op, dim: int) -> None:
        if isinstance(op, DescriptorStore):
            self.add(self._of_block(op, dim, value=self.chunk(op.value, dim)))
        else:
            self.add(self.evolve(op, tiled_operands(op, dim)))

    def chunk(self, operand: Operand, dim: int | None) -> Operand:
        if dim is None and operand in self.derived:
            raise UnsliceableError("a value depends on all rows of an accumulator")
        if isinstance(operand, Value) and operand not in self.definitions and dim is not None:
            raise UnsliceableError(f"%{operand.name or '?'} is a block parameter")
        return ChunkEmitter.chunk(self, operand, dim)

    def _emit_chunk(self, op: Op, dim: int) -> tuple[Value, ...]:
        if isinstance(op, Reshape) and op.results[0] is op.value:
            raise UnsliceableError("the epilogue would be sliced by columns of an accumulator")
        if op.effects & Effects.READ and self.writes:
            raise UnsliceableError(f"{op.mnemonic} reads memory after a write")
        if isinstance(op, DescriptorLoad):
            return self.add(self._of_block(op, dim)).results
        if op.mnemonic != "make_range" and operand_chunks(op, dim) is None:
            raise UnsliceableError(f"{op.mnemonic} needs all rows")
        return ChunkEmitter._emit_chunk(self, op, dim)

    def _of_block(self, op: Any, dim: int, **changes: Any) -> Op:
        """The access `op` for a slice of its block."""
        if op.predicate is not None:
            raise UnsliceableError(f"{op.mnemonic} has a predicate")
        first = op.indices[dim]
        zero = isinstance(first, Constant) and not first.bits
        moved = self.start if zero else self.add(Add(first, self.start)).results[0]
        indices = (*op.indices[:dim], moved, *op.indices[dim + 1 :])
        narrow = self._slice_descriptor(op.descriptor, dim)
        for field in op.schema:
            if field.name == "type":
                changes["type"] = chunk_type(op.type, dim, self.size)
        return op.evolve(descriptor=narrow, indices=indices, results=(), comments=(), **changes)

    def _slice_descriptor(self, descriptor: Operand, dim: int) -> Value:
        """The descriptor for slices of the blocks of `descriptor`."""
        maker = self.definitions.get(cast(Value, descriptor))
        if not isinstance(maker, MakeDescriptor):
            raise UnsliceableError("a descriptor is a parameter")
        block = chunk_type(cast(Descriptor, maker.to).block, dim, self.size)
        makers = self.descriptors.setdefault(maker, [])
        for results in makers:
            if cast(Any, results).to.block is block:
                return results.results[0]
        makers.append(maker.evolve(to=Descriptor(cast(Tile, block)), results=(), comments=()))
        return makers[-1].results[0]
