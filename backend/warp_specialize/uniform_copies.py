"""Copies by tensor maps whose place is the same in all blocks of a cluster: every block finds out
by computing what it is in the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.arith import And, Xor
from tileir.ops.compare import ICmp, IntegerPredicate
from tileir.ops.control import Branch, CondBranch
from tileir.ops.hopper import TmaLoad
from tileir.passes.cfg_edit import copy_op, fresh_label
from tileir.types import I32, Scalar
from tileir.values import Operand, Value, constant

if TYPE_CHECKING:
    from tileir.backend.warp_specialize.rank_divergence import RankDependent

Parts = Mapping[Value, tuple[Value, int]]
"""By descriptor, that of a block's share of its blocks, and the dimension along which shares follow
each other."""


@attrs.frozen(eq=False)
class UniformityCheck:
    """A function that loads, run by each of `ranks` blocks, and what differs between them."""

    old: Function
    differing: RankDependent
    ranks: int
    _slices: dict[Value, frozenset[Op] | None] = attrs.field(
        factory=dict[Value, "frozenset[Op] | None"]
    )
    _same: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    """By index, whether all blocks have the same."""

    def may(self, op: TmaLoad) -> bool:
        """Whether the copy's place may be the same in all blocks, and each can tell."""
        return all(self._slice(v) is not None for v in self._indices(op))

    def function(self, parts: Parts) -> Function:
        """The function with the copies that may be, by `parts`, copied together where they are."""
        copies = {op for op in self.old.ops if isinstance(op, TmaLoad) and self.shares(op, parts)}
        indices = {v for op in copies for v in self._indices(op)}
        needed = frozenset[Op]().union(*(self._slice(v) or () for v in indices))
        elsewhere: list[dict[Value, Operand]] = [{} for _ in range(1, self.ranks)]
        blocks: dict[str, Block] = {}
        for label, block in self.old.blocks.items():
            ops, pending = list[Op](), list[Op]()
            for op in block.ops:
                if op in copies or op is block.terminator:
                    self._elsewhere(pending, indices, elsewhere, ops)
                    pending.clear()
                elif op in needed:
                    pending.append(op)
                ops.append(op)
            blocks[label] = attrs.evolve(block, ops=tuple(ops))
        return _VersionedCopies(self, parts, blocks).function()

    def together(self, op: TmaLoad, ops: list[Op]) -> Operand | None:
        """Whether the copy's place is the same in all blocks, None for always; `ops` find out."""
        found = [self._same[v] for v in self._indices(op)]
        if not found:
            return None
        for other in found[1:]:
            ops.append(both := And(found[0], other))
            found[0] = both.result
        return found[0]

    def shares(self, op: TmaLoad, parts: Parts) -> bool:
        """Whether the copy is to be shared where it may be."""
        return op.descriptor in parts and self.may(op)

    def _indices(self, op: TmaLoad) -> list[Value]:
        """The indices of a copy that may differ."""
        values = self.differing.values
        return [v for v in op.indices if isinstance(v, Value) and v in values]

    def _slice(self, value: Value) -> frozenset[Op] | None:
        """The ops that compute `value` from the rank and what is the same in all blocks; None
        where more than that goes into it."""
        if value not in self._slices:
            self._slices[value] = self._sliced(definitions(self.old).get(value))
        return self._slices[value]

    def _sliced(self, op: Op | None) -> frozenset[Op] | None:
        if op is None or not _computed(op):
            return None
        found = {op}
        for operand in op.operands:
            if isinstance(operand, Value) and operand in self.differing.values:
                part = self._slice(operand)
                if part is None:
                    return None
                found |= part
        return frozenset(found)

    def _elsewhere(
        self, pending: list[Op], indices: set[Value], elsewhere: list[dict[Value, Operand]],
        ops: list[Op],
    ) -> None:  # fmt: skip
        """What the ops `pending` compute in every other block, one after the other, and whether
        that is the same for `indices`: blocks, of which there is a power of two, differ from this
        one in the bits of a number."""
        from tileir.ops.cluster import ClusterRank

        found = [v for op in pending for v in op.results if v in indices]
        for number, env in enumerate(elsewhere, start=1):
            for op in pending:
                if isinstance(op, ClusterRank):
                    ops.append(other := Xor(op.result, constant(I32, number)))
                    env[op.result] = other.result
                else:
                    ops.append(copy_op(op, env))
            for value in found:
                self._compare(value, env[value], ops)

    def _compare(self, value: Value, other: Operand, ops: list[Op]) -> None:
        ops.append(test := ICmp(value, other, predicate_=IntegerPredicate.EQ))
        held = test.results[0]
        if value in self._same:
            ops.append(both := And(self._same[value], held))
            held = both.result
        self._same[value] = held


def _computed(op: Op) -> bool:
    """Whether a block can compute `op` for another."""
    from tileir.ops.cluster import ClusterRank

    if isinstance(op, ClusterRank):
        return True
    scalars = all(isinstance(v.type, Scalar) for v in (*op.operands, *op.results))
    return scalars and not op.effects & ~Effects.TRAP


@attrs.frozen(eq=False)
class _VersionedCopies:
    """Blocks of a function whose copies go two ways, together with the other blocks or not."""

    agreeing: UniformityCheck
    parts: Parts
    blocks: dict[str, Block]
    made: dict[str, Block] = attrs.field(factory=dict[str, Block])

    def function(self) -> Function:
        for label, block in self.blocks.items():
            self._block(label, block)
        return self.agreeing.old.with_blocks(self.made)

    def _block(self, label: str, block: Block) -> None:
        parameters, ops = block.parameters, list[Op]()
        for op in block.ops:
            if not isinstance(op, TmaLoad) or not self.agreeing.shares(op, self.parts):
                ops.append(op)
                continue
            part, axis = self.parts[op.descriptor]  # type: ignore[index] - a share has one
            ranks = self.agreeing.ranks
            whole = op.evolve(descriptor=part, multicast=ranks, axis=axis)
            held = self.agreeing.together(op, ops)
            if held is None:
                ops.append(whole)
                continue
            together, alone, rest = (self._label(label, n) for n in ("together", "alone", "copied"))
            ops.append(CondBranch(held, Successor(together), Successor(alone)))
            self.made[label] = Block(label, parameters, tuple(ops))
            self.made[together] = Block(together, (), (whole, Branch(Successor(rest))))
            self.made[alone] = Block(alone, (), (op, Branch(Successor(rest))))
            label, parameters, ops = rest, (), []
        self.made[label] = Block(label, parameters, tuple(ops))

    def _label(self, label: str, what: str) -> str:
        """A label for a part of the block `label`."""
        return fresh_label(f"{label}.{what}", {*self.blocks, *self.made})
