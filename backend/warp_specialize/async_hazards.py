"""Conflicts between TMA copies and other accesses to global memory in one program instance.

TMA copies are unordered with accesses of threads, and with each other unless a wait makes the first
one complete (PTX ISA, "Async proxy", cp.async.bulk.wait_group). The analysis assumes that no
instance accesses memory that another one writes, and that pointers from different parameters do not
alias."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import attrs

from tileir.analysis.affine import affine
from tileir.analysis.argument_effects import ELSEWHERE, underlying_parameters
from tileir.analysis.cfg import cfg, reachable
from tileir.analysis.clusters import persistent_instances
from tileir.analysis.loops import Loop, loops
from tileir.analysis.polynomial import Iteration
from tileir.analysis.uses import defining_blocks, uses
from tileir.backend.warp_specialize.rings import RingPlan, StagedAccess
from tileir.effects import ACCESSES, Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.atomic import AtomicRMW
from tileir.ops.descriptor import DescriptorReduce, DescriptorStore
from tileir.types import AddressSpace, Descriptor, Pointer, element_of
from tileir.values import Operand, Value

_OBSERVABLE = Effects.READ | Effects.WRITE | Effects.SYNC | Effects.OUTSIDE


@attrs.frozen(eq=False)
class InstanceAccesses:
    """The accesses to global memory of one instance of a kernel: the parameters that each is based
    on (`reached`), and the block and index of each. `reachable`: by block, the blocks that control
    may reach from it in the same instance."""

    function: Function
    reached: Mapping[Op, frozenset[Value]]
    positions: Mapping[Op, tuple[str, int]]
    reachable: Mapping[str, frozenset[str]]

    @staticmethod
    def of(function: Function) -> InstanceAccesses:
        """The accesses of `function`."""
        reached: dict[Op, frozenset[Value]] = {}
        positions: dict[Op, tuple[str, int]] = {}
        for label, block in function.blocks.items():
            for index, op in enumerate(block.ops):
                parameters = _parameters_of(function, op) if op.effects & ACCESSES else None
                if parameters:
                    reached[op], positions[op] = parameters, (label, index)
                elif op.effects is Effects.PURE:
                    positions[op] = label, index
        return InstanceAccesses(function, reached, positions, _reachable_in_instance(function))

    def may_alias(self, first: Op, second: Op) -> bool:
        """Whether two ops may access the same memory."""
        one, other = self.reached[first], self.reached[second]
        return ELSEWHERE in one | other or bool(one & other)

    def follows(self, op: Op, before: Op) -> bool:
        """Whether `op` may run after `before` in one instance."""
        (label, index), (start, first) = self.positions[op], self.positions[before]
        return (label == start and index > first) or label in self.reachable[start]

    def may_conflict(self, first: Op, second: Op) -> bool:
        """Whether `second` may access what `first` accessed earlier in the same instance."""
        return self.may_alias(first, second) and self.follows(second, first)


def stores_through_smem(
    instance: InstanceAccesses, plan: RingPlan, stores: Mapping[Op, StagedAccess]
) -> tuple[dict[Op, StagedAccess], frozenset[Op]]:
    """The `stores` that can pass through shared memory: threads neither write their addresses
    before nor access them after. And those that must wait until earlier copies are complete, since
    they may write the same addresses."""
    loads = {load.op for ring in plan.rings for load in ring.loads}
    staged_stores = dict(stores)
    while True:
        copied = {op for op, staged in staged_stores.items() if not staged.unit}
        ordered_ops = [op for op in instance.reached if op not in copied and op not in loads]
        bad = {s for s in copied if any(_needs_order(instance, o, s) for o in ordered_ops)}
        if not bad:
            break
        staged_stores = {op: staged for op, staged in staged_stores.items() if op not in bad}
    return staged_stores, frozenset(op for op in copied if _must_wait(instance, op, copied))


def overwrites_ring_inputs(instance: InstanceAccesses, plan: RingPlan) -> bool:
    """Whether consumers may write what the producer loads to a ring in the same instance, before
    the load or before its dots."""
    writers = [op for op in instance.reached if op.effects & Effects.WRITE]
    return any(
        instance.may_alias(writer, load.op)
        and any(instance.follows(op, writer) for op in (load.op, *ring.dots))
        for ring in plan.rings for load in ring.loads for writer in writers
    )  # fmt: skip


def producer_reads_written_memory(
    instance: InstanceAccesses, plan: RingPlan, role: Function
) -> bool:
    """Whether the producer `role` reads, other than into rings, memory that an instance writes: the
    consumers write it, unordered with the producer."""
    loads = {load.op for ring in plan.rings for load in ring.loads}
    computed = {value for op in role.ops for value in op.results}
    readers = [
        op for op in instance.reached if op not in loads and not computed.isdisjoint(op.results)
    ]
    writers = [op for op in instance.reached if op.effects & Effects.WRITE]
    return any(
        instance.may_conflict(writer, reader) or instance.may_conflict(reader, writer)
        for reader in readers
        for writer in writers
    )


def has_cross_op_dependence(function: Function) -> bool:
    """Whether an instance may access what it writes by another op at other indices: blocks that
    each do a part of both ops would have to synchronize."""
    instance = InstanceAccesses.of(function)
    writers = [op for op in instance.reached if op.effects & Effects.WRITE]
    return any(
        op is not writer
        and (instance.may_conflict(writer, op) or instance.may_conflict(op, writer))
        and _address(op) != _address(writer)
        and not (_is_reduction(op) and _is_reduction(writer))
        for writer in writers for op in instance.reached
    )  # fmt: skip


def _address(op: Any) -> tuple[Operand, ...]:
    """The operands of an access that determine its address."""
    return (op.inputs[0], *getattr(op, "indices", ()))


def _is_reduction(op: Op) -> bool:
    return isinstance(op, (AtomicRMW, DescriptorReduce))


def _needs_order(instance: InstanceAccesses, other: Op, copied: Op) -> bool:
    """Whether the access `other` of threads must be ordered with the TMA copy of the store
    `copied`: it may alias it, and follows it, or precedes it and is not just a read that the stored
    value depends on."""
    if not instance.may_alias(other, copied):
        return False
    before = instance.follows(copied, other)
    is_input = not other.effects & Effects.WRITE and _feeds_only(instance.function, other, copied)
    return instance.follows(other, copied) or (before and not is_input)


def _feeds_only(function: Function, read: Op, store: Op) -> bool:
    """Whether all values computed from `read` are used only to compute what `store` writes."""
    waiting, seen = [*read.results], set[Value]()
    while waiting:
        value = waiting.pop()
        for user in uses(function).get(value, ()):
            if user is store:
                continue
            if user.effects & _OBSERVABLE or user.successors or not user.results:
                return False
            fresh = [v for v in user.results if v not in seen]
            seen.update(fresh)
            waiting += fresh
    return True


def _must_wait(instance: InstanceAccesses, store: Op, copied: set[Op]) -> bool:
    """Whether an earlier copy may write the addresses of `store`, other than both as reductions."""
    return any(
        instance.may_conflict(other, store)
        and not (isinstance(other, DescriptorReduce) and isinstance(store, DescriptorReduce))
        and not (other is store and _writes_disjoint_blocks(instance, store))
        for other in copied
    )


def _writes_disjoint_blocks(instance: InstanceAccesses, store: Op) -> bool:
    """Whether a store writes disjoint blocks in the iterations of the loops around it: for each
    loop there is one index that only it changes, by at least the extent of the block."""
    function, access = instance.function, cast(DescriptorStore, store)
    around = list(_loops_around(function, instance.positions[store][0]))
    place, forms = defining_blocks(function), affine(function)
    covered: set[str] = set()
    for index, extent in zip(access.indices, access.block().shape, strict=True):
        form = forms.of(index)
        if form is None or form.base is not None:
            return False
        symbols = {s for m in form.offset.terms for s in m}
        moving = [loop for loop in around if Iteration(loop.header) in symbols]
        inside = (place.get(s) for s in symbols if isinstance(s, Value))
        if any(label in loop.blocks for label in inside for loop in around) or len(moving) > 1:
            return False
        for loop in moving:
            step = form.offset.coefficient(Iteration(loop.header))
            if step is None or step.constant is None or abs(step.constant) < extent:
                return False
            covered.add(loop.header)
        if extent > 1:  # an inner index may reach other rows of this dimension
            break
    return covered >= {loop.header for loop in around}


def _loops_around(function: Function, label: str) -> Iterator[Loop]:
    """The loops around a block within an instance."""
    nest = loops(function)
    header = nest.innermost.get(label)
    while header is not None:
        loop = nest.by_header[header]
        if not _is_instance_loop(function, loop):
            yield loop
        header = loop.parent


def _is_instance_loop(function: Function, loop: Loop) -> bool:
    """Whether every iteration of a loop is a program instance."""
    return loop.depth == 1 and persistent_instances(function) > 0


def _parameters_of(function: Function, op: Op) -> frozenset[Value]:
    """The parameters that the global addresses of `op` may be based on."""
    underlying = underlying_parameters(function)
    parameters = [
        underlying.get(cast(Value, v), frozenset({ELSEWHERE})) for v in op.operands if _is_global(v)
    ]
    return frozenset[Value]().union(*parameters)


def _is_global(operand: Operand) -> bool:
    kind = element_of(operand.type)
    return isinstance(kind, Descriptor) or (
        isinstance(kind, Pointer) and kind.space is not AddressSpace.SHARED
    )


def _reachable_in_instance(function: Function) -> dict[str, frozenset[str]]:
    """For each block, the blocks that are reachable from it in the same instance."""
    nest = loops(function)
    back_edges = {
        (latch, header)
        for header, loop in nest.by_header.items()
        for latch in loop.latches
        if _is_instance_loop(function, loop)
    }
    targets = {
        label: [t for t in targets if (label, t) not in back_edges]
        for label, targets in cfg(function).successors.items()
    }
    return {label: frozenset(reachable(label, targets)) for label in targets}
