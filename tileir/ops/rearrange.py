"""Joining and splitting tiles, gathers and slices: elements may move between threads."""

from __future__ import annotations

from typing import Any

from tileir.op import INT, INTS, Effects, Op, attribute, op, operand, result_type, variadic
from tileir.ops.shape import check_axis, with_shape
from tileir.signature import (
    ANY_ELEMENT,
    INDICES,
    Bindings,
    Each,
    ElementOf,
    ExactType,
    TypeVariable,
)
from tileir.types import I32, Type, element_of, shape_of
from tileir.values import Operand

T = TypeVariable("T", ANY_ELEMENT, scalar=False)
A = TypeVariable("T", ANY_ELEMENT)
R = TypeVariable("R", ANY_ELEMENT, scalar=False)
X = TypeVariable("X", INDICES, scalar=False)


@op("join")
class Join(Op):
    """Two values of one type side by side in a new last dimension of extent 2.

    `%r = join f32<64, 2> %a, %b`, given `f32<64> %a, f32<64> %b`
    """

    low: Operand = operand(A)
    high: Operand = operand(A)

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (with_shape(self.low.type, (*shape_of(self.low.type), 2)),)

    def evaluate(self, machine: Any, low: Any, high: Any) -> Any:
        return machine.join(low, high)


@op("split")
class Split(Op):
    """The two halves of a tile whose last dimension has extent 2; inverse of `join`.

    `%lo, %hi = split (f32<64>, f32<64>) %x`, given `f32<64, 2> %x`
    """

    value: Operand = operand(T)

    def verify(self) -> None:
        if shape_of(self.value.type)[-1] != 2:
            message = f"the last dimension must have extent 2: {self.value.type}"
            raise self.fail("TIR0112", message, "value")

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        half = with_shape(self.value.type, shape_of(self.value.type)[:-1])
        return (half, half)

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.split(value)


@op("cat")
class Cat(Op):
    """Two tiles one after the other along `axis`, order kept.

    `%r = cat f32<4, 48> %a, %b {axis = 1}`, given `f32<4, 32> %a, f32<4, 16> %b`
    """

    low: Operand = operand(Each(ANY_ELEMENT, scalar=False))
    high: Operand = operand(Each(ANY_ELEMENT, scalar=False))
    axis: int = attribute(INT, default=0)

    def verify(self) -> None:
        low, high = shape_of(self.low.type), shape_of(self.high.type)
        check_axis(self, self.axis, len(low))
        same = element_of(self.low.type) is element_of(self.high.type)
        if not same or len(high) != len(low) or _but(low, self.axis) != _but(high, self.axis):
            message = f"{self.low.type} and {self.high.type} differ beyond dimension {self.axis}"
            raise self.fail("TIR0112", message, "high")

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        shape = list(shape_of(self.low.type))
        shape[self.axis] += shape_of(self.high.type)[self.axis]
        return (with_shape(self.low.type, tuple(shape)),)

    def evaluate(self, machine: Any, low: Any, high: Any) -> Any:
        return machine.concatenate(low, high, self.axis)


@op("gather")
class Gather(Op):
    """Elements of `source` at `index` along `axis`: result[i, j] = source[index[i, j], j] for rank
    2 and axis 0. The other extents are equal. Traps on an index out of bounds.

    `%r = gather f32<4, 8> %x, %i {axis = 1}`, given `f32<4, 64> %x, i32<4, 8> %i`
    """

    source: Operand = operand(T)
    index: Operand = operand(X)
    axis: int = attribute(INT, default=0)
    effects_ = Effects.TRAP
    harmless = ("index", 0)

    def verify(self) -> None:
        source, index = shape_of(self.source.type), shape_of(self.index.type)
        check_axis(self, self.axis, len(source))
        if len(source) != len(index) or _but(source, self.axis) != _but(index, self.axis):
            message = f"{self.source.type} and {self.index.type} differ beyond axis {self.axis}"
            raise self.fail("TIR0112", message, "index")

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (with_shape(self.source.type, shape_of(self.index.type)),)

    def evaluate(self, machine: Any, source: Any, index: Any) -> Any:
        return machine.gather(source, index, self.axis, self)


@op("extract_slice")
class ExtractSlice(Op):
    """The part of a tile of the result's shape that starts at `offsets`, every `strides`-th
    element. Traps if the part is out of bounds.

    `%r = extract_slice f32<8, 8> %x, %i, 4`, given `f32<16, 16> %x, i32 %i`
    """

    value: Operand = operand(T)
    to: Type = result_type(R)
    offsets: tuple[Operand, ...] = variadic(ExactType(I32))
    strides: tuple[int, ...] | None = attribute(INTS, default=None)
    results_ = (R,)
    effects_ = Effects.TRAP

    def verify(self) -> None:
        check_slice(self, self.value.type, self.to, "to")

    def evaluate(self, machine: Any, value: Any, offsets: tuple[Any, ...]) -> Any:
        return machine.extract_slice(value, offsets, self.strides, shape_of(self.to), self)


@op("insert_slice")
class InsertSlice(Op):
    """A tile with the part that starts at `offsets`, every `strides`-th element, replaced by
    `small`. Traps if the part is out of bounds.

    `%r = insert_slice f32<16, 16> %x, %s, %i, 4`, given `f32<16, 16> %x, f32<8, 8> %s, i32 %i`
    """

    value: Operand = operand(T)
    small: Operand = operand(R)
    offsets: tuple[Operand, ...] = variadic(ExactType(I32))
    strides: tuple[int, ...] | None = attribute(INTS, default=None)
    results_ = (T,)
    effects_ = Effects.TRAP

    def verify(self) -> None:
        check_slice(self, self.value.type, self.small.type, "small")

    def evaluate(self, machine: Any, value: Any, small: Any, offsets: tuple[Any, ...]) -> Any:
        return machine.insert_slice(value, small, offsets, self.strides, self)


@op("unsplat")
class Unsplat(Op):
    """The only element of a tile of one element.

    `%r = unsplat f32 %x`, given `f32<1> %x`
    """

    value: Operand = operand(T)
    results_ = (ElementOf(T),)
    moves_elements = True

    def verify(self) -> None:
        if self.value.type.size != 1:  # type: ignore[union-attr]
            message = f"value must have one element: {self.value.type}"
            raise self.fail("TIR0112", message, "value")

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.reshape(value, ())


def check_slice(self: Any, big: Type, small: Type, field: str) -> None:
    """A slice has the element and rank of its tile and fits in it, with an offset per dimension
    and positive strides."""
    if element_of(big) is not element_of(small):
        message = f"{field} must hold {element_of(big)}, not {element_of(small)}"
        raise self.fail("TIR0101", message, field)
    rank = len(shape_of(big))
    if len(self.offsets) != rank:
        message = f"{rank} offsets are needed, not {len(self.offsets)}"
        raise self.fail("TIR0112", message, "offsets")
    strides = self.strides or (1,) * rank
    if len(strides) != rank or min(strides) < 1:
        message = f"strides must be {rank} positive numbers, not {list(strides)}"
        raise self.fail("TIR0114", message, "strides")
    extents = zip(shape_of(big), shape_of(small), strides, strict=False)
    if len(shape_of(small)) != rank or any((n - 1) * s >= m for m, n, s in extents):
        raise self.fail("TIR0112", f"{small} is not part of {big}", field)


def _but(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
