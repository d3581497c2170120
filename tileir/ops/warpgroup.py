"""Ops of warpgroups on sm_90: warp-conditional arithmetic, and the order of warpgroups.

They print and parse like any other op, and are outside the stability promise.
"""

from __future__ import annotations

from typing import Any

from tileir.effects import Effects
from tileir.field import BOOL_ATTRIBUTE, INT, attribute, operand
from tileir.op import Op, op
from tileir.ops.shape import check_axis
from tileir.signature import TypeVariable, elements
from tileir.types import F32, shape_of
from tileir.values import Operand, constant

X = TypeVariable("X", elements("f32", F32), scalar=False)
Y = TypeVariable("Y", elements("f32", F32), scalar=False)


@op("gpu.conditional_scale")
class ConditionalScale(Op):
    """`value` times `factor`, as `fmul`. A warp skips the multiplication if all its factors are 1.

    `%y = gpu.conditional_scale f32<64, 8> %x, %s`, given `f32<64, 8> %x, f32<64, 8> %s`
    """

    value: Operand = operand(X)
    factor: Operand = operand(X)
    results_ = (X,)
    elementwise = True

    def evaluate(self, machine: Any, value: Any, factor: Any) -> Any:
        return machine.elementwise("fmul", value, factor)


@op("gpu.conditional_row_max")
class ConditionalRowMax(Op):
    """Update the running row maximum of an online softmax. The first result is the maximum of
    `value` along `axis` (`fmaxnum`) times `scale` where that exceeds `bound`, and `most`
    elsewhere. The second result is the factor that rescales accumulators from the old maximum to
    the new one: 2 to the power of (`most` - new maximum) times `exponent` (`exp2` with
    `fast = approx`), and 1 elsewhere. A warp in which no element exceeds `bound` skips the rest.

    `%m, %f = gpu.conditional_row_max (f32<64>, f32<64>) %x, %s, %b, %l {axis = 1}`, given `f32<64, 8> %x, f32<64> %s, f32<64> %b, f32<64> %l`
    """  # noqa: E501 - an example is one line

    value: Operand = operand(X)
    scale: Operand = operand(Y)
    bound: Operand = operand(Y)
    most: Operand = operand(Y)
    exponent: Operand = operand(Y)
    axis: int = attribute(INT, default=0)
    results_ = (Y, Y)
    predicable = False

    def verify(self) -> None:
        shape = shape_of(self.value.type)
        check_axis(self, self.axis, len(shape))
        if shape_of(self.most.type) != shape[: self.axis] + shape[self.axis + 1 :]:
            message = f"`most` must have the shape of {self.value.type} without axis {self.axis}"
            raise self.fail("TIR0112", message, "most")

    def evaluate(
        self, machine: Any, value: Any, scale: Any, bound: Any, most: Any, exponent: Any
    ) -> Any:
        largest = machine.reduce((value,), self.axis, "fmaxnum", self)
        result = machine.elementwise("fmul", largest, scale)
        more, _ = machine.compare("fcmp", "ogt", result, bound)
        level = machine.select(more, result, most)
        less = machine.elementwise("fsub", most, level)
        factor = machine.elementwise("exp2", machine.elementwise("fmul", less, exponent))
        one = machine.constant(constant(self.most.type, 1.0))
        return level, machine.select(more, factor, one)


@op("gpu.named_barrier_sync")
class NamedBarrierSync(Op):
    """Order the warpgroups of a role round-robin: wait until the previous warpgroup has executed
    `gpu.named_barrier_arrive` as often as this one has executed this op. The first warpgroup
    waits for the last one.

    `gpu.named_barrier_sync`
    """

    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    orders_async = True

    def evaluate(self, machine: Any) -> Any:
        return None


@op("gpu.named_barrier_arrive")
class NamedBarrierArrive(Op):
    """Let the next warpgroup pass its `gpu.named_barrier_sync`. With `begin` only the last
    warpgroup arrives, so that the first warpgroup starts.

    `gpu.named_barrier_arrive {begin}`
    """

    begin: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    orders_async = True

    def evaluate(self, machine: Any) -> Any:
        return None
