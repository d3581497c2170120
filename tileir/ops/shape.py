"""Shapes: making tiles, and tiles of the same elements in another shape; addresses."""

from __future__ import annotations

from typing import Any

from tileir.op import (
    INT,
    INTS,
    Op,
    attribute,
    family,
    op,
    operand,
    result_type,
)
from tileir.signature import (
    ANY_ELEMENT,
    INDICES,
    POINTERS,
    Bindings,
    ElementOf,
    Shaped,
    TypeVariable,
)
from tileir.types import Type, element_of, shape_of, tile
from tileir.values import Operand

T = TypeVariable("T", ANY_ELEMENT, scalar=False)
A = TypeVariable("T", ANY_ELEMENT)
R = TypeVariable("R", ANY_ELEMENT, scalar=False)
N = TypeVariable("R", INDICES, scalar=False)
P = TypeVariable("P", POINTERS)
X = TypeVariable("X", INDICES, scalar=False)


@op("make_range")
class MakeRange(Op):
    """The integers `start`, `start + 1`, ... in a tile of one dimension.

    `%r = make_range i32<512> {start = 1}`
    """

    to: Type = result_type(N)
    start: int = attribute(INT, default=0)
    results_ = (N,)

    def verify(self) -> None:
        if len(shape_of(self.to)) != 1:
            raise self.fail("TIR0112", f"the result must have one dimension, not {self.to}", "to")
        half = 1 << (element_of(self.to).bits - 1)  # type: ignore[union-attr]
        last = self.start + shape_of(self.to)[0] - 1
        if self.start < -half or last >= half:
            message = f"{self.start} to {last} do not fit in {element_of(self.to)}"
            raise self.fail("TIR0113", message, "start")

    def evaluate(self, machine: Any) -> Any:
        return machine.make_range(self.start, self.to)


@op("splat")
class Splat(Op):
    """A tile with the scalar `value` everywhere.

    `%r = splat f32<16, 16> %x`, given `f32 %x`
    """

    value: Operand = operand(ElementOf(R))
    to: Type = result_type(R)
    results_ = (R,)
    moves_elements = True

    def verify(self) -> None:
        if self.value.type is not element_of(self.to):
            message = f"value must be {element_of(self.to)}, not {self.value.type}"
            raise self.fail("TIR0101", message, "value")

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.broadcast(value, shape_of(self.to))


@family
class _Resized(Op):
    """The elements of a tile in a tile of a stated shape."""

    value: Operand = operand(T)
    to: Type = result_type(R)
    results_ = (R,)
    moves_elements = True


@op("broadcast")
class Broadcast(_Resized):
    """Repeat dimensions of extent 1 to the extents of the result; the rank stays.

    `%r = broadcast f32<16, 8> %x`, given `f32<16, 1> %x`
    """

    def verify(self) -> None:
        check_element(self, self.value.type)
        old, new = shape_of(self.value.type), shape_of(self.to)
        if len(old) != len(new) or any(a not in (1, b) for a, b in zip(old, new, strict=True)):
            message = f"{self.value.type} does not broadcast to {self.to}"
            raise self.fail("TIR0112", message, "to")

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.broadcast(value, shape_of(self.to))


@op("reshape")
class Reshape(_Resized):
    """The same elements in row-major order under another shape of the same size.

    `%r = reshape f32<8, 32> %x`, given `f32<16, 16> %x`
    """

    def verify(self) -> None:
        check_element(self, self.value.type)
        if self.value.type.size != self.to.size:  # type: ignore[union-attr]
            message = f"{self.value.type} and {self.to} differ in size"
            raise self.fail("TIR0112", message, "to")

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.reshape(value, shape_of(self.to))


@op("expand_dims")
class ExpandDims(Op):
    """A new dimension of extent 1 before dimension `axis`.

    `%r = expand_dims f32<16, 1> %x {axis = 1}`, given `f32<16> %x`
    """

    value: Operand = operand(T)
    axis: int = attribute(INT)
    moves_elements = True

    def verify(self) -> None:
        check_axis(self, self.axis, len(shape_of(self.value.type)) + 1)

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        shape = shape_of(self.value.type)
        return (with_shape(self.value.type, (*shape[: self.axis], 1, *shape[self.axis :])),)

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.reshape(value, shape_of(self.result.type))


@op("trans")
class Trans(Op):
    """Permute dimensions: dimension d of the result is dimension `order[d]` of the operand.

    `%r = trans f32<8, 16> %x {order = [1, 0]}`, given `f32<16, 8> %x`
    """

    value: Operand = operand(T)
    order: tuple[int, ...] = attribute(INTS)
    moves_elements = True

    def verify(self) -> None:
        rank = len(shape_of(self.value.type))
        if sorted(self.order) != list(range(rank)):
            message = f"order must permute the {rank} dimensions, not {list(self.order)}"
            raise self.fail("TIR0114", message, "order")

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        shape = shape_of(self.value.type)
        return (with_shape(self.value.type, tuple(shape[d] for d in self.order)),)

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.transpose(value, self.order)


@op("getelementptr")
class GetElementPtr(Op):
    """The pointer `index` elements further on; the index is signed, of any integer width.

    `%q = getelementptr f32*<64> %p, %i`, given `f32*<64> %p, i32<64> %i`
    """

    pointer: Operand = operand(P)
    index: Operand = operand(Shaped(INDICES, P, "I"))
    results_ = (P,)
    elementwise = True

    def evaluate(self, machine: Any, pointer: Any, index: Any) -> Any:
        size = element_of(self.pointer.type).pointee.bytes  # type: ignore[union-attr]
        return machine.elementwise("getelementptr", pointer, index, size=size)


def with_shape(type: Type, shape: tuple[int, ...]) -> Type:
    """`type` at another shape; it loses its layout."""
    return tile(element_of(type), shape)  # type: ignore[arg-type]


def check_element(self: Any, source: Type) -> None:
    """The stated result type must have the operand's element."""
    if element_of(source) is not element_of(self.to):
        message = f"the result must hold {element_of(source)}, not {element_of(self.to)}"
        raise self.fail("TIR0101", message, "to")


def check_axis(self: Any, axis: int, rank: int) -> None:
    """`axis` must name one of `rank` dimensions."""
    if not 0 <= axis < rank:
        raise self.fail("TIR0114", f"axis must be in 0 to {rank - 1}, not {axis}", "axis")
