"""Ops that the backend generates: movement of values between threads, and synchronization.

They print and parse like any other op, and are outside the stability promise.
"""

from __future__ import annotations

from typing import Any

from tileir.effects import Effects
from tileir.field import (
    BOOL_ATTRIBUTE,
    INT,
    INTS,
    LAYOUT,
    attribute,
    operand,
    optional,
    result_type,
)
from tileir.layout import Layout
from tileir.op import Op, op
from tileir.signature import ANY_ELEMENT, POINTERS, Bindings, Each, ExactType, Shaped, TypeVariable
from tileir.types import I1, I32, AddressSpace, Pointer, Tile, Type, element_of, shape_of
from tileir.values import Operand

T = TypeVariable("T", ANY_ELEMENT, scalar=False)
P = TypeVariable("P", POINTERS, scalar=False)
BUFFER = Each(POINTERS, scalar=True)


@op("gpu.convert_layout")
class ConvertLayout(Op):
    """The same tile in the layout `layout`.

    `%b = gpu.convert_layout f32<64; #b> %a {layout = #b}`
    """

    source: Operand = operand(T)
    layout: Layout = attribute(LAYOUT)
    is_identity = True

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        tile = bound["T"]
        assert isinstance(tile, Tile)
        return (Tile(tile.element, tile.shape, self.layout),)

    def evaluate(self, machine: Any, source: Any) -> Any:
        return source


@op("gpu.barrier")
class BlockBarrier(Op):
    """Synchronize all threads of the block: earlier memory accesses of each thread are visible to
    all threads after the barrier. With `warp` each warp synchronizes by itself, with `warpgroup`
    each warpgroup of 4 warps.

    `gpu.barrier {warp}`
    """

    warp: bool = attribute(BOOL_ATTRIBUTE, default=False)
    warpgroup: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.SYNC
    predicable = False
    waits_for_threads = True

    def evaluate(self, machine: Any) -> Any:
        return None


