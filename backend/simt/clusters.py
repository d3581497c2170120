"""Blocks of a cluster in the machine of threads, which run beside each other: where they meet, and
what they read of one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.simt.happens_before import AgentClock, bytes_of
from tileir.backend.simt.scheduler import MBarrier, Scheduler, WaitingError
from tileir.backend.simt.shadow import RaceError
from tileir.types import I1, I32, Element

Array: TypeAlias = np.ndarray[Any, Any]

_TOGETHER = frozenset({4, 8, 16})
"""Bytes that go to another block at once (PTX ISA, "st.async")."""


@attrs.define(eq=False)
class ClusterBarrier:
    """Where `ranks` blocks meet, in phase number `phase`: who came and what they did, who is at
    its end, and what those did that came in phases past."""

    ranks: int
    phase: int = 0
    came: set[int] = attrs.field(factory=set)
    ended: set[int] = attrs.field(factory=set)
    coming: dict[int, int] = attrs.field(factory=dict)
    past: dict[int, int] = attrs.field(factory=dict)

    def settle(self) -> None:
        """Begin the next phase once nobody is missing."""
        if self.came and len(self.came | self.ended) == self.ranks:
            self.phase, self.came, self.past = self.phase + 1, set(), dict(self.coming)

    def why(self) -> str:
        """What it waits for."""
        missing = set(range(self.ranks)) - self.came - self.ended
        return f"blocks {sorted(missing)} of the cluster"


class SimtClusterOps:
    """The methods of `Across`; mixed into the machine of threads."""

    threads: int
    active: Array
    memory: Any
    made: Any
    dtype: Any
    yard: Scheduler
    crewman: Any
    rank, cluster = 0, 1
    meeting: ClusterBarrier | None = None
    """Of the kernel's threads alone."""
    peers: Sequence[Any] = ()
    """The memory of every block of the cluster, by rank."""
    roles: list[Any]
    warp_barrier: Callable[[], None]
    _agreed: Callable[[Any], int]
    _doing: Callable[[Any], bool]
    _box: Callable[[Any, int], Array]
    _fly: Callable[..., None]
    _fetched: Callable[[Any, Sequence[int]], Callable[[MBarrier], Array]]
    _arrived: tuple[int, int] | None = None
    """The phase in which the block arrived and has not waited for, and since when its threads have
    not met."""

    def cluster_rank(self) -> Any:
        return self.made(self.rank, I32)

    def cluster_arrive(self, *, first: bool) -> None:
        meeting = self._meeting()
        if first and self.crewman.view.has_accessed():
            raise AssertionError("a first arrival, which orders no memory, after some was accessed")
        if self._arrived is not None:
            raise AssertionError("a block arrives again before it has waited")
        if not self.active.all():
            raise AssertionError("not every thread arrives")
        if any(not role.ended for role in self.roles):
            raise AssertionError("a block arrives while it has roles")
        self.memory.clock.synchronize_warps()
        self._arrived = meeting.phase, self.memory.clock.epoch
        self.crewman.view.publish(meeting.coming)
        meeting.came.add(self.rank)
        meeting.settle()

    def cluster_wait(self) -> None:
        meeting = self._meeting()
        if self._arrived is None:
            raise AssertionError("a block waits that has not arrived")
        phase, epoch = self._arrived
        if meeting.phase == phase:
            raise WaitingError(lambda: meeting.phase != phase, meeting.why)
        self.crewman.view.join(meeting.past)
        self.memory.meet_since(epoch)
        self._arrived = None

    def _meeting(self) -> ClusterBarrier:
        if self.meeting is None:
            raise AssertionError("only the kernel of a cluster meets others")
        return self.meeting

    # Memory ---------------------------------------------------------------------------------

    def load_remote(self, element: Element, count: int, offset: Any, rank: Any) -> list[Any]:
        size, at = element.bytes, offset.array.astype(np.int64)
        self.memory.check_aligned(at, size * count, self.active)
        return [self._one_remote(element, at + i * size, rank.array) for i in range(count)]

    def _one_remote(self, element: Element, at: Array, ranks: Array) -> Any:
        found = np.zeros(self.threads, self.dtype(element))
        for rank in np.unique(ranks[self.active]).tolist():
            held, memory = self.active & (ranks == rank), self._peer(rank)
            view, base = self.crewman.view, rank * memory.shared_bytes
            raw = memory.peek(at, found.dtype, held)
            found[held] = raw != 0 if element is I1 else raw
            view.read_at(base + bytes_of(at[held], found.itemsize))
        return self.made(found, element)

    def store_remote(
        self, element: Element, offset: Any, rank: Any, values: Sequence[Any], barrier: Any
    ) -> None:
        size, at = element.bytes * len(values), offset.array.astype(np.int64)
        self.memory.check_aligned(at, size, self.active)
        if size not in _TOGETHER:
            raise AssertionError(f"{size} bytes go to another block together")
        kind = self.dtype(element)
        sent = np.stack([np.asarray(value.array).astype(kind) for value in values], axis=1)
        for peer in np.unique(rank.array[self.active]).tolist():
            held = self.active & (rank.array == peer)
            self._send(peer, bytes_of(at[held], size), sent[held], self._agreed(barrier))

    def _send(self, rank: int, at: Array, values: Array, barrier: int) -> None:
        """Begin to copy `values` to bytes of another block, whose barrier counts them."""
        memory = self._peer(rank)
        base = rank * memory.shared_bytes
        found = self.yard.barrier(base + barrier)
        self._check_begun(found)
        self.crewman.view.begin_sending_at(base + at)
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self._fly(memory, at, found, lambda _: raw)

    def _peer(self, rank: int) -> Any:
        peers = self.peers or (self.memory,)
        if not 0 <= rank < len(peers):
            raise AssertionError(f"there is no block {rank} in a cluster of {len(peers)}")
        if self.yard.meeting is not None and rank in self.yard.meeting.ended:
            raise RaceError(f"race: block {rank} of the cluster is accessed, which is at its end")
        return peers[rank]

    def arrive_remote(self, offset: Any, rank: Any, when: Any) -> None:
        held = self.active if when is None else self.active & when.array
        for thread in np.flatnonzero(held).tolist():
            base = int(rank.array[thread]) * self._peer(int(rank.array[thread])).shared_bytes
            found = self.yard.barrier(base + int(offset.array[thread]))
            self._check_begun(found)
            self.crewman.view.publish(found.arriving_clocks)
            found.arrive(1)

    def arrive_everywhere(self, offset: Any, when: Any) -> None:
        self.warp_barrier()
        if when is not None and not self._agreed(when):
            return
        at, warps = self._agreed(offset), self.threads // 32
        for rank in range(self.cluster):
            found = self.yard.barrier(rank * self._peer(rank).shared_bytes + at)
            self._check_begun(found)
            found.epochs[self.crewman.view.agent] = self.memory.clock.epoch
            if rank == self.rank:
                self.crewman.view.publish(found.arriving_clocks)
            else:
                self.crewman.view.give(found.release_clocks)
            found.arrive(warps)

    def tma_multicast(
        self, map: Any, offset: Any, barrier: Any, indices: Sequence[Any], chosen: Any
    ) -> None:
        if not self._doing(chosen):
            return
        at, counted = self._box(map, self._agreed(offset)), self._agreed(barrier)
        start = [self._agreed(i) for i in indices]
        for rank in range(self.cluster):
            memory = self._peer(rank)
            base = rank * memory.shared_bytes
            found = self.yard.barrier(base + counted)
            self._check_begun(found)
            self.crewman.view.begin_copy_at(base + at)
            self._fly(memory, at, found, self._arriving(map, start, rank))

    def _arriving(self, map: Any, start: Sequence[int], rank: int) -> Callable[[MBarrier], Array]:
        """What a copy brings to block `rank`, which must not be at its end by then."""
        fetched = self._fetched(map, start)

        def read(found: MBarrier) -> Array:
            self._peer(rank)
            return fetched(found)

        return read

    def _check_begun(self, found: MBarrier) -> None:
        """Raise RaceError where the arrival need not come after the barrier's beginning."""
        view: AgentClock = self.crewman.view
        agent, clock = found.maker
        if agent != view.agent and view.known.get(agent, 0) < clock:
            raise RaceError(
                f"race: {view.name} arrives at a barrier that {view.order.names[agent]} begins, "
                "and nothing orders the two"
            )

    def cluster_mbarrier_wait(self, offset: Any, parity: Any) -> None:
        self.mbarrier_wait(offset, parity)  # type: ignore[attr-defined]

    def end_block(self) -> None:
        """The block is at its end: nobody may access its memory from now on, and who has must be
        known to come before. Raises AssertionError."""
        meeting = self.meeting
        if meeting is None:
            return
        if self._arrived is not None:
            raise AssertionError("a block ends before it has waited for the others")
        self.crewman.view.check_leave()
        for barrier in self.yard.barriers_of(self.crewman.view):
            self._check_awaited(barrier)
        meeting.ended.add(self.rank)
        meeting.settle()

    def _check_awaited(self, barrier: MBarrier) -> None:
        view: AgentClock = self.crewman.view
        for agent, clock in (*barrier.arriving_clocks.items(), *barrier.release_clocks.items()):
            if view.order.homes[agent] != self.rank and view.known.get(agent, 0) < clock:
                raise RaceError(
                    f"race: block {self.rank} ends, and {view.order.names[agent]} arrives at a "
                    "barrier of it, and nothing orders the two"
                )
