"""Ops that the backend generates for sm_90: TMA copies, mbarriers and asynchronous warpgroup MMAs
(wgmma).

They print and parse like any other op, and are outside the stability promise. Buffers are those
of `gpu.shared_alloc`, with panels as wide as their swizzle (PTX ISA, "Tensor Swizzling Modes").
"""

from __future__ import annotations

from typing import Any

from tileir.effects import Effects
from tileir.field import (
    BOOL_ATTRIBUTE,
    INT,
    INTS,
    attribute,
    operand,
    optional,
    result_type,
    variadic,
)
from tileir.op import Op, op
from tileir.ops.atomic import AtomicKind, MemoryScope, Order as MemoryOrder
from tileir.ops.descriptor import D, DescriptorMaker
from tileir.ops.dot import MATRIX_ELEMENTS
from tileir.ops.gpu import BUFFER, check_buffer
from tileir.signature import POINTERS, Bindings, Each, ExactType, TypeVariable, elements
from tileir.types import F16, F32, I1, I32, I64, AddressSpace, Tile, Type, pointer, shape_of
from tileir.values import Operand

BARRIER = ExactType(pointer(I64, AddressSpace.SHARED))
INDEX = ExactType(I32)
ACCUMULATOR = TypeVariable("C", elements("accumulator", I32, F16, F32), scalar=False)
OPERAND_A = Each(MATRIX_ELEMENTS | POINTERS)


@op("gpu.tensor_map")
class TensorMap(DescriptorMaker):
    """A descriptor, as `make_descriptor` makes, that the host encodes before the launch: its
    operands are computed from the kernel's parameters by scalar ops alone. Shared memory stores
    rows of the last dimension in panels of 16 << `swizzle` bytes (whole rows for 0). See
    "Tensor Map" of the CUDA driver API for what base, extents and strides it can describe.

    `%d = gpu.tensor_map tensor_desc<f16<64, 32>> %p, [%m, %s], [%n, i32 1] {swizzle = 2}`, given `f16* %p, i32 %m, i64 %s, i32 %n`
    """  # noqa: E501 - an example is one line

    swizzle: int = attribute(INT, default=0)
    predicable = False

    def verify(self) -> None:
        super().verify()
        if self.swizzle not in range(4):
            raise self.fail("TIR0106", "swizzle must be 0 to 3", "swizzle")


@op("gpu.mbarrier_alloc")
class MBarrierAlloc(Op):
    """Allocate `count` barriers in shared memory. Each one is in its first phase, which ends after
    `arrivals` arrivals and after all expected bytes (PTX ISA, "mbarrier"). Only the ops below take
    the pointer. All threads see the initialized barriers after this op.

    `%b = gpu.mbarrier_alloc i64 addrspace(3)* {count = 4, arrivals = 2}`
    """

    type: Type = result_type(BARRIER)
    count: int = attribute(INT, default=1)
    arrivals: int = attribute(INT, default=1)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    waits_for_threads = True
    allocates_shared = True

    def verify(self) -> None:
        for name in ("count", "arrivals"):
            if getattr(self, name) < 1:
                raise self.fail("TIR0106", f"{name} must be 1 or more", name)

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (self.type,)

    def evaluate(self, machine: Any) -> Any:
        return machine.mbarrier_alloc(self)


@op("gpu.mbarrier_expect")
class MBarrierExpect(Op):
    """One thread arrives at barrier `index` and adds `bytes` to the bytes that its phase waits for.

    `gpu.mbarrier_expect %b, %i {bytes = 4096}`, given `i64 addrspace(3)* %b, i32 %i`
    """

    barrier: Operand = operand(BARRIER)
    index: Operand = operand(INDEX)
    bytes: int = attribute(INT)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    runs_on_one_thread = True
    orders_async = True

    def verify(self) -> None:
        if not 0 <= self.bytes < 1 << 20:
            raise self.fail("TIR0106", "bytes must be in 0 to 2^20 - 1", "bytes")

    def evaluate(self, machine: Any, barrier: Any, index: Any) -> Any:
        return machine.mbarrier_expect(self, barrier, index)