@op("gpu.shared_alloc")
class SharedAlloc(Op):
    """Allocate shared memory of `shape` = [stages, rows, columns]: a circular buffer of
    two-dimensional tiles. Rows are contiguous along dimension `fast` of the tile. The low
    `swizzle` bits of the row number permute the 16-byte chunks of a row, so that a column of 8
    rows uses different banks. Only the ops below take the pointer. The allocation is valid for the
    whole program instance. `panel` splits rows into panels of that many elements; panels are
    stored one after the other, each as a tile.

    `%b = gpu.shared_alloc f16 addrspace(3)* {shape = [3, 128, 32], swizzle = 2}`
    """

    type: Type = result_type(BUFFER)
    shape: tuple[int, ...] = attribute(INTS)
    fast: int = attribute(INT, default=1)
    swizzle: int = attribute(INT, default=0)
    panel: int = attribute(INT, default=0)
    effects_ = Effects.WRITE
    predicable = False
    allocates_shared = True

    def verify(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1:
            message = f"shape must be stages, rows and columns, not {list(self.shape)}"
            raise self.fail("TIR0112", message, "shape")
        if self.fast not in (0, 1) or self.swizzle not in range(4):
            raise self.fail("TIR0106", "fast must be 0 or 1 and swizzle 0 to 3", "fast")
        if self.panel < 0 or (self.panel and self.shape[1 + self.fast] % self.panel):
            raise self.fail("TIR0106", "rows must be whole panels", "panel")
        check_buffer(self, self.type)

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (self.type,)

    def evaluate(self, machine: Any) -> Any:
        return machine.shared_alloc(self)


@op("gpu.async_copy")
class AsyncCopy(Op):
    """Start an asynchronous copy from `pointer` to the part of stage `stage` of `buffer` that begins
    at `offsets`, with zeros where `mask` is false. The data is visible after a wait for the group
    (PTX ISA, cp.async).

    `gpu.async_copy %p, %b, %i, %m`, given `f16*<128, 32> %p, f16 addrspace(3)* %b, i32 %i, i1<128, 32> %m`
    """  # noqa: E501 - an example is one line

    pointer: Operand = operand(P)
    buffer: Operand = operand(BUFFER)
    stage: Operand = operand(ExactType(I32))
    mask: Operand | None = optional(Shaped(I1, P))
    offsets: tuple[int, ...] = attribute(INTS, default=(0, 0))
    effects_ = Effects.READ | Effects.WRITE
    predicable = False

    def verify(self) -> None:
        check_buffer(self, self.buffer.type)
        check_element(self, element_of(self.pointer.type).pointee)  # type: ignore[union-attr]
        _check_offsets(self, shape_of(self.pointer.type))

    def evaluate(self, machine: Any, pointer: Any, buffer: Any, stage: Any, mask: Any) -> Any:
        return machine.async_copy(self, pointer, buffer, stage, mask)


@op("gpu.async_commit")
class AsyncCommit(Op):
    """End a group of copies.

    `gpu.async_commit`
    """

    effects_ = Effects.WRITE
    predicable = False

    def evaluate(self, machine: Any) -> Any:
        return None


@op("gpu.async_wait")
class AsyncWait(Op):
    """Wait until at most the newest `pending` groups of copies are in flight. Each thread waits
    for its own copies; a barrier makes the data visible to all threads.

    `gpu.async_wait {pending = 1}`
    """

    pending: int = attribute(INT, default=0)
    effects_ = Effects.WRITE
    predicable = False

    def verify(self) -> None:
        if self.pending < 0:
            raise self.fail("TIR0106", "pending must not be negative", "pending")

    def evaluate(self, machine: Any) -> Any:
        return None


@op("gpu.local_load")
class LocalLoad(Op):
    """Load the part of stage `stage` of `buffer` that begins at `offsets`.

    `%x = gpu.local_load f16<128, 16> %b, %i {offsets = [0, 16]}`, given `f16 addrspace(3)* %b, i32 %i`
    """  # noqa: E501 - an example is one line

    buffer: Operand = operand(BUFFER)
    stage: Operand = operand(ExactType(I32))
    type: Type = result_type(T)
    offsets: tuple[int, ...] = attribute(INTS, default=(0, 0))
    effects_ = Effects.READ
    predicable = False

    def verify(self) -> None:
        check_buffer(self, self.buffer.type)
        check_element(self, element_of(self.type))
        _check_offsets(self, shape_of(self.type))

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (self.type,)

    def evaluate(self, machine: Any, buffer: Any, stage: Any) -> Any:
        return machine.local_load(self, buffer, stage)


@op("gpu.local_gather")
class LocalGather(Op):
    """Gather a tile from stage `stage` of `buffer`. The elements need be neither adjacent nor
    distinct: element (i, j, ...) is that in row `row` + i `rows[0]` + j `rows[1]` + ... and column
    `column` + i `columns[0]` + j `columns[1]` + ....

    `%x = gpu.local_gather f32<8, 16> %b, 0, %r, %c {rows = [2, 0], columns = [0, 2]}`, given `f32 addrspace(3)* %b, i32 %r, i32 %c`
    """  # noqa: E501 - an example is one line

    buffer: Operand = operand(BUFFER)
    stage: Operand = operand(ExactType(I32))
    row: Operand = operand(ExactType(I32))
    column: Operand = operand(ExactType(I32))
    type: Type = result_type(T)
    rows: tuple[int, ...] = attribute(INTS)
    columns: tuple[int, ...] = attribute(INTS)
    effects_ = Effects.READ
    predicable = False

    def verify(self) -> None:
        check_buffer(self, self.buffer.type)
        check_element(self, element_of(self.type))
        rank = len(shape_of(self.type))
        for name in ("rows", "columns"):
            if len(steps := getattr(self, name)) != rank or min(steps, default=0) < 0:
                message = f"{name} must be {rank} steps of 0 or more, not {list(steps)}"
                raise self.fail("TIR0112", message, name)

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (self.type,)

    def evaluate(self, machine: Any, buffer: Any, stage: Any, row: Any, column: Any) -> Any:
        return machine.local_gather(self, buffer, stage, row, column)


@op("gpu.local_store")
class LocalStore(Op):
    """Store `value` to the part of stage `stage` of `buffer` that begins at `offsets`. `columns`
    = [first, count] restricts the store to these columns of `value`.

    `gpu.local_store %x, %b, %i {offsets = [0, 32]}`, given `f16<128, 32> %x, f16 addrspace(3)* %b, i32 %i`
    """  # noqa: E501 - an example is one line

    value: Operand = operand(T)
    buffer: Operand = operand(BUFFER)
    stage: Operand = operand(ExactType(I32))
    offsets: tuple[int, ...] = attribute(INTS, default=(0, 0))
    columns: tuple[int, ...] = attribute(INTS, default=())
    effects_ = Effects.WRITE
    predicable = False

    def verify(self) -> None:
        check_buffer(self, self.buffer.type)
        check_element(self, element_of(self.value.type))
        _check_offsets(self, shape_of(self.value.type))
        if self.columns and not _is_part(self.columns, shape_of(self.value.type)[1]):
            message = f"columns must be some of those of {self.value.type}"
            raise self.fail("TIR0112", message, "columns")

    def evaluate(self, machine: Any, value: Any, buffer: Any, stage: Any) -> Any:
        return machine.local_store(self, value, buffer, stage)


def _is_part(columns: tuple[int, ...], count: int) -> bool:
    """Whether `columns` = [first, number] is a range of columns of a tile with `count` columns."""
    return len(columns) == 2 and 0 <= columns[0] < sum(columns) <= count


def check_buffer(self: Any, type: Type, name: str = "buffer") -> None:
    """Raise TIR0101 unless `type`, the type of operand `name`, is a pointer to shared memory."""
    if not isinstance(type, Pointer) or type.space is not AddressSpace.SHARED:
        raise self.fail("TIR0101", f"{name} must point to shared memory, not be {type}", name)


def check_element(self: Any, element: Any) -> None:
    """Raise TIR0101 unless the elements of `buffer` have type `element`."""
    pointee = self.buffer.type.pointee
    if element is not pointee:
        message = f"the elements of the buffer are {pointee}, not {element}"
        raise self.fail("TIR0101", message, "buffer")


def _check_offsets(self: Any, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or len(self.offsets) != 2 or min(self.offsets) < 0:
        raise self.fail("TIR0112", "a stage has two dimensions, and so have offsets", "offsets")
