"""Tensor descriptors: strided global tensors read and written in blocks."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import (
    Effects,
    Op,
    attribute,
    family,
    one_of,
    op,
    operand,
    pairs,
    result_type,
    variadic,
)
from tileir.ops.atomic import AtomicKind, MemoryScope, Order, fits_kind
from tileir.signature import (
    POINTERS,
    STORABLE,
    Bindings,
    Each,
    ExactType,
    OneOf,
    TypeVariable,
    elements,
)
from tileir.types import I32, I64, Descriptor, Tile, Type, shape_of
from tileir.values import Operand

D = OneOf("D", (Descriptor,))
BASE = TypeVariable("P", POINTERS, scalar=True)
EXTENT = Each(elements("i32 or i64", I32, I64), scalar=True)
ROWS = TypeVariable("X", elements("i32", I32), scalar=False)


class Padding(Enum):
    """The value of elements out of the bounds of the tensor."""

    ZERO = "zero"
    NAN = "nan"


@family
class DescriptorMaker(Op):
    """An op that makes a descriptor of the tensor at `base`."""

    base: Operand = operand(BASE)
    to: Type = result_type(D)
    dimensions: tuple[Operand, ...] = pairs(EXTENT, EXTENT)
    padding: Padding = attribute(one_of(Padding), default=Padding.ZERO)
    results_ = (D,)

    def verify(self) -> None:
        block: Tile = self.to.block  # type: ignore[union-attr]
        if block.element is not self.base.type.pointee:  # type: ignore[union-attr]
            message = f"base must point to {block.element}, not {self.base.type}"
            raise self.fail("TIR0101", message, "base")
        if len(self.dimensions) != 2 * len(block.shape):
            message = f"{len(block.shape)} pairs are needed, not {len(self.dimensions) // 2}"
            raise self.fail("TIR0117", message, "dimensions")
        if self.padding is Padding.NAN and not block.element.is_float:
            raise self.fail("TIR0115", f"{block.element} has no NaN", "padding")

    def evaluate(self, machine: Any, base: Any, dimensions: tuple[Any, ...]) -> Any:
        return machine.make_descriptor(base, dimensions, self.to, self.padding.value)


@op("make_descriptor")
class MakeDescriptor(DescriptorMaker):
    """Make a descriptor of the tensor at `base`, with one pair of extent and stride per dimension,
    in elements. Elements out of bounds are read as zero bits, or as NaNs with `padding = nan`;
    writes to them are dropped.

    `%d = make_descriptor tensor_desc<f16<64, 32>> %p, [%m, %s], [%n, i32 1]`, given `f16* %p, i32 %m, i64 %s, i32 %n`
    """  # noqa: E501 - an example is one line


@family
class BlockAccess(Op):
    """An access to the block of `descriptor` whose first element is at `indices`."""

    def block(self) -> Tile:
        """Shape and element of what is accessed."""
        return self.descriptor.type.block  # type: ignore[attr-defined]

    def check_indices(self) -> None:
        """Raise TIR0117 unless there is one index per dimension of the block."""
        rank, result = len(self.block().shape), len(self.indices)  # type: ignore[attr-defined]
        if rank != result:
            raise self.fail("TIR0117", f"{rank} indices are needed, not {result}", "indices")

    def check_value(self, expected: Type) -> None:
        """Raise TIR0101 unless `value` has type `expected`."""
        result = self.value.type  # type: ignore[attr-defined]
        if result is not expected:
            raise self.fail("TIR0101", f"value must be {expected}, not {result}", "value")

    def predicate_shape(self) -> tuple[int, ...]:
        """An access to a block takes one predicate for all of it."""
        return ()


@op("descriptor_load")
class DescriptorLoad(BlockAccess):
    """Load the block that starts at `indices`; elements out of bounds are padded.

    `%v = descriptor_load f16<64, 32> %d, %i, %j`, given `tensor_desc<f16<64, 32>> %d, i32 %i, i32 %j`
    """  # noqa: E501 - an example is one line

    descriptor: Operand = operand(D)
    indices: tuple[Operand, ...] = variadic(ExactType(I32))
    effects_ = Effects.READ

    def verify(self) -> None:
        self.check_indices()

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (self.block(),)

    def evaluate(self, machine: Any, descriptor: Any, indices: tuple[Any, ...]) -> Any:
        pointer, inside, padding = machine.block(descriptor, indices)
        return machine.load(pointer, inside, padding, self)


@op("descriptor_store")
class DescriptorStore(BlockAccess):
    """Store the block that starts at `indices`; elements out of bounds are not written.

    `descriptor_store %d, %v, %i, %j`, given `tensor_desc<f16<64, 32>> %d, f16<64, 32> %v, i32 %i, i32 %j`
    """  # noqa: E501 - an example is one line

    descriptor: Operand = operand(D)
    value: Operand = operand(Each(STORABLE, scalar=False))
    indices: tuple[Operand, ...] = variadic(ExactType(I32))
    effects_ = Effects.WRITE

    def verify(self) -> None:
        self.check_indices()
        self.check_value(self.block())

    def evaluate(self, machine: Any, descriptor: Any, value: Any, indices: Any) -> Any:
        pointer, inside, _ = machine.block(descriptor, indices)
        return machine.store(pointer, value, inside, self)


@op("descriptor_reduce")
class DescriptorReduce(BlockAccess):
    """Combine the block that starts at `indices` into memory, one relaxed atomic access per
    element, except elements outside the tensor. GPUs add f32 as by `atomic_rmw`.

    `descriptor_reduce %d, %v, %i {op = fadd}`, given `tensor_desc<f32<64>> %d, f32<64> %v, i32 %i`
    """

    descriptor: Operand = operand(D)
    value: Operand = operand(Each(STORABLE, scalar=False))
    indices: tuple[Operand, ...] = variadic(ExactType(I32))
    op: AtomicKind = attribute(one_of(AtomicKind))
    effects_ = Effects.READ | Effects.WRITE | Effects.SYNC

    def verify(self) -> None:
        self.check_indices()
        self.check_value(self.block())
        expected = fits_kind(self.op, self.block().element)
        if expected is not None:
            message = f"{self.op.value} works on {expected}, not {self.block().element}"
            raise self.fail("TIR0115", message, "op")

    @property
    def sem(self) -> Order:
        """Order of each access."""
        return Order.RELAXED

    @property
    def scope(self) -> MemoryScope:
        """Scope of each access."""
        return MemoryScope.GPU

    def evaluate(self, machine: Any, descriptor: Any, value: Any, indices: Any) -> Any:
        pointer, inside, _ = machine.block(descriptor, indices)
        machine.atomic_rmw(pointer, value, inside, self)


@family
class RowAccess(BlockAccess):
    """An access to chosen rows of a matrix, from column `column` on."""

    def rows(self) -> Tile:
        """Type of the rows: as many as there are indices, as wide as the block."""
        count = shape_of(self.index.type)[0]  # type: ignore[attr-defined]
        return Tile(self.block().element, (count, self.block().shape[1]))

    def check_rows(self) -> None:
        """The block is one row, the indices have one dimension."""
        if len(self.block().shape) != 2 or self.block().shape[0] != 1:
            message = f"the block must be one row [1, N], not {list(self.block().shape)}"
            raise self.fail("TIR0112", message, "descriptor")
        if len(shape_of(self.index.type)) != 1:  # type: ignore[attr-defined]
            raise self.fail("TIR0112", "the index must have one dimension", "index")


@op("descriptor_gather")
class DescriptorGather(RowAccess):
    """Load the rows `index` of a matrix from column `column` on; elements out of bounds are padded.

    `%v = descriptor_gather f16<8, 32> %d, %i, %j`, given `tensor_desc<f16<1, 32>> %d, i32<8> %i, i32 %j`
    """  # noqa: E501 - an example is one line

    descriptor: Operand = operand(D)
    index: Operand = operand(ROWS)
    column: Operand = operand(ExactType(I32))
    effects_ = Effects.READ

    def verify(self) -> None:
        self.check_rows()

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (self.rows(),)

    def evaluate(self, machine: Any, descriptor: Any, index: Any, column: Any) -> Any:
        pointer, inside, padding = machine.rows(descriptor, index, column)
        return machine.load(pointer, inside, padding, self)


@op("descriptor_scatter")
class DescriptorScatter(RowAccess):
    """Store the rows `index` of a matrix from column `column` on; elements out of bounds are not
    written.

    `descriptor_scatter %d, %v, %i, %j`, given `tensor_desc<f16<1, 32>> %d, f16<8, 32> %v, i32<8> %i, i32 %j`
    """  # noqa: E501 - an example is one line

    descriptor: Operand = operand(D)
    value: Operand = operand(Each(STORABLE, scalar=False))
    index: Operand = operand(ROWS)
    column: Operand = operand(ExactType(I32))
    effects_ = Effects.WRITE

    def verify(self) -> None:
        self.check_rows()
        self.check_value(self.rows())

    def evaluate(self, machine: Any, descriptor: Any, value: Any, index: Any, column: Any) -> Any:
        pointer, inside, _ = machine.rows(descriptor, index, column)
        return machine.store(pointer, value, inside, self)
