"""Ops on thread-private memory, which the backend uses for tiles that exceed the registers.

They print and parse like any other op, and are outside the stability promise. A buffer holds tiles
of one type. A thread stores the elements that it owns in the layout, so that no synchronization is
needed.
"""

from __future__ import annotations

from typing import Any

from tileir.effects import Effects
from tileir.field import operand, result_type
from tileir.op import Op, op
from tileir.signature import ANY_ELEMENT, Bindings, ExactType, OneOf, TypeVariable
from tileir.types import I32, Buffer, Type
from tileir.values import Operand

B = OneOf("B", (Buffer,))
T = TypeVariable("T", ANY_ELEMENT, scalar=False)


@op("gpu.private_alloc")
class PrivateAlloc(Op):
    """Allocate a private buffer with undefined contents. Each execution discards the previous
    contents. Only the ops below take the buffer.

    `%b = gpu.private_alloc private<f32<128>, 8>`
    """

    type: Type = result_type(B)
    results_ = (B,)
    effects_ = Effects.WRITE
    predicable = False

    def verify(self) -> None:
        _check_private(self, self.type, "type")

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (self.type,)

    def evaluate(self, machine: Any) -> Any:
        return machine.private_alloc(self)


@op("gpu.private_store")
class PrivateStore(Op):
    """Write `value` as tile number `index` of a private buffer.

    `gpu.private_store %b, %i, %x`, given `private<f32<128>, 8> %b, i32 %i, f32<128> %x`
    """

    buffer: Operand = operand(B)
    index: Operand = operand(ExactType(I32))
    value: Operand = operand(T)
    effects_ = Effects.WRITE
    predicable = False

    def verify(self) -> None:
        buffer_type = _check_private(self, self.buffer.type, "buffer").tile
        if self.value.type is not buffer_type:
            message = f"the tiles of the buffer are {buffer_type}, not {self.value.type}"
            raise self.fail("TIR0101", message, "value")

    def evaluate(self, machine: Any, buffer: Any, index: Any, value: Any) -> Any:
        return machine.private_store(self, buffer, index, value)


@op("gpu.private_load")
class PrivateLoad(Op):
    """Tile number `index` of a private buffer.

    `%x = gpu.private_load f32<128> %b, %i`, given `private<f32<128>, 8> %b, i32 %i`
    """

    buffer: Operand = operand(B)
    index: Operand = operand(ExactType(I32))
    results_ = (T,)
    effects_ = Effects.READ
    predicable = False

    def verify(self) -> None:
        _check_private(self, self.buffer.type, "buffer")

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        buffer_type = self.buffer.type
        assert isinstance(buffer_type, Buffer)
        return (buffer_type.tile,)

    def evaluate(self, machine: Any, buffer: Any, index: Any) -> Any:
        return machine.private_load(self, buffer, index)


def _check_private(self: Any, buffer: Type, name: str) -> Buffer:
    """The type of a private buffer. Raises the error (TIR0101) that it is another."""
    if not isinstance(buffer, Buffer) or buffer.space != "private":
        raise self.fail("TIR0101", f"{name} must be a private buffer, not {buffer}", name)
    return buffer
