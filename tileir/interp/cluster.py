"""Clusters in the interpreter: a program instance that runs once per rank, all at the same time.

Every rank is a coroutine with its own buffers and barriers; the counterparts in another rank are
those that the same op allocated there."""

from __future__ import annotations

from math import prod
from typing import Any

import attrs
import numpy as np

from tileir.errors import Diagnostic, InterpretError
from tileir.interp.async_units import BarrierPhase, HopperMixin
from tileir.interp.clocks import InstanceClock, Published
from tileir.interp.failures import fail
from tileir.interp.program import NoInstanceError
from tileir.interp.schedule import NotReadyError
from tileir.machine import Tensor
from tileir.op import Op
from tileir.types import shape_of


@attrs.define(eq=False)
class _ClusterBarrier:
    """The barrier of the ranks of one instance: the ranks that arrived in phase number `phase`, the
    ranks that have ended, and the accesses before the barrier."""

    phase: int = 0
    came: set[int] = attrs.field(factory=set)
    ended: set[int] = attrs.field(factory=set)
    before: Published | None = None
    past: Published | None = None

    def settle(self, ranks: int) -> None:
        """Start the next phase after the last arrival."""
        if self.came and len(self.came | self.ended) == ranks:
            self.phase, self.came = self.phase + 1, set()
            self.past, self.before = self.before, None