@op("gpu.mbarrier_arrive")
class MBarrierArrive(Op):
    """Arrive once per warp at barrier `index`, after all lanes of the warp reach the op. Earlier
    accesses of the warp are visible to threads that wait for the phase. The op does nothing where
    `condition` is false. With `cluster` the warp arrives at the barrier of every block of the
    cluster. This orders its reads before the copies of the other blocks, which may then overwrite
    the buffer; it does not make its writes visible to them.

    `gpu.mbarrier_arrive %b, %i, %w`, given `i64 addrspace(3)* %b, i32 %i, i1 %w`
    """

    barrier: Operand = operand(BARRIER)
    index: Operand = operand(INDEX)
    condition: Operand | None = optional(ExactType(I1))
    cluster: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    orders_async = True

    def evaluate(self, machine: Any, barrier: Any, index: Any, condition: Any) -> Any:
        return machine.mbarrier_arrive(self, barrier, index, condition)


@op("gpu.mbarrier_wait")
class MBarrierWait(Op):
    """Wait until the phase of barrier `index` with parity `parity`, 0 or 1, has ended. The first
    phase has parity 0. A wait for parity 1 before the first phase ends returns at once.

    `gpu.mbarrier_wait %b, %i, %p`, given `i64 addrspace(3)* %b, i32 %i, i32 %p`
    """

    barrier: Operand = operand(BARRIER)
    index: Operand = operand(INDEX)
    parity: Operand = operand(INDEX)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    runs_on_one_thread = True
    orders_async = True

    def evaluate(self, machine: Any, barrier: Any, index: Any, parity: Any) -> Any:
        return machine.mbarrier_wait(self, barrier, index, parity)


@op("gpu.tma_load")
class TmaLoad(Op):
    """Start a TMA copy of the block at `indices` to stage `stage` of `buffer`. Elements outside the
    tensor are padded. All dimensions but the last are rows. The bytes, including padding, are
    counted at barrier `index`. One thread issues the copy.

    With `multicast` = n > 1, n blocks of a cluster load n times the rows together. The block of
    rank r loads the part that starts r extents further along `axis` and writes it to the stage of
    every block of the cluster. The bytes are counted at the same barrier in each block.

    `gpu.tma_load %d, %b, %s, %f, %i, %x, %y`, given `tensor_desc<f16<64, 32>> %d, f16 addrspace(3)* %b, i32 %s, i64 addrspace(3)* %f, i32 %i, i32 %x, i32 %y`
    """  # noqa: E501 - an example is one line

    descriptor: Operand = operand(D)
    buffer: Operand = operand(BUFFER)
    stage: Operand = operand(INDEX)
    barrier: Operand = operand(BARRIER)
    index: Operand = operand(INDEX)
    indices: tuple[Operand, ...] = variadic(INDEX)
    multicast: int = attribute(INT, default=1)
    axis: int = attribute(INT, default=0)
    effects_ = Effects.READ | Effects.WRITE
    predicable = False
    runs_on_one_thread = True

    def verify(self) -> None:
        _check_block(self)
        _check_axis(self)
        if self.multicast < 1:
            raise self.fail("TIR0106", "multicast must be 1 or more", "multicast")

    def evaluate(
        self, machine: Any, descriptor: Any, buffer: Any, stage: Any, barrier: Any, index: Any,
        indices: tuple[Any, ...],
    ) -> Any:  # fmt: skip
        return machine.tma_load(self, descriptor, buffer, stage, (barrier, index), indices)


