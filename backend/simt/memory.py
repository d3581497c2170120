"""Memory of the SIMT simulator: arrays at synthetic addresses, and the block's shared bytes.

Each byte records its writers and readers since the last barrier (`shadow.py`), so that a missing
barrier is an error although threads advance in lockstep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from time import monotonic
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.array_spans import ArraySpan
from tileir.backend.codegen.thread_operands import AtomicOrder
from tileir.backend.simt.async_global_accesses import AsyncGlobalAccesses, GlobalView
from tileir.backend.simt.faults import MisalignedError, OutsideError
from tileir.backend.simt.happens_before import AgentClock
from tileir.backend.simt.instances import Agent
from tileir.backend.simt.shadow import EpochClock, RaceError, ShadowMemory
from tileir.errors import Diagnostic, LaunchError
from tileir.op import Op

Array: TypeAlias = np.ndarray[Any, Any]

_GAP = 1 << 20


@attrs.define(eq=False)
class SimtMemory:
    """Buffers of one launch and the shared memory of the block that runs."""

    shared_bytes: int
    buffers: list[tuple[int, ArraySpan]] = attrs.field(init=False, factory=list)
    spans: list[ArraySpan] = attrs.field(init=False, factory=list)
    """The arrays, several in a buffer where they share memory."""
    shared: Array = attrs.field(init=False)
    touched: ShadowMemory = attrs.field(init=False)
    shadows: list[ShadowMemory] = attrs.field(init=False, factory=list)
    """The shadow memory of the buffers, in order."""
    names: list[str] = attrs.field(init=False, factory=list)
    """Likewise."""
    clock: EpochClock = attrs.field(init=False, factory=EpochClock)
    fenced: bool = attrs.field(init=False, default=False)
    """Whether threads have passed a fence since the last barrier."""
    run: int = attrs.field(init=False, default=0)
    """The op that runs, by the number of ops that ran before."""
    waiting: Array = attrs.field(init=False, factory=lambda: np.zeros(1024, bool))
    """Threads whose accesses of global memory, by earlier ops, no barrier ordered yet."""
    present: Array = attrs.field(init=False, factory=lambda: np.zeros(1024, bool))
    """Threads that access global memory by the op that runs."""
    written: Array = attrs.field(init=False)
    coming: Array | None = attrs.field(init=False, default=None)
    """Shared bytes that a copy is on its way to; None while there was no copy."""
    globals: dict[str, int] = attrs.field(init=False, factory=dict)
    printed: list[str] = attrs.field(init=False, factory=list)
    order: AgentClock | None = attrs.field(init=False, default=None)
    """The order of accesses to shared memory with respect to other roles."""
    seen: GlobalView | None = attrs.field(init=False, default=None)
    """The order of accesses to global memory with respect to other roles and copies in flight."""
    agent: Agent | None = attrs.field(init=False, default=None)
    """The order of accesses with respect to other instances."""
    op: Op | None = attrs.field(init=False, default=None)
    """The op that runs."""
    acquiring: Array = attrs.field(init=False, factory=lambda: np.zeros(1024, bool))
    """Threads that acquired by the op that runs."""
    acquired: Array = attrs.field(init=False, factory=lambda: np.zeros(1024, bool))
    """Threads with an acquire since the last barrier."""
    noted: bool = attrs.field(init=False, default=False)
    """Whether a thread is in `present` or `acquiring`."""

    time_limit: float | None = attrs.field(init=False, default=None)
    deadline: float = attrs.field(init=False, default=float("inf"))

    def __attrs_post_init__(self) -> None:
        self.clear_shared()

    def set_time_limit(self, seconds: float | None) -> None:
        """Start no op after this many seconds; None is no limit."""
        if seconds is not None:
            self.time_limit, self.deadline = seconds, monotonic() + seconds

    def check_time(self, op: Op) -> None:
        """Raise LaunchError (TIR0725), at the location of `op`, once the time limit has passed."""
        if self.time_limit is not None and monotonic() >= self.deadline:
            message = f"the launch has taken longer than its time limit, {self.time_limit:g} s"
            raise LaunchError(Diagnostic("TIR0725", message, op.location))

    def place(self, array: Array) -> int:
        """An address for `array`, aligned to 256 bytes."""
        return self.map_span(ArraySpan.of(array))

    def map_span(self, span: ArraySpan, name: str = "") -> int:
        """An address for the array of `span`, which may have a name, in one buffer with those that
        share its memory."""
        self.spans.append(span)
        for base, placed in self.buffers:
            if placed.data is span.data:
                return base + span.offset
        last = self.buffers[-1] if self.buffers else None
        base = _GAP if last is None else last[0] + -(-len(last[1].data) // _GAP) * _GAP + _GAP
        self.buffers.append((base, span))
        where = f"argument {len(self.shadows)}"
        self.shadows.append(ShadowMemory(len(span.data), where, self.clock))
        self.names.append(f"%{name}" if name else where)
        return base + span.offset

    def write_back(self) -> None:
        """Copy every buffer back into its array."""
        ArraySpan.write_back(self.spans)

    def check_aligned(self, address: Array, size: int, active: Array) -> None:
        """Raise MisalignedError unless the size is 1, 2, 4, 8 or 16 bytes and every active address
        is a multiple of it (PTX ISA, "Addresses as Operands")."""
        if size not in (1, 2, 4, 8, 16):
            raise MisalignedError(f"no instruction accesses {size} bytes")
        if np.count_nonzero(address[active] % size):
            raise MisalignedError(f"an access of {size} bytes that is not aligned")

    def load(
        self, address: Array, dtype: Any, active: Array, *, atomic: bool = False,
        volatile: bool = False, scope: str = "gpu", to_change: bool = False,
    ) -> Array:  # fmt: skip
        """The contents at `address` where `active`, zero elsewhere; with `to_change`, for an atomic
        op that changes them."""
        values = np.zeros(len(address), dtype)
        for number, index, where in self.places(address, values.itemsize, active):
            at = (index[:, None] + np.arange(values.itemsize)).reshape(-1)
            threads = np.repeat(np.flatnonzero(where), values.itemsize)
            self._touch(number, at, threads, atomic, to_change=to_change)
            shared = (atomic or volatile) and scope != "cta"
            self._tell(number, index, values.itemsize, False, shared)
            raw = self.buffers[number][1].data[at].reshape(-1, values.itemsize)
            values[where] = np.ascontiguousarray(raw).view(dtype)[:, 0]
        return values

    def store(
        self, address: Array, values: Array, active: Array, *, atomic: bool = False,
        volatile: bool = False, scope: str = "gpu",
    ) -> None:  # fmt: skip
        """Write `values` to `address` where `active`."""
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        size = raw.shape[1]
        for number, index, where in self.places(address, size, active):
            at = (index[:, None] + np.arange(size)).reshape(-1)
            data, new_bytes = self.buffers[number][1].data, raw[where].reshape(-1)
            threads = np.repeat(np.flatnonzero(where), size)
            same = data[at] == new_bytes
            self._touch(number, at, threads, atomic, same)
            self._tell(number, index, size, True, (atomic or volatile) and scope != "cta")
            if self.agent is not None and not same.all():
                self.agent.launch.version += 1
            data[at] = new_bytes
            if not atomic:
                self.shadows[number].check_stored(at, threads, data[at], new_bytes)

    def _tell(self, number: int, index: Array, size: int, write: bool, atomic: bool) -> None:
        """Let other instances know of an access; one of the scope of a block is not atomic for
        them."""
        if self.agent is not None and self.op is not None:
            self.agent.touch(number, index, size, self.op, write=write, atomic=atomic)

    def tell_copy(
        self, parts: Sequence[tuple[int, Array]], size: int, *, write: bool, add: bool = False
    ) -> None:
        """Let other instances know of a TMA copy from or to elements of `size` bytes: `parts` are
        all their bytes, by the number of a buffer. One that adds is atomic."""
        for number, at in parts:
            self._tell(number, at[::size], size, write, add)

    def synchronise_instances(self, order: AtomicOrder, read: Array, written: Array) -> None:
        """Atomic accesses by the op that runs have read and written at these addresses."""
        if self.agent is not None and len(read) + len(written):
            self.agent.order(order, read.tolist(), written.tolist())

    def fence_instances(self, order: AtomicOrder) -> None:
        """The instance has passed a fence."""
        if self.agent is not None:
            self.agent.fence(order)

    def acquire(self, semantics: str, active: Array) -> None:
        """Record the acquire of the `active` threads. The others see it after a barrier."""
        if semantics in ("acquire", "acq_rel"):
            self.acquiring[: len(active)] |= active
            self.noted = True

    def _touch(
        self, number: int, at: Array, threads: Array, atomic: bool, same: Array | None = None,
        *, to_change: bool = False,
    ) -> None:  # fmt: skip
        """Record a read, which is `to_change` the bytes or not, or a write, of which `same` tells
        whether it leaves the bytes unchanged."""
        shadow = self.shadows[number]
        if self.fenced:
            raise RaceError(f"race: thread {threads[0]} goes on before all have passed the fence")
        self._check_acquired(threads)
        if atomic and (to_change or same is not None):
            shadow.change(at, threads, self.run)
        elif atomic:
            shadow.read_atomically(at, threads, self.run)
        elif same is not None:
            shadow.write(at, threads, self.run, same)
        else:
            shadow.read(at, threads)
        if self.seen is not None:
            touch = (
                self.seen.change if atomic else self.seen.read if same is None else self.seen.write
            )
            touch(number, at)
        self.present[threads] = self.noted = True

    def _check_acquired(self, threads: Array) -> None:
        """Raise RaceError where a thread proceeds without a barrier after another thread's
        acquire."""
        if not np.count_nonzero(self.acquired):
            return
        first = int(np.argmax(self.acquired))
        conflicting = threads != first if self.acquired.sum() == 1 else np.ones(len(threads), bool)
        if conflicting.any():
            raise RaceError(
                f"race: thread {threads[np.argmax(conflicting)]} goes on before thread {first}, "
                "which acquired, has synchronized with it"
            )

    def begin(self, run: int, op: Op | None = None) -> None:
        """Op number `run` begins."""
        self.run, self.op = run, op
        if self.noted:
            self.acquired |= self.acquiring
            self.waiting |= self.present
            self.acquiring[:], self.present[:], self.noted = False, False, False

    def check_released(self, semantics: str, active: Array) -> None:
        """An atomic that releases, by the threads `active`, must come after what others did."""
        waiting_threads = self.waiting[: len(active)] & (
            np.arange(len(active)) != np.argmax(active)
        )
        if active.any() and semantics in ("release", "acq_rel") and waiting_threads.any():
            raise RaceError(
                f"race: thread {np.argmax(active)} releases before thread "
                f"{np.argmax(waiting_threads)} has synchronized with it"
            )

    def order_others(self, semantics: str) -> None:
        """Threads make an atomic access of these semantics, which orders memory or not."""
        if self.seen is not None and semantics != "relaxed":
            self.seen.order_with_others()

    def fence(self) -> None:
        """All threads pass a fence; it must come after what each did, and before what any does
        next."""
        if self.waiting.any():
            raise RaceError(
                f"race: a fence before thread {np.argmax(self.waiting)} has synchronized with the "
                "others"
            )
        self.fenced = True

    def places(
        self, address: Array, size: int, active: Array
    ) -> Iterator[tuple[int, Array, Array]]:
        """Number of a buffer, bytes in it, and the threads that access these."""
        unplaced = active.copy()
        for number, (base, span) in enumerate(self.buffers):
            index = address - base
            where = unplaced & (index >= 0) & (index <= len(span.data) - size)
            if np.count_nonzero(where):
                yield number, index[where], where
                unplaced &= ~where
            if not np.count_nonzero(unplaced):
                return
        if np.count_nonzero(unplaced):
            raise OutsideError(
                f"thread {np.argmax(unplaced)} accesses {size} bytes outside every buffer"
            )

    # Shared memory ----------------------------------------------------------------------------

    def clear_shared(self) -> None:
        """The shared memory of a new block."""
        self.shared = np.full(self.shared_bytes, 0xCD, np.uint8)
        self.written = np.zeros(self.shared_bytes, bool)
        self.coming = None
        self.touched = ShadowMemory(self.shared_bytes, "shared memory", self.clock)
        self.synchronize()

    def synchronize(self) -> None:
        """Record a barrier: it clears all earlier accesses."""
        self.clock.synchronize()
        self.waiting[:], self.present[:], self.fenced = False, False, False
        self.acquiring[:], self.acquired[:] = False, False

    def synchronized_since(self, epoch: int) -> None:
        """Record the barrier of threads that arrived in `epoch`: it clears earlier accesses."""
        self.clock.epoch += 1
        self.clock.block = max(self.clock.block, epoch)
        self.waiting[:], self.present[:], self.fenced = False, False, False
        self.acquiring[:], self.acquired[:] = False, False

    def synchronize_warps(self) -> None:
        """A barrier of every warp."""
        self.clock.synchronize_warps()

    def synchronize_groups(self) -> None:
        """A barrier of every warpgroup."""
        self.clock.synchronize_groups()

    def peek(self, offset: Array, dtype: Any, active: Array) -> Array:
        """The contents at `offset` where `active`, as another block reads them."""
        at, _ = self._shared_bytes(offset, np.dtype(dtype).itemsize, active)
        self.check_written(at, "another block reads")
        raw = np.ascontiguousarray(self.shared[at].reshape(-1, np.dtype(dtype).itemsize))
        return raw.view(dtype)[:, 0]

    def poke(self, offset: Array, values: Array, active: Array) -> Array:
        """Write `values` to `offset` where `active`, as another block does; the bytes."""
        at, threads = self._shared_bytes(offset, values.dtype.itemsize, active)
        new_bytes = np.ascontiguousarray(values[active]).view(np.uint8).reshape(-1)
        self.shared[at] = new_bytes
        self.touched.check_stored(at, threads, self.shared[at], new_bytes)
        self.written[at] = True
        return at

    def load_shared(self, offset: Array, dtype: Any, active: Array) -> Array:
        """The contents at `offset`. Reading bytes that another thread wrote since the last barrier,
        or that were never written, is an error."""
        values = np.zeros(len(offset), dtype)
        at, threads = self._shared_bytes(offset, values.itemsize, active)
        if not self.written[at].all():
            first = int(np.argmin(self.written[at]))
            raise AssertionError(
                f"thread {threads[first]} reads byte {at[first]} of shared memory, which no thread "
                "wrote"
            )
        self.touched.read(at, threads)
        if self.order is not None:
            self.order.read(at)
        raw = np.ascontiguousarray(self.shared[at].reshape(-1, values.itemsize))
        values[active] = raw.view(dtype)[:, 0] if len(at) else values[active]
        return values

    def store_shared(self, offset: Array, values: Array, active: Array) -> None:
        """Write `values` to `offset`; over what another thread read or wrote since the last
        barrier, or writes as well, is an error."""
        at, threads = self._shared_bytes(offset, values.dtype.itemsize, active)
        if not len(at):
            return
        self.touched.write(at, threads)
        if self.order is not None:
            self.order.write(at)
        raw = np.ascontiguousarray(values[active]).view(np.uint8).reshape(-1)
        self.shared[at] = raw
        self.touched.check_stored(at, threads, self.shared[at], raw)
        self.written[at] = True

    def add_shared(self, offset: Array, values: Array, active: Array) -> None:
        """Atomic additions to 32-bit words."""
        words = self.shared.view(np.int32) if self.shared_bytes % 4 == 0 else None
        assert words is not None
        at, threads = self._shared_bytes(offset, 4, active)
        self.touched.add(at, threads)
        if self.order is not None:
            self.order.write(at)
        np.add.at(words, offset[active] // 4, values[active])

    def _shared_bytes(self, offset: Array, size: int, active: Array) -> tuple[Array, Array]:
        """Every byte accessed, and by which thread. Raises where one is outside."""
        threads, where = np.flatnonzero(active), offset[active]
        outside = (where < 0) | (where + size > self.shared_bytes)
        if np.count_nonzero(outside):
            first = int(np.argmax(outside))
            raise AssertionError(
                f"thread {threads[first]} accesses bytes {where[first]} to "
                f"{where[first] + size - 1} of shared memory, which has {self.shared_bytes}"
            )
        at = (where[:, None] + np.arange(size)).reshape(-1)
        if self.coming is not None and np.count_nonzero(self.coming[at]):
            raise RaceError(
                f"race: thread {threads[np.argmax(self.coming[at]) // size]} accesses byte "
                f"{at[np.argmax(self.coming[at])]} of shared memory, which a copy is on its way to"
            )
        return at, np.repeat(threads, size)

    # For asynchronous units -------------------------------------------------------------------

    def of_role(self, order: AgentClock) -> SimtMemory:
        """The same memory as a role sees it, with barriers of its own."""
        view_memory = self._separate_copy()
        assert self.seen is not None
        view_memory.see(order, self.seen.traffic)
        view_memory.touched = ShadowMemory(self.shared_bytes, "shared memory", view_memory.clock)
        return view_memory

    def see(self, order: AgentClock, traffic: AsyncGlobalAccesses) -> None:
        """Let accesses be those of the role of `order`."""
        self.order, self.seen = order, GlobalView.of(traffic, order, self.shadows)

    def of_block(self) -> SimtMemory:
        """The same buffers as another block sees them, with shared memory of its own."""
        block_memory = self._separate_copy()
        block_memory.clear_shared()
        return block_memory

    def _separate_copy(self) -> SimtMemory:
        """The same memory for other threads."""
        separate = copy(self)
        separate.clock = EpochClock()
        separate.shadows = [ShadowMemory(s.size, s.where, separate.clock) for s in self.shadows]
        separate.waiting, separate.present = np.zeros(1024, bool), np.zeros(1024, bool)
        separate.acquiring, separate.acquired = np.zeros(1024, bool), np.zeros(1024, bool)
        return separate

    def parts(
        self, address: Array, size: int, active: Array
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Bytes of a buffer, which of them, and which of `address` they are of."""
        for number, index, where in self.places(address, size, active):
            yield self.buffers[number][1].data, index, np.flatnonzero(where)

    def check_still(self, at: Array) -> None:
        """Raise RaceError where a copy is on its way to the shared bytes `at`."""
        if self.coming is not None and self.coming[at].any():
            byte = int(at[np.argmax(self.coming[at])])
            raise RaceError(f"race: byte {byte} of shared memory is used, which a copy is on its "
                            "way to")  # fmt: skip

    def check_written(self, at: Array, what: str) -> None:
        """Raise AssertionError where the shared bytes `at` were never written."""
        if not self.written[at].all():
            byte = int(at[np.argmin(self.written[at])])
            raise AssertionError(f"{what} byte {byte} of shared memory, which no thread wrote")

    def expect(self, at: Array, coming: bool) -> None:
        """A copy is on its way to the shared bytes `at`, or has arrived there."""
        if self.coming is None:
            self.coming = np.zeros(self.shared_bytes, bool)
        self.coming[at] = coming