class ClusterMixin(HopperMixin):
    """`cluster_*` and `remote_*`; mixed into a machine. Number n of what runs is rank n % `ranks`
    of program instance n // `ranks`."""

    ranks: int
    ids: tuple[int, int, int] | None
    meetings: dict[int, _ClusterBarrier]
    arrived: dict[int, int]
    """For each instance, by number: the phase in which it arrived without waiting yet."""
    owners: dict[int, tuple[int, Op]]
    allotted: dict[tuple[int, Op], int]
    """The owner of a buffer or of barriers, and the address by instance number and op."""
    clock_of_instance: InstanceClock | None
    races: Any

    def cluster_rank(self) -> Tensor:
        """The rank that runs."""
        if self.ids is None:
            raise NoInstanceError
        return Tensor(np.array(self.instance % self.ranks, np.int32), None)

    # Barriers --------------------------------------------------------------------------------

    def cluster_arrive(self, op: Any) -> None:
        """Arrive with this rank."""
        if self.group is not None or self.roles.get(self.instance):
            raise fail("TIR0521", op, "the kernel alone arrives, while it has no roles", self)
        if self.instance in self.arrived:
            raise fail("TIR0521", op, "it has not waited since it arrived", self)
        result = self._cluster_barrier()
        self.arrived[self.instance] = result.phase
        result.came.add(self.instance)
        result.before = self._publish(result.before)
        result.settle(self.ranks)
        self.version += 1

    def cluster_wait(self, op: Any) -> None:
        """Return once all ranks have arrived."""
        if self.instance not in self.arrived:
            raise fail("TIR0521", op, "it has not arrived", self)
        result = self._cluster_barrier()
        if result.phase == self.arrived[self.instance]:
            raise NotReadyError
        del self.arrived[self.instance]
        self._join(result.past)

    def _cluster_barrier(self) -> _ClusterBarrier:
        return self.meetings.setdefault(self.instance // self.ranks, _ClusterBarrier())

    def _publish(self, before: Published | None) -> Published | None:
        """The accesses of this rank, joined with those of other ranks in `before`."""
        clock = self.clock_of_instance
        if clock is None:
            return before
        self.races.check(clock.now)
        return clock.publish() | before

    def _join(self, past: Published | None) -> None:
        if self.clock_of_instance is not None:
            self.races.check(self.clock_of_instance.now)
            self.clock_of_instance.join(past)

    # Memory of other ranks ------------------------------------------------------------------

    def shared_alloc(self, op: Any) -> Tensor:
        return self._note_access(op, super().shared_alloc(op))

    def mbarrier_alloc(self, op: Any) -> Tensor:
        return self._note_access(op, super().mbarrier_alloc(op))

    def _note_access(self, op: Op, tensor: Tensor) -> Tensor:
        if self.ranks > 1:
            address = int(tensor.data)
            self.owners[address] = self.instance, op
            self.allotted[self.instance, op] = address
        return tensor

    def _of(self, op: Op, mine: Tensor, rank: int) -> Tensor:
        """The counterpart of `mine` in the block `rank`."""
        if self.ranks == 1 and rank == 0:
            return mine
        first = self.instance // self.ranks * self.ranks
        _, result = self.owners.get(int(mine.data), (0, op))
        address = self.allotted.get((first + rank, result))
        if not 0 <= rank < self.ranks or address is None:
            raise fail("TIR0521", op, f"rank {rank} has no such memory", self)
        if first + rank in self._cluster_barrier().ended:
            raise fail("TIR0521", op, f"rank {rank} is at its end", self)
        return Tensor(np.array(address, np.uint64))

    def cluster_load(
        self, op: Any, buffer: Tensor, stage: Tensor, rank: Tensor, row: Tensor
    ) -> Any:
        """Rows of a stage of another rank."""
        result, number = self._stage(op, self._of(op, buffer, int(rank.data)), stage)
        first, (rows, columns) = int(row.data), shape_of(op.type)
        part = (number, slice(first, first + rows), slice(columns))
        if first < 0 or result.data[part].shape != (rows, columns):
            message = f"rows {first} to {first + rows - 1} of a stage of {result.data.shape[1:]}"
            raise fail("TIR0501", op, message, self)
        undef = result.undef[part]
        return Tensor(result.data[part].copy(), undef.copy() if undef.any() else None)

    def cluster_scatter(
        self, op: Any, value: Tensor, place: tuple[Tensor, Tensor], barrier: tuple[Tensor, Tensor]
    ) -> None:
        """Copies of rows of a tile into a stage of every rank."""
        if op.blocks != self.ranks:
            raise fail("TIR0521", op, f"the cluster has {self.ranks} blocks", self)
        rows = len(value.data) // op.blocks
        for rank in range(op.blocks):
            part = slice(rank * rows, (rank + 1) * rows)
            undef = None if value.undef is None else value.undef[part]
            there = self._of(op, place[0], rank), place[1]
            counted = self._barrier(op, self._of(op, barrier[0], rank), barrier[1])
            self._send(op, Tensor(value.data[part], undef), there, counted)

    def _send(
        self, op: Any, part: Tensor, place: tuple[Tensor, Tensor], counted: BarrierPhase
    ) -> None:
        """A copy of a tile into a stage, whose bytes `counted` counts."""
        result, number = self._stage(op, *place)
        size = part.data.size * op.value.type.element.bytes
        result.undef[number] = True

        def land() -> None:
            self._put(op, *place, part.data, part.undef)
            counted.bytes -= size
            counted.settle()

        self._begin(op, land)

    def _everywhere(self, op: Any, mine: Tensor) -> list[Tensor]:
        return [self._of(op, mine, rank) for rank in range(self.ranks)]

    def _share(
        self, op: Any, indices: tuple[Tensor, ...], buffer: Tensor, stage: Tensor
    ) -> tuple[slice, tuple[Tensor, ...]]:
        extents = op.descriptor.type.block.shape
        rows, step, rank = prod(extents[:-1]), extents[op.axis], self.instance % self.ranks
        result, _ = self._stage(op, buffer, stage)
        if op.multicast != self.ranks or result.data.shape[1] != rows * self.ranks:
            message = f"{self.ranks} blocks of {rows} rows for {result.data.shape[1]} of a stage"
            raise fail("TIR0521", op, message, self)
        first = Tensor(indices[op.axis].data + np.int32(rank * step), indices[op.axis].undef)
        moved = (*indices[: op.axis], first, *indices[op.axis + 1 :])
        return slice(rank * rows, rank * rows + rows), moved

    def cluster_mbarrier_arrive(self, op: Any, barrier: Tensor, index: Tensor) -> None:
        """One arrival at the barrier of every rank."""
        for rank in range(self.ranks):
            result = self._barrier(op, self._of(op, barrier, rank), index)
            result.before = self._publish(result.before)
            self._arrive(op, result, 1)

    def cluster_mbarrier_wait(
        self, op: Any, barrier: Tensor, index: Tensor, parity: Tensor
    ) -> None:
        """Nothing, once the phase of that parity has ended."""
        self.mbarrier_wait(op, barrier, index, parity)
        self._join(self._barrier(op, barrier, index).before)

    def leave(self, number: int) -> None:
        super().leave(number)
        if self.ranks > 1:
            if self.arrived.pop(number, None) is not None:
                message = "a rank ends before it has waited: gpu.cluster_wait"
                raise InterpretError(Diagnostic("TIR0521", message))
            result = self._cluster_barrier()
            result.ended.add(number)
            result.settle(self.ranks)
            self.version += 1