@op("gpu.tma_store")
class TmaStore(Op):
    """Start a TMA copy of stage `stage` of `buffer` to the block at `indices`. Elements outside the
    tensor are not written. A stage with n times the rows is copied to n consecutive blocks along
    `axis`. One thread issues the copy; with `warpgroup`, one thread of each warpgroup issues the
    copies of the blocks that are assigned to it round-robin. `gpu.tma_wait` waits for completion.
    With `add` each f32 is added to the destination by a relaxed atomic access (PTX ISA,
    cp.reduce.async.bulk.tensor).

    `gpu.tma_store %d, %b, %s, %x, %y`, given `tensor_desc<f16<64, 32>> %d, f16 addrspace(3)* %b, i32 %s, i32 %x, i32 %y`
    """  # noqa: E501 - an example is one line

    descriptor: Operand = operand(D)
    buffer: Operand = operand(BUFFER)
    stage: Operand = operand(INDEX)
    indices: tuple[Operand, ...] = variadic(INDEX)
    axis: int = attribute(INT, default=0)
    warpgroup: bool = attribute(BOOL_ATTRIBUTE, default=False)
    add: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.READ | Effects.WRITE
    predicable = False
    runs_on_one_thread = True

    def verify(self) -> None:
        _check_block(self)
        _check_axis(self)
        element = self.buffer.type.pointee  # type: ignore[union-attr]
        if self.add and element is not F32:
            raise self.fail("TIR0115", f"copies add f32, not {element}", "add")

    @property
    def op(self) -> AtomicKind:
        """The operation of an atomic addition."""
        return AtomicKind.FADD

    @property
    def sem(self) -> MemoryOrder:
        """Order of each access that adds."""
        return MemoryOrder.RELAXED

    @property
    def scope(self) -> MemoryScope:
        """Scope of each access that adds."""
        return MemoryScope.GPU

    def evaluate(
        self, machine: Any, descriptor: Any, buffer: Any, stage: Any, indices: tuple[Any, ...]
    ) -> Any:
        return machine.tma_store(self, descriptor, buffer, stage, indices)


@op("gpu.tma_wait")
class TmaWait(Op):
    """Wait for TMA stores. The thread that issued them, or one thread of each `warpgroup`, waits
    until at most the newest `pending` stores still read shared memory. With `complete` it waits
    until all others are complete; later writes are then ordered after them (PTX ISA,
    cp.async.bulk.wait_group).

    `gpu.tma_wait {pending = 1}`
    """

    pending: int = attribute(INT, default=0)
    warpgroup: bool = attribute(BOOL_ATTRIBUTE, default=False)
    complete: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.WRITE
    predicable = False
    runs_on_one_thread = True

    def verify(self) -> None:
        if self.pending < 0:
            raise self.fail("TIR0106", "pending must not be negative", "pending")

    def evaluate(self, machine: Any) -> Any:
        return machine.tma_wait(self)


@op("gpu.async_fence")
class AsyncFence(Op):
    """Order earlier accesses of this thread to shared memory before accesses of TMA and of
    `gpu.wgmma` that are ordered after the fence (PTX ISA, "Async proxy").

    `gpu.async_fence`
    """

    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    runs_on_one_thread = True
    orders_async = True

    def evaluate(self, machine: Any) -> Any:
        return None


@op("gpu.wgmma")
class Wgmma(Op):
    """Start the asynchronous MMA `a` times `b` plus `c` (see `dot`). Each warpgroup of 4 warps
    computes its own rows. `b` is a stage of a shared-memory buffer; `a` is a stage or a tile in
    registers. `trans_a` and `trans_b` mark operands that are stored transposed. If the rows of `b`
    are longer than N, the first N columns are used. `depth` = [first, count] restricts the MMA to
    these steps of K. The accumulator is available after `gpu.wgmma_wait`. Until then only another `gpu.wgmma` may use it, as `c`, and the stages must
    not be written.

    `%d = gpu.wgmma f32<64, 8> %a, %i, %b, %j, %c {trans_b}`, given `f16 addrspace(3)* %a, i32 %i, f16 addrspace(3)* %b, i32 %j, f32<64, 8> %c`
    """  # noqa: E501 - an example is one line

    a: Operand = operand(OPERAND_A)
    a_stage: Operand = operand(INDEX)
    b: Operand = operand(BUFFER)
    b_stage: Operand = operand(INDEX)
    c: Operand = operand(ACCUMULATOR)
    trans_a: bool = attribute(BOOL_ATTRIBUTE, default=False)
    trans_b: bool = attribute(BOOL_ATTRIBUTE, default=False)
    lhs_signed: bool = attribute(BOOL_ATTRIBUTE, default=True)
    rhs_signed: bool = attribute(BOOL_ATTRIBUTE, default=True)
    depth: tuple[int, ...] = attribute(INTS, default=())
    results_ = (ACCUMULATOR,)
    effects_ = Effects.READ
    predicable = False

    def verify(self) -> None:
        check_buffer(self, self.b.type, "b")
        if not isinstance(self.a.type, Tile):
            check_buffer(self, self.a.type, "a")
        elif self.trans_a:
            raise self.fail("TIR0106", "trans_a needs `a` in shared memory", "trans_a")
        if len(shape_of(self.c.type)) != 2:
            raise self.fail("TIR0112", "c must have two dimensions", "c")
        if self.depth and not (len(self.depth) == 2 and 0 <= self.depth[0] and self.depth[1] > 0):
            raise self.fail("TIR0112", "depth must be a first step of K and a number", "depth")

    def evaluate(self, machine: Any, a: Any, a_stage: Any, b: Any, b_stage: Any, c: Any) -> Any:
        return machine.wgmma(self, (a, a_stage), (b, b_stage), c)


