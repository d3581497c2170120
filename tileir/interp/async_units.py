"""The asynchronous units of sm_90 in the interpreter: mbarriers, TMA copies, and roles of warps.

A role is a coroutine that runs concurrently with that of its program instance. A copy is a
coroutine too, which completes at a random point between its start and its wait. The seed of the
launch decides which coroutine is resumed next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import numpy as np

from tileir.errors import Diagnostic, InterpretError
from tileir.interp.execute import steps
from tileir.interp.failures import fail, program
from tileir.interp.program import CompiledFunction
from tileir.interp.races import Touch
from tileir.interp.schedule import NotReadyError, Pause, Steps
from tileir.interp.shared import SharedMixin
from tileir.machine import Tensor, dtype_of
from tileir.machine.descriptors import DescriptorValue
from tileir.types import shape_of

_READING = "copies still read its shared memory: gpu.tma_wait waits for them"

_FIRST = 1 << 61
"""Address of the first barrier."""


@attrs.define(eq=False)
class BarrierPhase:
    """A barrier in its phase number `phase`, which ends with the last arrival: `left` of
    `arrivals`, and `bytes` that copies are still to bring."""

    arrivals: int
    left: int
    bytes: int = 0
    phase: int = 0
    before: Any = None
    """The accesses of other ranks of the cluster before they arrived."""

    def settle(self) -> bool:
        """Begin the next phase if this one has ended; returns whether it had."""
        if self.left or self.bytes:
            return False
        self.left, self.phase = self.arrivals, self.phase + 1
        return True


@attrs.define(eq=False)
class ThreadGroup:
    """Threads that run one function: the program instance, or a role of it. `reading` are its
    copies from shared memory that have not been made yet, oldest first."""

    name: str
    warps: int | None
    reading: list[_AsyncCopy] = attrs.field(factory=list)


@attrs.define(eq=False)
class _AsyncCopy:
    """A copy in flight."""

    land: Any
    done: bool = False

    def finish(self) -> None:
        if not self.done:
            self.done = True
            self.land()


class HopperMixin(SharedMixin):
    """`mbarrier_*`, `tma_*`, `wgmma`, `start_role` and `join_roles`; mixed into a machine."""

    barriers: dict[int, list[BarrierPhase]]
    groups: dict[int, ThreadGroup]
    """The thread groups of instances that run without roles, by instance number."""
    roles: dict[int, int]
    """The number of running roles of an instance."""
    group: ThreadGroup | None
    """The role that runs; None for the instance itself."""
    spawned: list[tuple[int, Steps]]
    """Coroutines to be started, with the numbers of their instances."""
    block: Callable[..., Any]
    num_warps: int | None
    """The number of warps of a program instance, if the kernel states it."""

    def check(self, condition: Tensor, op: Any) -> None:
        """Raise an error unless the op's condition is true."""
        if not bool(condition.data) or condition.undef is not None:
            raise fail("TIR0514", op, "the condition is false", self)

    # Barriers -------------------------------------------------------------------------------

    def mbarrier_alloc(self, op: Any) -> Tensor:
        """Barriers in their first phase."""
        address = _FIRST + len(self.barriers)
        self.barriers[address] = [BarrierPhase(op.arrivals, op.arrivals) for _ in range(op.count)]
        return Tensor(np.array(address, np.uint64))

    def mbarrier_expect(self, op: Any, barrier: Tensor, index: Tensor) -> None:
        """One arrival, and bytes to come."""
        result = self._barrier(op, barrier, index)
        result.bytes += op.bytes
        self._arrive(op, result, 1)

    def mbarrier_arrive(self, op: Any, barrier: Tensor, index: Tensor, when: Tensor | None) -> None:
        """One arrival per warp."""
        if when is None or bool(when.data):
            warps = self._running().warps
            if warps is None:
                message = "how many warps arrive is not known: the kernel has no num_warps"
                raise fail("TIR0515", op, message, self)
            for where in self._everywhere(op, barrier) if op.cluster else (barrier,):
                self._arrive(op, self._barrier(op, where, index), warps)

    def mbarrier_wait(self, op: Any, barrier: Tensor, index: Tensor, parity: Tensor) -> None:
        """Return once the phase of that parity has ended."""
        if self._barrier(op, barrier, index).phase % 2 == int(parity.data) % 2:
            raise NotReadyError

    def _arrive(self, op: Any, barrier: BarrierPhase, count: int) -> None:
        if count > barrier.left:
            message = f"{count} arrive where {barrier.left} of {barrier.arrivals} are missing"
            raise fail("TIR0519", op, message, self)
        barrier.left -= count
        barrier.settle()
        self.version += 1

    def _barrier(self, op: Any, barrier: Tensor, index: Tensor) -> BarrierPhase:
        result = self.barriers.get(int(barrier.data), [])
        if not 0 <= int(index.data) < len(result):
            raise fail("TIR0501", op, f"no barrier {int(index.data)}", self)
        return result[int(index.data)]

    # Copies ---------------------------------------------------------------------------------

    def tma_load(
        self, op: Any, descriptor: DescriptorValue, buffer: Tensor, stage: Tensor,
        barrier: tuple[Tensor, Tensor], indices: tuple[Tensor, ...],
    ) -> None:  # fmt: skip
        """A copy into a stage, whose contents are undefined until it completes; with others of a
        cluster, into one of each block."""
        if op.multicast == 1:
            self._copy(op, descriptor, (buffer, stage), barrier, (slice(None), indices))
            return
        part = self._share(op, indices, buffer, stage)
        buffers, (at, index) = self._everywhere(op, buffer), barrier
        for there, where in zip(buffers, self._everywhere(op, at), strict=True):
            self._copy(op, descriptor, (there, stage), (where, index), part)

    def _copy(
        self, op: Any, descriptor: DescriptorValue, into: tuple[Tensor, Tensor],
        barrier: tuple[Tensor, Tensor], part: tuple[slice, tuple[Tensor, ...]],
    ) -> None:  # fmt: skip
        """A copy into rows of a stage of one block."""
        rows, indices = part
        result, number = self._stage(op, *into)
        counted = self._barrier(op, *barrier)
        shape = result.data[number, rows].shape
        size = dtype_of(op.buffer.type.pointee).itemsize * int(np.prod(shape))
        result.undef[number, rows] = True

        def land() -> None:
            data, undef = self._block_of(op, descriptor, indices)
            lost = undef if undef is None else undef.reshape(shape)
            self._write_stage(into[0], (number, rows), data.reshape(shape), lost)
            counted.bytes -= size
            counted.settle()

        self._begin(op, land)

    def _everywhere(self, op: Any, mine: Tensor) -> list[Tensor]:
        """The counterparts of `mine` in all blocks of the cluster."""
        return [mine]

    def _share(
        self, op: Any, indices: tuple[Tensor, ...], buffer: Tensor, stage: Tensor
    ) -> tuple[slice, tuple[Tensor, ...]]:
        """The rows of a stage that this block copies for its cluster, and where they start."""
        raise fail("TIR0521", op, "the kernel has no cluster", self)

    def tma_store(
        self, op: Any, descriptor: DescriptorValue, buffer: Tensor, stage: Tensor,
        indices: tuple[Tensor, ...],
    ) -> None:  # fmt: skip
        """A copy out of a stage, which may hold several blocks."""
        result, number = self._stage(op, buffer, stage)
        data, undef = result.data[number], result.undef[number]
        extents = op.descriptor.type.block.shape
        rows, step = int(np.prod(extents[:-1])), extents[op.axis]

        def land() -> None:
            for block in range(data.shape[0] // rows):
                moved = Tensor(indices[op.axis].data + np.int32(block * step))
                at = (*indices[: op.axis], moved, *indices[op.axis + 1 :])
                selected = slice(block * rows, block * rows + rows)
                self._store_block(op, self.block(descriptor, at), data[selected], undef[selected])
            self.accesses.stores += not op.add

        self._running().reading.append(self._begin(op, land))

    def _store_block(self, op: Any, place: Any, data: Any, undef: Any) -> None:
        """Write rows of a buffer, of which some are undefined, to a block, or add them to it."""
        pointer, mask, _ = place
        shape = pointer.data.shape
        lost = undef.reshape(shape)
        value = Tensor(data.reshape(shape), lost if lost.any() else None)
        lanes = self._lanes(pointer, mask, op)
        if op.add:
            cast(Any, self).atomic_rmw(pointer, value, mask, op)
            return
        self._defined_value(value, lanes, op)
        self._scatter(pointer.data, value, lanes, value.data.dtype.itemsize, op, Touch.WRITE)

    def tma_wait(self, op: Any) -> None:
        """Execute the copies from shared memory, oldest first, except for the newest `pending`
        ones."""
        reading = self._running().reading
        while len(reading) > op.pending:
            reading.pop(0).finish()

    def _block_of(self, op: Any, descriptor: Any, indices: Any) -> tuple[Any, Any]:
        """The elements of a block, and which are undefined."""
        pointer, mask, padding = self.block(descriptor, indices)
        element, lanes = op.buffer.type.pointee, self._lanes(pointer, mask, op)
        raw, undef = self._gather(pointer.data, lanes, element.bytes, op, Touch.READ)
        self.accesses.loads += 1
        data = raw.view(dtype_of(element))
        if lanes is None:
            return data, undef
        filled = self._fill(data, undef, lanes, mask, padding)
        return filled.data, filled.undef

    def _begin(self, op: Any, land: Any) -> _AsyncCopy:
        copy = _AsyncCopy(land)

        def coroutine() -> Steps:
            yield Pause((op,), ())
            try:
                copy.finish()
            except InterpretError as error:
                raise cast(Any, self).with_location(error, op) from None
            self.version += 1

        self.spawned.append((self.instance, coroutine()))
        return copy

    # Matmuls -------------------------------------------------------------------------------

    def wgmma(
        self, op: Any, a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor], c: Tensor
    ) -> Tensor:
        """The matmul, computed as by `dot`."""
        left = self._operand(op, "a", a, op.trans_a)
        right = self._operand(op, "b", b, op.trans_b)
        m, n = shape_of(op.c.type)
        if not op.trans_b:  # rows may be longer
            lost = right.undef
            right = Tensor(right.data[:, :n], None if lost is None else lost[:, :n])
        shapes = left.data.shape, right.data.shape
        end = sum(op.depth) or shapes[1][0]
        if (shapes[0][0], shapes[1][1]) != (m, n) or not shapes[0][1] == shapes[1][0] >= end:
            message = f"operands of {shapes[0]} and {shapes[1]} for accumulators of {(m, n)}"
            raise fail("TIR0501", op, message, self)
        if op.depth:
            part = slice(op.depth[0], end)
            left, right = (_part(x, at) for x, at in ((left, np.s_[:, part]), (right, np.s_[part])))
        precision = "tf32" if left.data.dtype == np.float32 else "ieee"
        signed = (op.lhs_signed, op.rhs_signed)
        return cast(Any, self).dot(left, right, c, precision, signed=signed)

    def _operand(
        self, op: Any, name: str, place: tuple[Tensor, Tensor], transposed: bool
    ) -> Tensor:
        operand = getattr(op, name)
        if shape_of(operand.type):
            return place[0]
        result, number = self._stage(op, *place)
        data, undef = result.data[number], result.undef[number]
        if transposed:
            data, undef = data.T, undef.T
        return Tensor(data.copy(), undef.copy() if undef.any() else None)

    # Roles ----------------------------------------------------------------------------------

    def start_role(self, op: Any, arguments: tuple[Any, ...]) -> None:
        """Begin a coroutine that runs the role's function."""
        code: CompiledFunction = cast(Any, self).code_of(op.callee)
        self.roles[self.instance] = self.roles.get(self.instance, 0) + 1
        self.spawned.append((self.instance, self._role(op, code, arguments)))

    def join_roles(self, op: Any) -> None:
        """Return once all roles of the instance have ended."""
        if self.roles.get(self.instance):
            raise NotReadyError

    def _role(self, op: Any, code: CompiledFunction, arguments: tuple[Any, ...]) -> Steps:
        group = ThreadGroup(f"@{op.callee}", op.warps)
        inner = steps(code, arguments, cast(Any, self))
        while True:
            self.group = group
            pause = next(inner, None)
            if pause is None:
                break
            yield pause
        self._end(op, group)
        self.roles[self.instance] -= 1
        self.version += 1

    def _end(self, op: Any, group: ThreadGroup) -> None:
        if group.reading:
            raise fail("TIR0520", op, f"{group.name} ends, and {_READING}", self)

    def leave(self, number: int) -> None:
        """Check at the end of an instance that its roles have ended and its copies are complete."""
        group = self.groups.pop(number, None)
        if self.roles.pop(number, 0):
            message = f"{program(self)} ends before its roles: gpu.join waits for them"
            raise InterpretError(Diagnostic("TIR0520", message))
        if group is not None and group.reading:
            message = f"{program(self)} ends, and {_READING}"
            raise InterpretError(Diagnostic("TIR0520", message))

    def _running(self) -> ThreadGroup:
        """The thread group that runs."""
        if self.group is not None:
            return self.group
        return self.groups.setdefault(self.instance, ThreadGroup("the kernel", self.num_warps))


def _part(tensor: Tensor, at: Any) -> Tensor:
    """The elements `at` of a tensor."""
    return Tensor(tensor.data[at], None if tensor.undef is None else tensor.undef[at])
