"""Ops that name a symbol of the module: calls of functions, addresses of globals."""

from __future__ import annotations

from typing import Any

from tileir.op import Effects, Op, op, result_type, result_types, symbol, variadic
from tileir.signature import ANYTHING, POINTERS, Bindings, TypeVariable
from tileir.types import AddressSpace, Type
from tileir.values import Operand

P = TypeVariable("P", POINTERS, scalar=True)


@op("call")
class Call(Op):
    """Call a device function with `arguments`. The callee's types are checked by `verify`.

    `%y = call f32 @square, %x`
    """

    types: tuple[Type, ...] = result_types()
    callee: str = symbol()
    arguments: tuple[Operand, ...] = variadic(ANYTHING)
    effects_ = Effects.READ | Effects.WRITE | Effects.SYNC | Effects.OUTSIDE | Effects.TRAP

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return self.types

    def evaluate(self, machine: Any, arguments: tuple[Any, ...]) -> Any:
        return machine.call(self.callee, arguments)


@op("global_address")
class GlobalAddress(Op):
    """The address of a global of the module, in global memory or the constant address space.

    `%p = global_address f32 addrspace(4)* @table`
    """

    to: Type = result_type(P)
    name: str = symbol()
    results_ = (P,)

    def verify(self) -> None:
        if self.to.space not in (AddressSpace.GLOBAL, AddressSpace.CONSTANT):  # type: ignore[union-attr]
            raise self.fail("TIR0101", f"no global is in the address space of {self.to}", "to")

    def evaluate(self, machine: Any) -> Any:
        return machine.global_address(self.name)