@op("gpu.wgmma_wait")
class WgmmaWait(Op):
    """Return the accumulator `value` once at most the newest `pending` groups of MMAs are in
    flight. Every `gpu.wgmma` is a group.

    `%y = gpu.wgmma_wait f32<64, 8> %x`, given `f32<64, 8> %x`
    """

    value: Operand = operand(ACCUMULATOR)
    pending: int = attribute(INT, default=0)
    results_ = (ACCUMULATOR,)
    multiplies_matrices = True
    effects_ = Effects.WRITE
    predicable = False

    def verify(self) -> None:
        if not 0 <= self.pending < 8:
            raise self.fail("TIR0106", "pending must be in 0 to 7", "pending")

    def evaluate(self, machine: Any, value: Any) -> Any:
        return value


@op("gpu.schedule_barrier")
class ScheduleBarrier(Op):
    """Schedule the computation of `value` before all later ops. This keeps ptxas from moving a
    wgmma wait above the code that should overlap with the MMAs.

    `gpu.schedule_barrier %x`, given `f32<64> %x`
    """

    value: Operand = operand(Each(elements("f32", F32), scalar=False))
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    orders_async = True

    def evaluate(self, machine: Any, value: Any) -> Any:
        return None


@op("gpu.device_assert")
class DeviceAssert(Op):
    """End the kernel with an error where `condition` is false.

    `gpu.device_assert %p`, given `i1 %p`
    """

    condition: Operand = operand(ExactType(I1))
    effects_ = Effects.OUTSIDE | Effects.TRAP
    predicable = False
    runs_on_one_thread = True

    def evaluate(self, machine: Any, condition: Any) -> Any:
        return machine.check(condition, self)


def _check_block(self: Any) -> None:
    """Raise an error unless there is one index per dimension of the block, and the buffer has its
    element type."""
    check_buffer(self, self.buffer.type, "buffer")
    block: Tile = self.descriptor.type.block
    if len(block.shape) != len(self.indices):
        result = len(self.indices)
        raise self.fail(
            "TIR0117", f"{len(block.shape)} indices are needed, not {result}", "indices"
        )
    element = self.buffer.type.pointee
    if element is not block.element:
        message = f"the elements of the buffer are {element}, not {block.element}"
        raise self.fail("TIR0101", message, "buffer")


def _check_axis(self: Any) -> None:
    """Raise TIR0106 unless `axis` is the first dimension of the block with an extent above 1, or
    one before it."""
    if not 0 <= self.axis < len(self.indices):
        message = f"axis must be in 0 to {len(self.indices) - 1}"
        raise self.fail("TIR0106", message, "axis")
    if any(extent > 1 for extent in self.descriptor.type.block.shape[: self.axis]):
        raise self.fail("TIR0106", "extents of dimensions before axis must be 1", "axis")
