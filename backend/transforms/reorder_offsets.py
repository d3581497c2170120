"""Reordering of the offsets that are added to a tile of pointers one after the other: `((p + c) +
r) + s` becomes `((p + s) + r) + c` if a thread has fewer elements of `r` and of `s` than of `c`.
Additions to pointers wrap around at 64 bits, so their order is free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from tileir.analysis.uses import defining_blocks, uses
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.cast import SExt
from tileir.ops.shape import Broadcast, GetElementPtr, Splat
from tileir.passes.dce import dce
from tileir.rewrite import Answer, Walk, rewrite
from tileir.types import I64, Element, Tile, Type, element_of, with_element
from tileir.values import Operand, Value


def reorder_offsets(function: Function) -> Function:
    """`function`, which has layouts, with chains of offsets in another order where threads then
    compute fewer additions. A part of a chain in another block stays: it may be outside a loop."""
    chains = _Chains(uses(function), defining_blocks(function))
    changed = rewrite(function, {GetElementPtr.mnemonic: chains.reorder})
    return function if changed is function else dce(changed)


@attrs.frozen(eq=False)
class _Chains:
    readers: Mapping[Value, tuple[Op, ...]]
    blocks: Mapping[Value, str]

    def reorder(self, op: Op, walk: Walk) -> Answer:
        """The ops that replace the last op of a chain."""
        assert isinstance(op, GetElementPtr)
        if not isinstance(op.result.type, Tile) or self._continues(op):
            return op
        base, indices = self._chain(op, walk)
        if len(indices) < 2:
            return op
        additions = _Additions(op.result.type)
        additions.add_to(base, indices, walk)
        return additions.ops if additions.cost < len(indices) * _registers(op.result.type) else op

    def _chain(self, op: GetElementPtr, walk: Walk) -> tuple[Operand, list[Operand]]:
        """The base of a chain of offsets, and the offsets, the last one first."""
        indices: list[Operand] = []
        current: Op | None = op
        pointer: Operand = op.result
        while isinstance(current, GetElementPtr) and current.predicate is None:
            indices.append(current.index)
            pointer = current.pointer
            current = walk.definition(pointer)
            if current is None or not self._continues(current):
                break
        return pointer, indices

    def _continues(self, op: Op) -> bool:
        """Whether the only reader of `op` is another offset in the same block."""
        if not isinstance(op, GetElementPtr) or op.predicate is not None:
            return False
        readers = self.readers.get(op.result, ())
        return (
            len(readers) == 1
            and isinstance(readers[0], GetElementPtr)
            and readers[0].pointer is op.result
            and readers[0].predicate is None
            and self.blocks.get(op.result) == self.blocks.get(readers[0].result) is not None
        )


class _Additions:
    """The additions of offsets to pointers, in an order in which those come first of which a thread
    has few elements. `cost` is the number of additions of a thread to tiles."""

    def __init__(self, full: Tile) -> None:
        self.full = full
        self.ops: list[Op] = []
        self.cost = 0

    def add_to(self, base: Operand, indices: list[Operand], walk: Walk) -> None:
        """Append the ops that add all `indices` to `base`. The last op has the result."""
        scalars, groups = _by_source(indices, walk)
        pointers, kind = _source(base, walk), with_element(self.full, I64)
        if not isinstance(pointers.type, Tile):
            if scalars:
                pointers = self._append(GetElementPtr(pointers, self._total(scalars)))
                scalars = []
            kind = min(groups, key=_registers, default=kind)
            pointers = self._append(Splat(pointers, _like(kind, self.full)))
        else:
            kind = with_element(pointers.type, I64)
        own = groups.pop(kind, [])
        if scalars:
            fewest = min(groups, key=_registers, default=kind)
            kept = fewest if _registers(fewest) <= _registers(kind) else kind
            total = self._total(scalars)
            row = self._append(Splat(total, _like(kept, total.type)))
            (own if kept is kind else groups[kept]).append(row)
        for term in own:
            pointers = self._append(GetElementPtr(pointers, term))
            self.cost += _registers(kind)
        pointers = self._repeat(pointers)
        for group in sorted(groups, key=_registers):
            terms = groups[group]
            self.cost += _registers(group) * (len(terms) - 1) + _registers(self.full)
            pointers = self._append(GetElementPtr(pointers, self._repeat(self._total(terms))))

    def _append(self, op: Op) -> Value:
        self.ops.append(op)
        return op.results[0]

    def _total(self, terms: list[Operand]) -> Operand:
        if len(terms) == 1:
            return terms[0]
        wide = [self._widen(x) for x in terms]
        total = wide[0]
        for term in wide[1:]:
            total = self._append(Add(total, term))
        return total

    def _widen(self, term: Operand) -> Operand:
        kind = with_element(term.type, I64)
        return term if term.type is kind else self._append(SExt(term, kind))

    def _repeat(self, value: Operand) -> Operand:
        kind = _like(self.full, value.type)
        return value if value.type is kind else self._append(Broadcast(value, kind))


def _by_source(
    indices: list[Operand], walk: Walk
) -> tuple[list[Operand], dict[Type, list[Operand]]]:
    """Separate offsets that are equal for all elements from the others. The others are grouped by
    the type, with 64-bit elements, of the value that they repeat."""
    scalars: list[Operand] = []
    groups: dict[Type, list[Operand]] = {}
    for index in indices:
        source = _source(index, walk)
        if isinstance(source.type, Tile):
            groups.setdefault(with_element(source.type, I64), []).append(source)
        else:
            scalars.append(source)
    return scalars, groups


def _source(value: Operand, walk: Walk) -> Operand:
    """The value that `value` repeats; `value` itself if it repeats none."""
    definition = walk.definition(value)
    repeats = isinstance(definition, Broadcast | Splat) and definition.predicate is None
    return definition.value if repeats else value  # type: ignore[union-attr]


def _like(shape: Type, element: Type) -> Type:
    """A type with the shape and layout of `shape`, and the element type of `element`."""
    return with_element(shape, cast(Element, element_of(element)))


def _registers(type: Type) -> int:
    """The number of elements of a tile of `type` that a thread owns."""
    layout: Any = cast(Tile, type).layout
    return layout.size("register")
