"""The asynchronous units of sm_90 in the SIMT simulator.

`wgmma` reads shared memory and computes its accumulators at some point before its wait; copies
complete at some point before their wait. An access to the bytes in between is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from tileir.backend.codegen.async_interface import TensorMapHandle, WgmmaStep
from tileir.backend.layouts.wgmma import WgmmaInstruction
from tileir.backend.simt.happens_before import bytes_of, join
from tileir.backend.simt.scheduler import (
    InFlightStore,
    MBarrier,
    Scheduler,
    WaitingError,
    WgmmaGroup,
)
from tileir.backend.simt.tensor_maps import GlobalTensor
from tileir.backend.simt.wgmma import PendingAccumulator, PendingWgmma
from tileir.backend.simt.wgmma_operands import swizzle_address
from tileir.types import I32, Element

Array: TypeAlias = np.ndarray[Any, Any]


class SimtAsyncUnits:
    """The methods of `AsyncUnits`; mixed into the SIMT simulator."""

    threads: int
    active: Array
    memory: Any
    as_handle: Any
    dtype: Any
    scheduler: Scheduler
    op: Any
    role_state: Any = None
    """The state of the role, for kernels with asynchronous units."""

    # Which threads --------------------------------------------------------------------------

    def slice_threads(self, handle: Any, first: int, count: int) -> Any:
        """The values of `count` threads from thread `first` on."""
        if not hasattr(handle, "array"):
            return handle
        return self.handle(handle.array[first : first + count])  # type: ignore[attr-defined]

    def group(self) -> Any:
        return self.as_handle(np.arange(self.threads) // 128, I32)

    def named_barrier_sync(self) -> None:
        """Nothing to do: the simulator executes all warpgroups together."""
        if not self.active.all():
            raise AssertionError("a ping-pong barrier that not every thread reaches")

    def named_barrier_arrive(self, *, begin: bool) -> None:
        self.named_barrier_sync()

    def where_any(
        self,
        condition: Any,
        element: Element,
        values: Sequence[Any],
        body: Callable[[], Sequence[Any]],
    ) -> list[Any]:
        active = condition.array & self.active
        warps = active.reshape(-1, 32).any(axis=1).repeat(32)
        return [
            self.as_handle(np.where(warps, new.array, old.array), element)
            for new, old in zip(body(), values, strict=True)
        ]

    def _is_elected(self, chosen: Any) -> bool:
        """Whether the elected thread is among the active ones. Raises AssertionError if more than
        one thread is."""
        active = self.active if chosen is None else self.active & chosen.array
        count = int(np.count_nonzero(active))
        if count > 1:
            raise AssertionError(f"{count} threads execute an op of one thread")
        return count == 1

    def _leaders(self, chosen: Any) -> list[int]:
        """The elected threads that are active, at most one per warpgroup. Raises AssertionError for
        more."""
        active = self.active if chosen is None else self.active & chosen.array
        leaders = [int(thread) for thread in np.flatnonzero(active)]
        if len({thread // 128 for thread in leaders}) < len(leaders):
            raise AssertionError(
                f"{len(leaders)} threads execute an op of one thread per warpgroup"
            )
        return leaders

    def _value_in(self, handle: Any, thread: int) -> int:
        """The value of `handle` in one thread, as an int."""
        return int(handle.array[thread])

    def _uniform(self, handle: Any) -> int:
        """The value of `handle`, as an int; 0 without active threads. Raises AssertionError unless
        it is the same in all active threads."""
        values = handle.array[self.active]
        if len(values) and (values != values[0]).any():
            raise AssertionError("a value that must be uniform differs between threads")
        return int(values[0]) if len(values) else 0

    # Tensor maps ----------------------------------------------------------------------------

    def tensor_map(
        self,
        map: TensorMapHandle,
        base: Any,
        extents: Sequence[Any],
        strides: Sequence[Any],
        chosen: Any,
    ) -> GlobalTensor:
        sizes, steps = ([self._uniform(x) for x in many] for many in (extents, strides))
        return GlobalTensor.of(map, self._uniform(base), sizes, steps)

    # Barriers -------------------------------------------------------------------------------

    def mbarrier_init(self, offset: Any, count: int, arrivals: int, chosen: Any) -> None:
        if not self._is_elected(chosen):
            return
        first, view = self._uniform(offset), self.role_state.view
        for at in range(first, first + 8 * count, 8):
            self.memory.check_aligned(np.array([at]), 8, np.array([True]))
            self.scheduler.begin(view.base + at, arrivals, view)
            self.memory.expect(bytes_of([at], 8), True)

    def mbarrier_ready(self) -> None:
        pass

    def mbarrier_expect(self, offset: Any, size: int, chosen: Any) -> None:
        if self._is_elected(chosen):
            barrier = self._barrier(offset)
            barrier.expect(size)
            self._arrive(barrier, 1)

    def mbarrier_arrive(self, offset: Any, when: Any) -> None:
        self.warp_barrier()  # type: ignore[attr-defined]
        if when is None or self._uniform(when):
            barrier = self._barrier(offset)
            barrier.epochs[self.role_state.view.agent] = self.memory.clock.epoch
            self._arrive(barrier, self.threads // 32)

    def _barrier(self, offset: Any) -> Any:
        return self.scheduler.barrier(self.role_state.view.base + self._uniform(offset))

    def _arrive(self, barrier: Any, count: int) -> None:
        self.role_state.view.publish(barrier.arriving_clocks)
        barrier.arrive(count)

    def mbarrier_wait(self, offset: Any, parity: Any) -> None:
        barrier, phase_parity = self._barrier(offset), self._uniform(parity) % 2
        if barrier.phase % 2 == phase_parity:
            raise WaitingError(lambda: barrier.phase % 2 != phase_parity, barrier.why)
        view, clock = self.role_state.view, self.memory.clock
        view.join(barrier.phase_clocks)
        join(view.copy_clocks, barrier.released_clocks)
        clock.block = max(clock.block, barrier.epochs.get(view.agent, 0))

    # Copies ---------------------------------------------------------------------------------

    def tma_load(
        self, map: GlobalTensor, offset: Any, barrier: Any, indices: Sequence[Any], chosen: Any
    ) -> None:
        if not self._is_elected(chosen):
            return
        at, view = self._box(map, self._uniform(offset)), self.role_state.view
        start = [self._uniform(i) for i in indices]
        view.begin_copy(at)
        self.memory.touched.check_write(at, 0)
        self._start_copy(self.memory, at, self._barrier(barrier), self._begin_fetch(map, start))

    def _begin_fetch(self, map: GlobalTensor, start: Sequence[int]) -> Callable[[MBarrier], Array]:
        """Start reading global memory for a copy. Returns a function that, with the barrier that
        counts the copy, ends the read and returns the bytes."""
        (thread,) = np.flatnonzero(self.active)[:1].tolist()
        seen, source = self.memory.seen, map.bytes_at(self.memory, start)
        self.memory.tell_copy(source, map.size, write=False)
        at = seen.begin_reading(source, thread)

        def read(barrier: MBarrier) -> Array:
            seen.end_reading(at, barrier.agent, barrier.phase + 1)
            return map.read(self.memory, start)

        return read

    def _start_copy(
        self, memory: Any, at: Array, barrier: MBarrier, read: Callable[[MBarrier], Array]
    ) -> None:
        """Start a copy into the bytes `at` of the shared memory of a block: they become unreadable
        until the copy lands, and `barrier` counts them then."""
        memory.check_still(at)
        memory.expect(at, True)
        memory.shared[at] = 0xCD
        memory.written[at] = False

        def land() -> None:
            memory.expect(at, False)
            memory.shared[at] = read(barrier)
            memory.written[at] = True
            self.role_state.view.order.wrote(
                barrier.agent, barrier.phase + 1, memory.order.base + at, threads=False
            )
            barrier.bytes -= len(at)
            barrier.settle()

        self.scheduler.schedule_copy(land)

    def tma_store(
        self, map: GlobalTensor, offset: Any, indices: Sequence[Any], chosen: Any, *, add: bool
    ) -> None:
        for thread in self._leaders(chosen):
            at = self._box(map, self._value_in(offset, thread))
            start = [self._value_in(i, thread) for i in indices]
            self._to_read(at, "a copy reads", np.array([thread]))
            into, seen = map.bytes_at(self.memory, start), self.memory.seen
            self.memory.tell_copy(into, map.size, write=True, add=add)
            landing = seen.begin_copy(into, thread, self._description(), add=add)
            flight = self.scheduler.schedule_copy(self._writing(map, start, at, add))
            self.role_state.opened.setdefault(thread, []).append(InFlightStore(flight, at, landing))

    def _writing(
        self, map: GlobalTensor, start: list[int], at: Array, add: bool
    ) -> Callable[[], None]:
        write = map.add if add else map.write
        return lambda: write(self.memory, start, self.memory.shared[at])

    def _to_read(self, at: Array, what: str, threads: Array) -> None:
        """Check and record that an asynchronous unit begins to read the bytes `at` for `threads`.
        Raises AssertionError."""
        if len(at) and at.max() >= self.memory.shared_bytes:
            raise AssertionError(f"{what} byte {at.max()} of {self.memory.shared_bytes}")
        self.memory.check_still(at)
        self.memory.check_written(at, what)
        self.role_state.view.begin_reading(at, what)
        for thread in threads.tolist():
            self.memory.touched.read(at, np.full(len(at), thread))

    def tma_commit(self, chosen: Any) -> None:
        for thread in self._leaders(chosen):
            self.role_state.commit(thread)

    def tma_wait(self, pending: int, chosen: Any, *, complete: bool) -> None:
        for thread in self._leaders(chosen):
            for copy in _oldest(self.role_state.reading.get(thread, []), pending):
                copy.flight.finish()
                self.role_state.view.end_reading(copy.at)
                self.memory.touched.read(copy.at, np.full(len(copy.at), thread))
            if complete:
                for copy in _oldest(self.role_state.writing.get(thread, []), pending):
                    self.memory.seen.end_copy(copy.landing, thread)

    def _description(self) -> str:
        """The text of the op that executes, with its location, for messages."""
        place = "" if self.op.location is None else f" at {self.op.location}"
        return f"{self.op.mnemonic}{place}"

    def async_fence(self) -> None:
        self.role_state.view.fence()

    def _box(self, map: GlobalTensor, offset: int) -> Array:
        """The addresses in shared memory of the bytes of a box, in its order. Raises AssertionError
        if the box is misaligned for its swizzle or leaves shared memory."""
        unit = 128 << map.map.swizzle
        if offset % unit:
            raise AssertionError(f"a box begins at byte {offset}, no multiple of {unit}")
        at = swizzle_address(offset + np.arange(map.bytes), map.map.swizzle)
        if at.max() >= self.memory.shared_bytes:
            raise AssertionError("a box leaves shared memory")
        return at

    # wgmma ----------------------------------------------------------------------------------

    def shared_address(self, offset: Any) -> Any:
        return offset

    def wgmma(
        self, kind: WgmmaInstruction, steps: Sequence[WgmmaStep], a: Any, b: Any, c: Any
    ) -> list[Any]:
        if not self.active.all() or self.threads % 128:
            raise AssertionError("wgmma that not all threads of a warpgroup execute")
        work = PendingWgmma(self, kind, steps, a, b, c)
        at = work.places()
        ends = np.array([g * 128 + n for g in range(self.threads // 128) for n in (0, 127)])
        self._to_read(at, "wgmma reads", ends)
        group = WgmmaGroup(work.finish, at, bool(work.registers))
        self.role_state.wgmma_groups.append(group)
        count = kind.accumulator_count * sum(p.first for p in steps)
        return [PendingAccumulator(group, i) for i in range(count)]

    def wgmma_wait(self, element: Element, values: Sequence[Any], pending: int) -> list[Any]:
        groups = self.role_state.wgmma_groups
        while len(groups) > pending:
            group = groups.pop(0)
            group.accumulators = group.finish()
            self.role_state.view.end_reading(group.at)
            self.memory.touched.read(group.at, np.zeros(len(group.at), np.int64))
            self.memory.touched.read(group.at, np.full(len(group.at), self.threads - 1))
        return [self._resolve(v, element) for v in values]

    def order(self, value: Any) -> None:
        """Check that `value` is complete, not an accumulator in flight."""
        assert value.array is not None

    def _resolve(self, value: Any, element: Element) -> Any:
        if not isinstance(value, PendingAccumulator) or value.group.accumulators is None:
            return value
        return self.as_handle(value.group.accumulators[value.index], element)


def _oldest(groups: list[list[InFlightStore]], pending: int) -> Iterator[InFlightStore]:
    """Remove all groups but the newest `pending`, and yield their copies."""
    while len(groups) > pending:
        yield from groups.pop(0)
