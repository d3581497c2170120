"""Clusters in the SIMT simulator: concurrent blocks, cluster barriers, and distributed shared
memory."""

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
    """The cluster barrier of `ranks` blocks, in phase number `phase`: `arrived_ranks` have arrived
    in it, the blocks `ended` have exited. `coming` are the clocks of the arrivals until now, `past`
    those of completed phases."""

    ranks: int
    phase: int = 0
    arrived_ranks: set[int] = attrs.field(factory=set)
    ended: set[int] = attrs.field(factory=set)
    coming: dict[int, int] = attrs.field(factory=dict)
    past: dict[int, int] = attrs.field(factory=dict)

    def settle(self) -> None:
        """Begin the next phase once all blocks that have not exited have arrived."""
        if self.arrived_ranks and len(self.arrived_ranks | self.ended) == self.ranks:
            self.phase, self.arrived_ranks, self.past = self.phase + 1, set(), dict(self.coming)

    def why(self) -> str:
        """The reason for the wait."""
        missing = set(range(self.ranks)) - self.arrived_ranks - self.ended
        return f"blocks {sorted(missing)} of the cluster"


class SimtClusterOps:
    """The methods of `ClusterOps`; mixed into the SIMT simulator."""

    threads: int
    active: Array
    memory: Any
    as_handle: Any
    dtype: Any
    scheduler: Scheduler
    role_state: Any
    rank, cluster = 0, 1
    cluster_barrier: ClusterBarrier | None = None
    """The cluster barrier of the kernel's own threads."""
    peers: Sequence[Any] = ()
    """The memory of every block of the cluster, by rank."""
    roles: list[Any]
    warp_barrier: Callable[[], None]
    _uniform: Callable[[Any], int]
    _is_elected: Callable[[Any], bool]
    _box: Callable[[Any, int], Array]
    _start_copy: Callable[..., None]
    _begin_fetch: Callable[[Any, Sequence[int]], Callable[[MBarrier], Array]]
    _arrived: tuple[int, int] | None = None
    """The pending phase at which the block arrived, and the epoch since which its threads have not
    synchronized."""

    def cluster_rank(self) -> Any:
        return self.as_handle(self.rank, I32)

    def cluster_arrive(self, *, first: bool) -> None:
        barrier = self._cluster_barrier()
        if first and self.role_state.view.has_accessed():
            raise AssertionError("a first arrival, which orders no memory, after some was accessed")
        if self._arrived is not None:
            raise AssertionError("a block arrives twice without a wait")
        if not self.active.all():
            raise AssertionError("not every thread arrives")
        if any(not role.ended for role in self.roles):
            raise AssertionError("a block arrives while it has roles")
        self.memory.clock.synchronize_warps()
        self._arrived = barrier.phase, self.memory.clock.epoch
        self.role_state.view.publish(barrier.coming)
        barrier.arrived_ranks.add(self.rank)
        barrier.settle()

    def cluster_wait(self) -> None:
        barrier = self._cluster_barrier()
        if self._arrived is None:
            raise AssertionError("a block waits that has not arrived")
        phase, epoch = self._arrived
        if barrier.phase == phase:
            raise WaitingError(lambda: barrier.phase != phase, barrier.why)
        self.role_state.view.join(barrier.past)
        self.memory.synchronized_since(epoch)
        self._arrived = None

    def _cluster_barrier(self) -> ClusterBarrier:
        if self.cluster_barrier is None:
            raise AssertionError("only the kernel may use the cluster barrier")
        return self.cluster_barrier

    # Memory ---------------------------------------------------------------------------------

    def load_remote(self, element: Element, count: int, offset: Any, rank: Any) -> list[Any]:
        size, at = element.bytes, offset.array.astype(np.int64)
        self.memory.check_aligned(at, size * count, self.active)
        return [self._one_remote(element, at + i * size, rank.array) for i in range(count)]

    def _one_remote(self, element: Element, at: Array, ranks: Array) -> Any:
        values = np.zeros(self.threads, self.dtype(element))
        for rank in np.unique(ranks[self.active]).tolist():
            active, memory = self.active & (ranks == rank), self._peer(rank)
            view, base = self.role_state.view, rank * memory.shared_bytes
            raw = memory.peek(at, values.dtype, active)
            values[active] = raw != 0 if element is I1 else raw
            view.read_at(base + bytes_of(at[active], values.itemsize))
        return self.as_handle(values, element)

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
            active = self.active & (rank.array == peer)
            self._send(peer, bytes_of(at[active], size), sent[active], self._uniform(barrier))

    def _send(self, rank: int, at: Array, values: Array, barrier: int) -> None:
        """Begin to copy `values` to bytes of another block, whose barrier counts them."""
        memory = self._peer(rank)
        base = rank * memory.shared_bytes
        mbarrier = self.scheduler.barrier(base + barrier)
        self._check_begun(mbarrier)
        self.role_state.view.begin_sending_at(base + at)
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self._start_copy(memory, at, mbarrier, lambda _: raw)

    def _peer(self, rank: int) -> Any:
        peers = self.peers or (self.memory,)
        if not 0 <= rank < len(peers):
            raise AssertionError(f"there is no block {rank} in a cluster of {len(peers)}")
        if (
            self.scheduler.cluster_barrier is not None
            and rank in self.scheduler.cluster_barrier.ended
        ):
            raise RaceError(f"race: block {rank} of the cluster is accessed, which is at its end")
        return peers[rank]

    def arrive_remote(self, offset: Any, rank: Any, when: Any) -> None:
        active = self.active if when is None else self.active & when.array
        for thread in np.flatnonzero(active).tolist():
            base = int(rank.array[thread]) * self._peer(int(rank.array[thread])).shared_bytes
            mbarrier = self.scheduler.barrier(base + int(offset.array[thread]))
            self._check_begun(mbarrier)
            self.role_state.view.publish(mbarrier.arriving_clocks)
            mbarrier.arrive(1)

    def arrive_everywhere(self, offset: Any, when: Any) -> None:
        self.warp_barrier()
        if when is not None and not self._uniform(when):
            return
        at, warps = self._uniform(offset), self.threads // 32
        for rank in range(self.cluster):
            mbarrier = self.scheduler.barrier(rank * self._peer(rank).shared_bytes + at)
            self._check_begun(mbarrier)
            mbarrier.epochs[self.role_state.view.agent] = self.memory.clock.epoch
            if rank == self.rank:
                self.role_state.view.publish(mbarrier.arriving_clocks)
            else:
                self.role_state.view.give(mbarrier.release_clocks)
            mbarrier.arrive(warps)

    def tma_multicast(
        self, map: Any, offset: Any, barrier: Any, indices: Sequence[Any], chosen: Any
    ) -> None:
        if not self._is_elected(chosen):
            return
        at, counted = self._box(map, self._uniform(offset)), self._uniform(barrier)
        start = [self._uniform(i) for i in indices]
        for rank in range(self.cluster):
            memory = self._peer(rank)
            base = rank * memory.shared_bytes
            mbarrier = self.scheduler.barrier(base + counted)
            self._check_begun(mbarrier)
            self.role_state.view.begin_copy_at(base + at)
            self._start_copy(memory, at, mbarrier, self._arriving(map, start, rank))

    def _arriving(self, map: Any, start: Sequence[int], rank: int) -> Callable[[MBarrier], Array]:
        """Start reading global memory for a copy to block `rank`. Returns a function that returns
        the bytes when the copy lands; it raises AssertionError if the block has exited by then."""
        fetched = self._begin_fetch(map, start)

        def read(mbarrier: MBarrier) -> Array:
            self._peer(rank)
            return fetched(mbarrier)

        return read

    def _check_begun(self, mbarrier: MBarrier) -> None:
        """Raise RaceError unless the initialization of the mbarrier happens before this arrival."""
        view: AgentClock = self.role_state.view
        agent, clock = mbarrier.maker
        if agent != view.agent and view.clocks.get(agent, 0) < clock:
            raise RaceError(
                f"race: {view.name} arrives at a barrier that {view.order.names[agent]} begins, "
                "and nothing orders the two"
            )

    def cluster_mbarrier_wait(self, offset: Any, parity: Any) -> None:
        self.mbarrier_wait(offset, parity)  # type: ignore[attr-defined]

    def end_block(self) -> None:
        """End the block. Raises AssertionError if an access by another block to its shared memory
        is not ordered before."""
        rendezvous = self.cluster_barrier
        if rendezvous is None:
            return
        if self._arrived is not None:
            raise AssertionError("a block ends before it has waited for the others")
        self.role_state.view.check_leave()
        for barrier in self.scheduler.barriers_of(self.role_state.view):
            self._check_awaited(barrier)
        rendezvous.ended.add(self.rank)
        rendezvous.settle()

    def _check_awaited(self, barrier: MBarrier) -> None:
        view: AgentClock = self.role_state.view
        for agent, clock in (*barrier.arriving_clocks.items(), *barrier.release_clocks.items()):
            if view.order.block_of_agent[agent] != self.rank and view.clocks.get(agent, 0) < clock:
                raise RaceError(
                    f"race: block {self.rank} ends, and {view.order.names[agent]} arrives at a "
                    "barrier of it, and nothing orders the two"
                )
