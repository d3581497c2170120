"""What follows from sums, cut into slices of rows, of which every rank of a cluster writes one."""

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
    """Something is needed that no rank has; the message says what."""


@attrs.frozen(eq=False)
class RowSlices:
    """Block `label` with writes of slices alone, and the descriptors of slices, behind the ops
    that make those of whole blocks."""

    label: str
    ops: tuple[Op, ...]
    descriptors: Mapping[Op, tuple[Op, ...]]


def sliced(
    function: Function, loop: Loop, totals: Mapping[Value, Value], start: Value, rows: int
) -> RowSlices:
    """The writes of `function`, all of which follow from sums of `loop`, for `rows` rows from
    `start` on: of those of the sums, `totals` are what they come to. Raises WholeError."""
    label, sinks = _writes(function)
    derived = _derived(function, loop, totals)
    for op in sinks:
        if op.mnemonic not in _SINKS or derived.isdisjoint(op.inputs):
            raise UnsliceableError(f"{op.mnemonic} does not follow from sums alone")
        if any(uses(function).get(v) for v in op.results):
            raise UnsliceableError(f"what {op.mnemonic} gives is looked at")
    _check_others(function, loop, derived, sinks)
    cutter = _Rows.of(function, derived, totals, start, rows)
    for op in function.blocks[label].ops:
        if op in sinks:
            cutter.write(op)
        else:
            cutter.ops.append(op)
    descriptors = {maker: tuple(results) for maker, results in cutter.descriptors.items()}
    return RowSlices(label, tuple(cutter.ops), descriptors)


def _check_others(function: Function, loop: Loop, derived: set[Value], sinks: Sequence[Op]) -> None:
    """What is not cut must not depend on sums, of which every rank has its own, and must not be
    seen once per rank. Raises WholeError."""
    if any(v in derived for v in _passed(function)):
        raise UnsliceableError("sums are passed on to where paths meet")
    for label, block in function.blocks.items():
        for op in block.ops:
            if op.effects & Effects.OUTSIDE and not (op.results or op.effects & Effects.TRAP):
                raise UnsliceableError(f"{op.mnemonic} would be seen once per block")
            if label in loop.blocks or op in sinks or not has_effects(op):
                continue
            if not derived.isdisjoint(op.operands):
                raise UnsliceableError(f"{op.mnemonic} looks at sums")


def _writes(function: Function) -> tuple[str, list[Op]]:
    """The ops that write, and the block that has them all."""
    found = {
        label: ops
        for label, block in function.blocks.items()
        if (ops := [op for op in block.ops if op.effects & Effects.WRITE])
    }
    if len(found) != 1:
        raise UnsliceableError("it does not write in one place alone")
    ((label, ops),) = found.items()
    return label, ops


def _derived(function: Function, loop: Loop, totals: Mapping[Value, Value]) -> set[Value]:
    """Everything outside of `loop` that follows from sums."""
    found = set[Value](totals)
    size = 0
    while len(found) > size:
        size = len(found)
        for label, block in function.blocks.items():
            for op in block.ops if label not in loop.blocks else ():
                if not found.isdisjoint(op.operands):
                    found.update(op.results)
    return found


def _passed(function: Function) -> Iterator[Value]:
    """What edges pass, but for a parameter to itself."""
    for block in function.blocks.values():
        for edge in block.successors:
            there = function.blocks[edge.label].parameters
            for value, parameter in zip(edge.arguments, there, strict=True):
                if isinstance(value, Value) and value is not parameter:
                    yield value


@attrs.define
class _Rows(ChunkEmitter):
    """Cuts what follows from sums, blocks of tensors too."""

    derived: set[Value] = attrs.field(factory=set, kw_only=True)
    descriptors: dict[Op, list[Op]] = attrs.field(factory=dict, kw_only=True)
    height: int = attrs.field(default=0, kw_only=True)
    """Rows of the sums."""
    writes: int = attrs.field(default=0, kw_only=True)
    """How many have been cut."""

    @staticmethod
    def of(
        function: Function, derived: set[Value], totals: Mapping[Value, Value], start: Value,
        rows: int,
    ) -> _Rows:  # fmt: skip
        """A cutter that knows the slices of sums along dimension 0."""
        sums = {v: Reshape(v, v.type, results=(v,)) for v in totals}
        height = max(shape_of(v.type)[0] for v in totals)
        known = {**definitions(function), **sums}
        cutter = _Rows(known, start, rows, [], derived=derived, height=height)
        cutter.results.update({(sums[v], 0): (total,) for v, total in totals.items()})
        return cutter

    def write(self, op: Op) -> None:
        """A slice of a write, along the dimension that rows of the sums became."""
        why = f"{op.mnemonic} has no rows of the sums"
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
            raise UnsliceableError("something needs all rows of the sums")
        if isinstance(operand, Value) and operand not in self.definitions and dim is not None:
            raise UnsliceableError(f"%{operand.name or '?'} is carried to where it is needed")
        return ChunkEmitter.chunk(self, operand, dim)

    def _emit_chunk(self, op: Op, dim: int) -> tuple[Value, ...]:
        if isinstance(op, Reshape) and op.results[0] is op.value:
            raise UnsliceableError("columns of the sums are needed, and not rows")
        if op.effects & Effects.READ and self.writes:
            raise UnsliceableError(f"{op.mnemonic} may come before what is written")
        if isinstance(op, DescriptorLoad):
            return self.add(self._of_block(op, dim)).results
        if op.mnemonic != "make_range" and operand_chunks(op, dim) is None:
            raise UnsliceableError(f"{op.mnemonic} needs all rows")
        return ChunkEmitter._emit_chunk(self, op, dim)

    def _of_block(self, op: Any, dim: int, **changes: Any) -> Op:
        """An access to a slice of a block."""
        if op.predicate is not None:
            raise UnsliceableError(f"{op.mnemonic} has a predicate")
        first = op.indices[dim]
        zero = isinstance(first, Constant) and not first.bits
        moved = self.start if zero else self.add(Add(first, self.start)).results[0]
        indices = (*op.indices[:dim], moved, *op.indices[dim + 1 :])
        narrow = self._narrowed(op.descriptor, dim)
        for field in op.schema:
            if field.name == "type":
                changes["type"] = chunk_type(op.type, dim, self.size)
        return op.evolve(descriptor=narrow, indices=indices, results=(), comments=(), **changes)

    def _narrowed(self, descriptor: Operand, dim: int) -> Value:
        """The descriptor of slices of its blocks."""
        maker = self.definitions.get(cast(Value, descriptor))
        if not isinstance(maker, MakeDescriptor):
            raise UnsliceableError("a descriptor is not made here")
        block = chunk_type(cast(Descriptor, maker.to).block, dim, self.size)
        known = self.descriptors.setdefault(maker, [])
        for results in known:
            if cast(Any, results).to.block is block:
                return results.results[0]
        known.append(maker.evolve(to=Descriptor(cast(Tile, block)), results=(), comments=()))
        return known[-1].results[0]
