"""Instances with unequal work along the first axis of the grid, in another order."""

from __future__ import annotations

from typing import cast

from tileir.analysis.induction import TripCount, trip_count
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions
from tileir.backend.warp_specialize.chained_matmuls import backward_slice
from tileir.backend.warp_specialize.persistent import PersistentLoop
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Mul, Select, Sub
from tileir.ops.division import UDiv, URem
from tileir.ops.program import ProgramId
from tileir.types import I1, I32
from tileir.values import Operand, Value, constant

_SHARING = 4
"""The fewest blocks that work at the same index of the other axes at once, such as on a head of
attention, whose matrices they read from the second cache."""


def work_along_first_axis(function: Function) -> int:
    """1 if a loop iterates more often the later an instance is along the first axis of the grid, -1
    if it does the less often, and 0 if that place does not decide it. A place that decides where a
    loop ends is assumed to be later the later it ends."""
    for loop in loops(function).by_header.values():
        if iterations_differ(function, loop, 0):
            counted = cast(TripCount, trip_count(function, loop))
            return 1 if _depends_on_instance(function, counted.bound, 0) else -1
    return 0


def iterations_differ(function: Function, loop: Loop, axis: int | None = None) -> bool:
    """Whether the place of an instance in the grid, along `axis` if it is stated, decides how often
    `loop` iterates, as in causal attention. Where it decides both ends, as in attention to a
    window, the number of iterations is assumed to be the same."""
    counted = trip_count(function, loop)
    if counted is None:
        return False
    ends = (counted.of.start, counted.bound)
    return len({_depends_on_instance(function, x, axis) for x in ends}) == 2


def _depends_on_instance(function: Function, operand: Operand, axis: int | None) -> bool:
    producers = definitions(function)
    read = (producers.get(value) for value in backward_slice(function, [operand]))
    return any(isinstance(x, ProgramId) and axis in (None, x.axis) for x in read)


class UnequalLoop(PersistentLoop):
    """The loop of a kernel whose instances have unequal work along the first axis, more of it for
    later ones if `rises`.

    The work of numbered instances then rises and falls, as often as the other axes have indices,
    and a block may get the long instances of each iteration. Numbered along the other axes first,
    the longest ones first, instances with equal work have neighbouring numbers, and a block gets a
    longer and a shorter one in turn. They are numbered like this where so few indices of the other
    axes share the blocks that several blocks read the same matrices at once.
    """

    def __init__(self, function: Function, *, rises: bool) -> None:
        super().__init__(function)
        self.rises = rises
        self.others, self.few = Value(I32), Value(I1)
        self.instance = Value(I32)

    def before_loop(self, twice: Operand) -> list[Op]:
        _, second, third = self.extents
        needed = Mul(self.others, constant(I32, 2 * _SHARING))
        return [
            Mul(second, third, results=(self.others,)),
            needed,
            ICmp(needed.result, twice, predicate_=IntegerPredicate.ULE,
                 results=(self.few, Value(I1))),
        ]  # fmt: skip

    def select_instance(self) -> list[Op]:
        along, other = UDiv(self.counter, self.others), URem(self.counter, self.others)
        row = Mul(other.result, self.extents[0])
        ops: list[Op] = [along, other, row]
        if self.rises:
            following = Sub(row.result, along.result)
            last = Sub(self.extents[0], constant(I32, 1))
            ops += [following, last, Add(following.result, last.result)]
        else:
            ops.append(Add(row.result, along.result))
        moved = ops[-1].results[0]
        return [*ops, Select(self.few, moved, self.counter, results=(self.instance,))]
