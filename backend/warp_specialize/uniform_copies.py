"""TMA loads whose indices are equal in all blocks of a cluster. Every block also computes the
indices of the other ranks, and compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.arith import And, ICmp, IntegerPredicate, Xor
from tileir.ops.control import Branch, CondBranch
from tileir.ops.hopper import TmaLoad
from tileir.passes.cfg_edit import copy_op, fresh_label
from tileir.types import I32, Scalar
from tileir.values import Operand, Value, constant

if TYPE_CHECKING:
    from tileir.backend.warp_specialize.rank_divergence import RankDependent

Slices = Mapping[Value, tuple[Value, int]]
"""The slices of descriptors: the descriptor of the slice that each rank loads, and the dimension
along which slices are consecutive."""


@attrs.frozen(eq=False)
class UniformityCheck:
    """The producer that each of `ranks` blocks runs, and the values that differ between them."""

    old: Function
    differing: RankDependent
    ranks: int
    _computing_ops: dict[Value, frozenset[Op] | None] = attrs.field(
        factory=dict[Value, "frozenset[Op] | None"]
    )
    _uniform: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    """The test whether an index value is equal in all blocks, by value."""

    def may_be_uniform(self, op: TmaLoad) -> bool:
        """Whether the indices of a copy may be equal in all blocks, and each block can compute
        them."""
        return all(self._ops_computing(v) is not None for v in self._indices(op))

    def function(self, slices: Slices) -> Function:
        """The function whose copies of descriptors in `slices` are multicast where they are
        uniform."""
        copies = {
            op for op in self.old.ops if isinstance(op, TmaLoad) and self.is_candidate(op, slices)
        }
        indices = {v for op in copies for v in self._indices(op)}
        computing = frozenset[Op]().union(*(self._ops_computing(v) or () for v in indices))
        other_values: list[dict[Value, Operand]] = [{} for _ in range(1, self.ranks)]
        blocks: dict[str, Block] = {}
        for label, block in self.old.blocks.items():
            ops, pending = list[Op](), list[Op]()
            for op in block.ops:
                if op in copies or op is block.terminator:
                    self._evaluate_for_other_ranks(pending, indices, other_values, ops)
                    pending.clear()
                elif op in computing:
                    pending.append(op)
                ops.append(op)
            blocks[label] = attrs.evolve(block, ops=tuple(ops))
        return _VersionedCopies(self, slices, blocks).function()

    def emit_test(self, op: TmaLoad, ops: list[Op]) -> Operand | None:
        """Emit the test whether the indices of a copy are equal in all blocks; None where they
        always are."""
        tests = [self._uniform[v] for v in self._indices(op)]
        if not tests:
            return None
        for other in tests[1:]:
            ops.append(conjunction := And(tests[0], other))
            tests[0] = conjunction.result
        return tests[0]

    def is_candidate(self, op: TmaLoad, slices: Slices) -> bool:
        """Whether the copy is multicast where its indices are equal."""
        return op.descriptor in slices and self.may_be_uniform(op)

    def _indices(self, op: TmaLoad) -> list[Value]:
        """The indices of a copy that may differ between blocks."""
        values = self.differing.values
        return [v for v in op.indices if isinstance(v, Value) and v in values]

    def _ops_computing(self, value: Value) -> frozenset[Op] | None:
        """The ops that compute `value` from the rank and values that are equal in all blocks; None
        where it depends on other values."""
        if value not in self._computing_ops:
            self._computing_ops[value] = self._collect_ops(definitions(self.old).get(value))
        return self._computing_ops[value]

    def _collect_ops(self, op: Op | None) -> frozenset[Op] | None:
        if op is None or not _is_computable(op):
            return None
        ops = {op}
        for operand in op.operands:
            if isinstance(operand, Value) and operand in self.differing.values:
                operand_ops = self._ops_computing(operand)
                if operand_ops is None:
                    return None
                ops |= operand_ops
        return frozenset(ops)

    def _evaluate_for_other_ranks(
        self, pending: list[Op], indices: set[Value], other_values: list[dict[Value, Operand]],
        ops: list[Op],
    ) -> None:  # fmt: skip
        """Evaluate the ops `pending` for every other rank, and compare the values of `indices`. The
        number of ranks is a power of two, so the other ranks are this one xor 1, 2, ..."""
        from tileir.ops.cluster import ClusterRank

        tested = [v for op in pending for v in op.results if v in indices]
        for number, env in enumerate(other_values, start=1):
            for op in pending:
                if isinstance(op, ClusterRank):
                    ops.append(other := Xor(op.result, constant(I32, number)))
                    env[op.result] = other.result
                else:
                    ops.append(copy_op(op, env))
            for value in tested:
                self._compare(value, env[value], ops)

    def _compare(self, value: Value, other: Operand, ops: list[Op]) -> None:
        ops.append(test := ICmp(value, other, predicate_=IntegerPredicate.EQ))
        is_equal = test.results[0]
        if value in self._uniform:
            ops.append(conjunction := And(self._uniform[value], is_equal))
            is_equal = conjunction.result
        self._uniform[value] = is_equal


def _is_computable(op: Op) -> bool:
    """Whether a block can evaluate `op` for another rank."""
    from tileir.ops.cluster import ClusterRank

    if isinstance(op, ClusterRank):
        return True
    scalars = all(isinstance(v.type, Scalar) for v in (*op.operands, *op.results))
    return scalars and not op.effects & ~Effects.TRAP


@attrs.frozen(eq=False)
class _VersionedCopies:
    """Versions the copies of a function: a branch on uniformity selects multicast or a plain
    load."""

    check: UniformityCheck
    slices: Slices
    blocks: dict[str, Block]
    versioned: dict[str, Block] = attrs.field(factory=dict[str, Block])

    def function(self) -> Function:
        for label, block in self.blocks.items():
            self._block(label, block)
        return self.check.old.with_blocks(self.versioned)

    def _block(self, label: str, block: Block) -> None:
        parameters, ops = block.parameters, list[Op]()
        for op in block.ops:
            if not isinstance(op, TmaLoad) or not self.check.is_candidate(op, self.slices):
                ops.append(op)
                continue
            part, axis = self.slices[op.descriptor]  # type: ignore[index] - a candidate has one
            ranks = self.check.ranks
            multicast = op.evolve(descriptor=part, multicast=ranks, axis=axis)
            is_uniform = self.check.emit_test(op, ops)
            if is_uniform is None:
                ops.append(multicast)
                continue
            joint, alone, after_label = (
                self._label(label, n) for n in ("multicast", "alone", "copied")
            )
            ops.append(CondBranch(is_uniform, Successor(joint), Successor(alone)))
            self.versioned[label] = Block(label, parameters, tuple(ops))
            self.versioned[joint] = Block(joint, (), (multicast, Branch(Successor(after_label))))
            self.versioned[alone] = Block(alone, (), (op, Branch(Successor(after_label))))
            label, parameters, ops = after_label, (), []
        self.versioned[label] = Block(label, parameters, tuple(ops))

    def _label(self, label: str, what: str) -> str:
        """A fresh label for a part of the block `label`."""
        return fresh_label(f"{label}.{what}", {*self.blocks, *self.versioned})
