"""Float operations of three numbers, elementwise."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import BOOL_ATTRIBUTE, ROUNDED, Op, attribute, one_of, op, operand
from tileir.ops.floats import F, Rounding, bits_of
from tileir.values import Operand


class NanMode(Enum):
    """The NaN operands for which `clampf` returns NaN: `all` of its first operand, or `none`."""

    ALL = "all"
    NONE = "none"


@op("fma")
class Fma(Op):
    """`a * b + c` with one rounding.

    `%r = fma f32<64> %a, %b, %c`
    """

    a: Operand = operand(F)
    b: Operand = operand(F)
    c: Operand = operand(F)
    rounding: Rounding = attribute(one_of(Rounding), default=Rounding.NEAREST)
    ftz: bool = attribute(BOOL_ATTRIBUTE, default=False)
    results_ = (F,)
    elementwise = True
    numerics = ROUNDED

    def verify(self) -> None:
        bits = bits_of(self.a)
        if self.rounding is not Rounding.NEAREST and bits < 32:
            message = f"rounding = {self.rounding.value} needs f32 or f64, not {self.a.type}"
            raise self.fail("TIR0107", message, "rounding")
        if self.ftz and bits != 32:
            raise self.fail("TIR0107", f"ftz needs f32, not {self.a.type}", "ftz")

    def evaluate(self, machine: Any, a: Any, b: Any, c: Any) -> Any:
        return machine.elementwise("fma", a, b, c, rounding=self.rounding.value, ftz=self.ftz)


@op("clampf")
class ClampF(Op):
    """`value` clamped to `low` and `high`: fminnum(fmaxnum(value, low), high). With `nan = all`
    a NaN `value` stays NaN; with `nan = none` it becomes `low`.

    `%r = clampf f32<64> %x, 0.0, 6.0`
    """

    value: Operand = operand(F)
    low: Operand = operand(F)
    high: Operand = operand(F)
    nan: NanMode = attribute(one_of(NanMode), default=NanMode.ALL)
    results_ = (F,)
    elementwise = True

    def evaluate(self, machine: Any, value: Any, low: Any, high: Any) -> Any:
        return machine.elementwise("clampf", value, low, high, nan=self.nan.value)
