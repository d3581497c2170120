"""What an instance of a kernel accesses again.

Copies by tensor maps are in no order with what threads do to global memory, and with each other
only where one is waited for until it is complete (PTX ISA, "Async proxy",
cp.async.bulk.wait_group). Instances never access what another writes, and pointers that come from
different parameters are taken to reach different memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import attrs

from tileir.analysis.affine import affine
from tileir.analysis.argument_effects import ELSEWHERE, underlying_parameters
from tileir.analysis.cfg import cfg
from tileir.analysis.clusters import persistent_instances
from tileir.analysis.loops import Loop, loops
from tileir.analysis.polynomial import Iteration
from tileir.analysis.uses import defining_blocks, uses
from tileir.backend.warp_specialize.rings import RingPlan, StagedAccess
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.atomic import AtomicRMW
from tileir.ops.descriptor import DescriptorReduce, DescriptorStore
from tileir.types import AddressSpace, Descriptor, Pointer, element_of
from tileir.values import Operand, Value

_ACCESS = Effects.READ | Effects.WRITE
_LOOKED_AT = Effects.READ | Effects.WRITE | Effects.SYNC | Effects.OUTSIDE


@attrs.frozen(eq=False)
class InstanceAccesses:
    """The accesses of global memory by one instance of a kernel: the parameters that each reaches,
    and the block of each. `later`: where control may come from a block before the next instance."""

    function: Function
    reached: Mapping[Op, frozenset[Value]]
    homes: Mapping[Op, tuple[str, int]]
    later: Mapping[str, frozenset[str]]

    @staticmethod
    def of(function: Function) -> InstanceAccesses:
        """The accesses of `function`."""
        reached: dict[Op, frozenset[Value]] = {}
        homes: dict[Op, tuple[str, int]] = {}
        for label, block in function.blocks.items():
            for index, op in enumerate(block.ops):
                found = _reached(function, op) if op.effects & _ACCESS else None
                if found:
                    reached[op], homes[op] = found, (label, index)
                elif op.effects is Effects.PURE:
                    homes[op] = label, index
        return InstanceAccesses(function, reached, homes, _later(function))

    def meet(self, first: Op, second: Op) -> bool:
        """Whether two ops may access the same memory."""
        one, other = self.reached[first], self.reached[second]
        return ELSEWHERE in one | other or bool(one & other)

    def follows(self, op: Op, before: Op) -> bool:
        """Whether `op` may run after `before` in one instance."""
        (label, index), (start, first) = self.homes[op], self.homes[before]
        return (label == start and index > first) or label in self.later[start]

    def meets_again(self, first: Op, second: Op) -> bool:
        """Whether `second` may access what `first` did before, in the same instance."""
        return self.meet(first, second) and self.follows(second, first)


def stores_through_smem(
    instance: InstanceAccesses, found: RingPlan, stores: Mapping[Op, StagedAccess]
) -> tuple[dict[Op, StagedAccess], frozenset[Op]]:
    """Those of `stores` that can pass through shared memory: what copies write, threads have not
    written before, nor do they access it later. And those whose copies begin once the ones before
    are complete: what these wrote they may write again."""
    loads = {load.op for ring in found.rings for load in ring.loads}
    kept = dict(stores)
    while True:
        copied = {op for op, staged in kept.items() if not staged.unit}
        others = [op for op in instance.reached if op not in copied and op not in loads]
        bad = {s for s in copied if any(_disturbs(instance, o, s) for o in others)}
        if not bad:
            break
        kept = {op: staged for op, staged in kept.items() if op not in bad}
    return kept, frozenset(op for op in copied if _waits(instance, op, copied))


def overwrites_ring_inputs(instance: InstanceAccesses, found: RingPlan) -> bool:
    """Whether an instance may write what is loaded into a ring before its dots have read it, which
    others than the warps that load would do."""
    writers = [op for op in instance.reached if op.effects & Effects.WRITE]
    return any(
        instance.meet(writer, load.op)
        and any(instance.follows(op, writer) for op in (load.op, *ring.dots))
        for ring in found.rings for load in ring.loads for writer in writers
    )  # fmt: skip


def producer_reads_written_memory(
    instance: InstanceAccesses, found: RingPlan, role: Function
) -> bool:
    """Whether `role`, what loads into rings, reads for itself what an instance writes: others write
    that, in no order with it."""
    loads = {load.op for ring in found.rings for load in ring.loads}
    made = {value for op in role.ops for value in op.results}
    readers = [op for op in instance.reached if op not in loads and not made.isdisjoint(op.results)]
    writers = [op for op in instance.reached if op.effects & Effects.WRITE]
    return any(
        instance.meets_again(writer, reader) or instance.meets_again(reader, writer)
        for reader in readers
        for writer in writers
    )


def has_cross_op_dependence(function: Function) -> bool:
    """Whether an instance may access what it writes by another op, elsewhere in the block of that:
    whoever does a part of each has to wait for others."""
    instance = InstanceAccesses.of(function)
    writers = [op for op in instance.reached if op.effects & Effects.WRITE]
    return any(
        op is not writer
        and (instance.meets_again(writer, op) or instance.meets_again(op, writer))
        and _place(op) != _place(writer)
        and not (_adds(op) and _adds(writer))
        for writer in writers for op in instance.reached
    )  # fmt: skip


def _place(op: Any) -> tuple[Operand, ...]:
    """The operands that say where an op accesses memory."""
    return (op.inputs[0], *getattr(op, "indices", ()))


def _adds(op: Op) -> bool:
    return isinstance(op, (AtomicRMW, DescriptorReduce))


def _disturbs(instance: InstanceAccesses, other: Op, copied: Op) -> bool:
    """Whether what threads do by `other` would need an order with the copy of a store: after it, or
    before it, but for a read of what is then computed and stored."""
    if not instance.meet(other, copied):
        return False
    before = instance.follows(copied, other)
    kept = not other.effects & Effects.WRITE and _only_into(instance.function, other, copied)
    return instance.follows(other, copied) or (before and not kept)


def _only_into(function: Function, read: Op, store: Op) -> bool:
    """Whether threads need all that comes of a read for what they store."""
    waiting, seen = [*read.results], set[Value]()
    while waiting:
        value = waiting.pop()
        for user in uses(function).get(value, ()):
            if user is store:
                continue
            if user.effects & _LOOKED_AT or user.successors or not user.results:
                return False
            fresh = [v for v in user.results if v not in seen]
            seen.update(fresh)
            waiting += fresh
    return True


def _waits(instance: InstanceAccesses, store: Op, copied: set[Op]) -> bool:
    """Whether a copy before may write what that of `store` does, which do not both add."""
    return any(
        instance.meets_again(other, store)
        and not (isinstance(other, DescriptorReduce) and isinstance(store, DescriptorReduce))
        and not (other is store and _moves_on(instance, store))
        for other in copied
    )


def _moves_on(instance: InstanceAccesses, store: Op) -> bool:
    """Whether a store writes another block of rows in every round of the loops around it: for each
    loop one index, which no other loop moves, goes on by all that the block has."""
    function, written = instance.function, cast(DescriptorStore, store)
    around = list(_around(function, instance.homes[store][0]))
    place, forms = defining_blocks(function), affine(function)
    moved: set[str] = set()
    for index, extent in zip(written.indices, written.block().shape, strict=True):
        form = forms.of(index)
        if form is None or form.base is not None:
            return False
        symbols = {s for m in form.offset.terms for s in m}
        turns = [loop for loop in around if Iteration(loop.header) in symbols]
        inside = (place.get(s) for s in symbols if isinstance(s, Value))
        if any(label in loop.blocks for label in inside for loop in around) or len(turns) > 1:
            return False
        for loop in turns:
            step = form.offset.coefficient(Iteration(loop.header))
            if step is None or step.constant is None or abs(step.constant) < extent:
                return False
            moved.add(loop.header)
        if extent > 1:  # how far the rows of this dimension lie, those of the next do not say
            break
    return moved >= {loop.header for loop in around}


def _around(function: Function, label: str) -> Iterator[Loop]:
    """The loops around a block within an instance."""
    nest = loops(function)
    header = nest.innermost.get(label)
    while header is not None:
        loop = nest.by_header[header]
        if not _turns(function, loop):
            yield loop
        header = loop.parent


def _turns(function: Function, loop: Loop) -> bool:
    """Whether every round of a loop is an instance of its own."""
    return loop.depth == 1 and persistent_instances(function) > 0


def _reached(function: Function, op: Op) -> frozenset[Value]:
    """The parameters through which `op` may access global memory."""
    known = underlying_parameters(function)
    found = [
        known.get(cast(Value, v), frozenset({ELSEWHERE})) for v in op.operands if _is_global(v)
    ]
    return frozenset[Value]().union(*found)


def _is_global(operand: Operand) -> bool:
    kind = element_of(operand.type)
    return isinstance(kind, Descriptor) or (
        isinstance(kind, Pointer) and kind.space is not AddressSpace.SHARED
    )


def _later(function: Function) -> dict[str, frozenset[str]]:
    """By block, the blocks that control may come to from it in the same instance."""
    nest = loops(function)
    turns = {
        (latch, header)
        for header, loop in nest.by_header.items()
        for latch in loop.latches
        if _turns(function, loop)
    }
    targets = {
        label: [t for t in targets if (label, t) not in turns]
        for label, targets in cfg(function).successors.items()
    }
    return {label: _reach(label, targets) for label in targets}


def _reach(label: str, targets: Mapping[str, list[str]]) -> frozenset[str]:
    """What control may come to."""
    found: set[str] = set()
    waiting = list(targets[label])
    while waiting:
        target = waiting.pop()
        if target not in found:
            found.add(target)
            waiting += targets.get(target, ())
    return frozenset(found)
