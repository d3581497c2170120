"""Warp roles (sm_90): functions that some warps of a kernel run concurrently with the others.

They print and parse like any other op, and are outside the stability promise.
"""

from __future__ import annotations

from typing import Any

from tileir.effects import Effects
from tileir.field import INT, attribute, symbol, variadic
from tileir.op import Op, op
from tileir.signature import ANYTHING
from tileir.types import Type
from tileir.values import Operand


@op("gpu.role")
class Role(Op):
    """Run function `callee` with `arguments` on `warps` warps from warp `first` on; the other warps
    continue. `registers` is the register count of each thread of the role, 0 for that of the
    kernel. The next `gpu.join` waits for all roles. Only a kernel starts roles, and only on warps
    that run no role.

    `gpu.role @f, %x {first = 4, warps = 4, registers = 232}`
    """

    callee: str = symbol()
    arguments: tuple[Operand, ...] = variadic(ANYTHING)
    first: int = attribute(INT, default=0)
    warps: int = attribute(INT)
    registers: int = attribute(INT, default=0)
    effects_ = Effects.READ | Effects.WRITE | Effects.SYNC | Effects.OUTSIDE | Effects.TRAP
    predicable = False

    def verify(self) -> None:
        if self.first < 0 or self.warps < 1:
            raise self.fail("TIR0106", "first must be 0 or more and warps 1 or more", "warps")
        allowed = self.registers in range(24, 257, 8) and not (self.first % 4 or self.warps % 4)
        if self.registers and not allowed:
            message = "registers must be a multiple of 8 in 24 to 256, for whole warpgroups"
            raise self.fail("TIR0106", message, "registers")

    @property
    def types(self) -> tuple[Type, ...]:
        """The result types of the function: none."""
        return ()

    def evaluate(self, machine: Any, arguments: tuple[Any, ...]) -> Any:
        return machine.start_role(self, arguments)


@op("gpu.join")
class JoinRoles(Op):
    """Wait for all roles that were started.

    `gpu.join`
    """

    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    waits_for_threads = True

    def evaluate(self, machine: Any) -> Any:
        return machine.join_roles(self)
