"""Ops of warpgroups of sm_90: what a warp leaves out, and whose turn it is.

They print and parse like any other op, and are outside the stability promise.
"""

from __future__ import annotations

from typing import Any

from tileir.effects import Effects
from tileir.field import BOOL_ATTRIBUTE, attribute, operand
from tileir.op import Op, op
from tileir.signature import Var, elements
from tileir.types import F32
from tileir.values import Operand

X = Var("X", elements("f32", F32), scalar=False)


@op("gpu.scale")
class Scale(Op):
    """`value` times `factor`, as `fmul`; a warp whose factors are all 1 leaves its part as it is.

    `%y = gpu.scale f32<64, 8> %x, %s`, given `f32<64, 8> %x, f32<64, 8> %s`
    """

    value: Operand = operand(X)
    factor: Operand = operand(X)
    results_ = (X,)
    elementwise = True

    def evaluate(self, machine: Any, value: Any, factor: Any) -> Any:
        return machine.elementwise("fmul", value, factor)


@op("gpu.take_turn")
class TakeTurn(Op):
    """The warpgroups of a role come by here in turns, each after the one before it has come by
    `gpu.pass_turn` as often as it itself by here, the first after the last.

    `gpu.take_turn`
    """

    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False

    def evaluate(self, machine: Any) -> Any:
        return None


@op("gpu.pass_turn")
class PassTurn(Op):
    """It is the next warpgroup's turn. With `begin` only the last warpgroup does so: it is the
    first one's.

    `gpu.pass_turn {begin}`
    """

    begin: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False

    def evaluate(self, machine: Any) -> Any:
        return None
