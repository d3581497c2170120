"""Operands of dots outside of loops that asynchronous copies store to shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias, cast

import attrs

from tileir.analysis.aliases import aliases
from tileir.analysis.uses import definitions, uses
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.software_pipeline.store_plan import Plan, Stored, StoredOperand
from tileir.backend.target import VECTOR_BYTES
from tileir.effects import ACCESSES, Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.ops.shape import Trans
from tileir.values import Operand, Value

Needed: TypeAlias = Mapping[Dot, Sequence[StoredOperand]]
"""The operands that each dot of a block reads in shared memory."""


@attrs.frozen(eq=False, slots=False)
class CopiedOperands:
    """The operands `needed` of the dots of a block that are loaded for these dots alone, where
    copies of 16 bytes have the effect of the load and the store that are `planned`.

    The data of a copy takes no registers. The copies for the first dot are therefore issued at the
    first access of the block, before anything waits for memory, if their addresses are known there;
    those for later dots as well, if all operands together fit `most` bytes. Other copies are issued
    where the program loads.
    """

    function: Function
    block: Block
    needed: Needed
    planned: Plan
    most: int

    @cached_property
    def loads(self) -> Mapping[Load, Stored]:
        """The loads that are replaced, and how each is stored."""
        origin, widths = definitions(self.function), AccessWidths(self.function)
        keys = dict.fromkeys(x.key for each in self.needed.values() for x in each)
        result: dict[Load, Stored] = {}
        begin = 0
        for i, op in enumerate(self.block.ops):
            if op not in self.planned:
                continue
            since, begin = self.block.ops[begin:i], i
            for key in self.planned[op] or ():
                load = origin.get(cast(Value, key[0]))
                if load not in since or sum(value is key[0] for value, _ in keys) > 1:
                    continue
                if not isinstance(load, Load) or not _copies(load, key[1], widths):
                    continue
                if self._feeds_dots(load) and self._is_kept(load, i):
                    result[load] = key
        return result

    @cached_property
    def first(self) -> Mapping[Load, Sequence[Op]]:
        """The loads whose copies are issued at the first access, and the ops of the block that
        compute their addresses and masks."""
        end = min(self.place[dot] for dot, stores in self.planned.items() if stores)
        if self._bytes <= self.most:
            end = len(self.block.ops)
        result: dict[Load, Sequence[Op]] = {}
        for load in sorted(self.loads, key=self.place.__getitem__):
            ops = self._address_ops(load)
            if self.place[load] < end and ops is not None and self._is_kept(load, self.begin):
                result[load] = ops
        return result

    @property
    def _bytes(self) -> int:
        """The bytes of all operands that are stored."""
        return sum(key[1].bytes for stores in self.planned.values() for key in stores or ())

    @cached_property
    def begin(self) -> int:
        """The position of the first access in the block."""
        return next(i for i, op in enumerate(self.block.ops) if op.effects & ACCESSES)

    @cached_property
    def place(self) -> Mapping[Op, int]:
        """The position of each op of the block."""
        return {op: i for i, op in enumerate(self.block.ops)}

    def _is_kept(self, load: Load, other: int) -> bool:
        """Whether no op between `load` and position `other` may change what is loaded."""
        first, last = sorted((self.place[load], other))
        between = self.block.ops[first:last]
        return not any(aliases(self.function).may_change(op, load) for op in between)

    def _address_ops(self, load: Load) -> Sequence[Op] | None:
        """The ops from the first access on that compute the address and the mask of `load`, in
        order; None if some of them access memory."""
        origin = definitions(self.function)
        waiting: list[Operand] = [x for x in (load.pointer, load.mask) if x is not None]
        ops = set[Op]()
        while waiting:
            op = origin.get(cast(Value, waiting.pop()))
            if op is None or op in ops or self.place.get(op, -1) < self.begin:
                continue
            if op.effects & ~Effects.TRAP:
                return None
            ops.add(op)
            waiting += op.inputs
        return sorted(ops, key=self.place.__getitem__)

    def _feeds_dots(self, load: Load) -> bool:
        """Whether only dots read the result of `load`, as it is or transposed, in shared memory."""
        value, readers = load.result, uses(self.function)
        turned = [op for op in readers.get(value, ()) if _is_transpose(op)]
        views = [value, *(op.result for op in turned)]
        for op in (op for view in views for op in readers.get(view, ())):
            if op in turned:
                continue
            if not isinstance(op, Dot) or self.planned.get(op) is None or op.c in views:
                return False
            stored = sum(x.value is value for x in self.needed[op])
            if stored != sum(v in views for v in (op.a, op.b)):
                return False
        return True


def _is_transpose(op: Op) -> bool:
    return isinstance(op, Trans) and tuple(op.order) == (1, 0)


def _copies(load: Load, place: SharedTile, widths: AccessWidths) -> bool:
    """Whether copies of 16 bytes have the effect of `load` and a store to `place`."""
    if load.volatile or load.predicate is not None or not load.fills_with_zeros:
        return False
    fast = widths.nearest(load.pointer)
    return fast == place.fast and widths.width(load, fast) * place.element.bytes >= VECTOR_BYTES
