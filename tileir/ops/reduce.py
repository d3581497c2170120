"""Reductions and scans along one dimension, and histograms."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import (
    BOOL_ATTRIBUTE,
    INT,
    Effects,
    Numerics,
    Op,
    attribute,
    combiner,
    family,
    op,
    operand,
    optional,
    result_type,
    variadic,
)
from tileir.ops.shape import check_axis, with_shape
from tileir.signature import (
    ANY_ELEMENT,
    FLOATS,
    INDICES,
    INTEGERS,
    Bindings,
    Each,
    Shaped,
    TypeVariable,
)
from tileir.types import I1, Type, element_of, shape_of
from tileir.values import Operand

X = TypeVariable("X", INDICES, scalar=False)
BINS = TypeVariable("R", INDICES, scalar=False)


class Combiner(Enum):
    """The named combiners: those ops of two operands that are associative and commutative."""

    ADD = "add"
    MUL = "mul"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SMIN = "smin"
    SMAX = "smax"
    UMIN = "umin"
    UMAX = "umax"
    FADD = "fadd"
    FMUL = "fmul"
    FMINIMUM = "fminimum"
    FMAXIMUM = "fmaximum"
    FMINNUM = "fminnum"
    FMAXNUM = "fmaxnum"

    @property
    def of_floats(self) -> bool:
        """Whether it combines floats; the others combine integers."""
        return self.value[0] == "f"


FLOAT_EXTREMES = (Combiner.FMINNUM, Combiner.FMAXNUM, Combiner.FMINIMUM, Combiner.FMAXIMUM)
"""Combiners whose result is one of the operands, whichever type these are extended to."""


@family
class Combining(Op):
    """Values of one shape, combined along `axis` by a named combiner or by a function of the
    module that takes two scalars per value, first all of one side, and returns one per value."""

    values: tuple[Operand, ...] = variadic(Each(ANY_ELEMENT, scalar=False))
    axis: int = attribute(INT, default=0)
    combiner: Combiner | str = attribute(combiner(Combiner))
    predicate_follows_operand = True
    numerics = Numerics(ulp=None)

    def verify(self) -> None:
        if not self.values:
            raise self.fail("TIR0117", "at least one operand is needed", "values")
        shape = shape_of(self.values[0].type)
        for value in self.values:
            if shape_of(value.type) != shape:
                message = f"operands have one shape: {value.type} and {self.values[0].type}"
                raise self.fail("TIR0112", message, "values")
        check_axis(self, self.axis, len(shape))
        if isinstance(self.combiner, Combiner):
            self._check_named(self.combiner)

    def _check_named(self, combiner: Combiner) -> None:
        if len(self.values) != 1:
            message = f"{combiner.value} takes one operand; name a function for several"
            raise self.fail("TIR0117", message, "values")
        element = element_of(self.values[0].type)
        allowed = FLOATS if combiner.of_floats else INTEGERS
        if element not in allowed:
            message = f"{combiner.value} combines {allowed.name} elements, not {element}"
            raise self.fail("TIR0115", message, "combiner")

    @property
    def effects(self) -> Effects:
        return Effects.PURE

    def _name(self) -> str:
        combiner = self.combiner
        return combiner.value if isinstance(combiner, Combiner) else f"@{combiner}"


@op("reduce")
class Reduce(Combining):
    """Combine all elements along `axis`, which is dropped. The combiner is associative and
    commutative. Floats may be added in any order: the error is at most (n - 1) half-ulps of the
    total of magnitudes. The interpreter's order is defined in `tileir.machine`: `reductions` for
    named combiners, `folds` for functions (the upper half onto the lower half until one element is
    left). Under a predicate only its lanes take part; if none does, the result is undefined.

    `%s = reduce f32<16> %x {axis = 1, combiner = fadd}`, given `f32<16, 64> %x`
    """

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        shape = shape_of(self.values[0].type)
        dropped = shape[: self.axis] + shape[self.axis + 1 :]
        return tuple([with_shape(v.type, dropped) for v in self.values])

    def evaluate(self, machine: Any, values: tuple[Any, ...]) -> Any:
        return machine.reduce(values, self.axis, self._name(), self)


@op("scan")
class Scan(Combining):
    """Combine each element with all elements before it along `axis`, or after it with `reverse`:
    inclusive prefixes. The combiner is associative; floats may be added in any order. The
    interpreter doubles the distance in each step (Hillis and Steele). Lanes whose predicate is
    false are skipped and undefined.

    `%s = scan f32<64> %x {combiner = fadd, reverse = true}`
    """

    reverse: bool = attribute(BOOL_ATTRIBUTE, default=False)
    shares_layout = True

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return tuple([with_shape(v.type, shape_of(v.type)) for v in self.values])

    def evaluate(self, machine: Any, values: tuple[Any, ...]) -> Any:
        return machine.scan(values, self.axis, self._name(), self.reverse, self)


@op("histogram")
class Histogram(Op):
    """Count the elements of `value` that equal 0, 1, ..., up to the extent of the result. The
    elements are unsigned. Those out of range, and those where `mask` is false, are not counted.

    `%h = histogram i32<16> %x, %m`, given `i32<64> %x, i1<64> %m`
    """

    value: Operand = operand(X)
    to: Type = result_type(BINS)
    mask: Operand | None = optional(Shaped(I1, X))
    results_ = (BINS,)
    predicate_follows_operand = True

    def verify(self) -> None:
        if len(shape_of(self.to)) != 1:
            raise self.fail("TIR0112", f"the result must have one dimension: {self.to}", "to")

    def evaluate(self, machine: Any, value: Any, mask: Any) -> Any:
        return machine.histogram(value, mask, self.to)
