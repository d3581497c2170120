"""Promises of the program about its values."""

from __future__ import annotations

from typing import Any

from tileir.op import INTS, Effects, Op, attribute, family, op, operand
from tileir.signature import BOOL, INDICES, POINTERS, TypeVariable
from tileir.types import shape_of
from tileir.values import Operand

T = TypeVariable("T", INDICES | POINTERS)
B = TypeVariable("T", BOOL)
_MOST = (1 << 63) - 1


@op("assume")
class Assume(Op):
    """Promise that `condition` is true in all lanes. The interpreter reports a false promise.

    `assume %c`, given `i1 %c`
    """

    condition: Operand = operand(B)
    effects_ = Effects.OUTSIDE | Effects.TRAP
    runs_on_one_thread = True
    predicate_follows_operand = True

    def evaluate(self, machine: Any, condition: Any) -> Any:
        return machine.assume(condition, self)


@family
class Hint(Op):
    """A promise about `value`, which is the result: one positive number per dimension (one for a
    scalar), in elements. A broken promise is reported."""

    value: Operand = operand(T)
    values: tuple[int, ...] = attribute(INTS)
    results_ = (T,)
    effects_ = Effects.TRAP
    is_identity = True
    shares_layout = True

    def verify(self) -> None:
        rank = len(shape_of(self.value.type)) or 1
        if len(self.values) != rank:
            message = f"values needs {rank} numbers, not {len(self.values)}"
            raise self.fail("TIR0117", message, "values")
        if min(self.values) < 1 or max(self.values) > _MOST:
            message = f"values must be in 1 to {_MOST}: {list(self.values)}"
            raise self.fail("TIR0113", message, "values")

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.hint(self.mnemonic, value, self.values, self)


@op("multiple_of")
class MultipleOf(Hint):
    """Promise that scalars, and the first element of each run of consecutive elements along each
    dimension, are multiples of `values`. A run is one that `contiguous` would state. If some
    dimension has runs, the promise does not apply to dimensions without runs. Pointers count in
    bytes.

    `%r = multiple_of i32<64> %x {values = [16]}`
    """


@op("contiguous")
class Contiguous(Hint):
    """Promise that elements along each dimension form runs of `values` elements that increase by 1
    (pointers: by one element).

    `%r = contiguous i32<64> %x {values = [16]}`
    """


@op("constant_run")
class ConstantRun(Hint):
    """Promise that elements along each dimension form runs of `values` equal elements.

    `%r = constant_run i32<64> %x {values = [16]}`
    """
