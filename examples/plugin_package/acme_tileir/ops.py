"""Ops of this package. Their mnemonics have a prefix, so that no op of tileir takes the name."""

from __future__ import annotations

from typing import Any

from tileir.op import ROUNDED, op
from tileir.ops.floats import FloatUnary
from tileir.values import constant


@op("acme.softsign")
class Softsign(FloatUnary):
    """The activation `x / (1 + |x|)`. Each of its three operations rounds once.

    `%r = acme.softsign f32<64> %x`
    """

    numerics = ROUNDED

    def evaluate(self, machine: Any, value: Any) -> Any:
        one = machine.constant(constant(self.value.type, 1.0))
        size = machine.elementwise("fabs", value)
        return machine.elementwise("fdiv", value, machine.elementwise("fadd", size, one))
