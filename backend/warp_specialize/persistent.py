"""One block per multiprocessor, which works for many program instances."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.analysis.clusters import PERSISTENT
from tileir.backend.tma.host_expressions import host_values
from tileir.ir import Block, Function, Parameter
from tileir.op import Op, Successor
from tileir.ops.arith import Add, Mul, Sub, UDiv, URem
from tileir.ops.compare import ICmp, IntegerPredicate
from tileir.ops.control import Branch, CondBranch, Return
from tileir.ops.descriptor import MakeDescriptor
from tileir.ops.program import Assume, NumPrograms, ProgramId
from tileir.passes.cfg_edit import fresh_label
from tileir.passmanager.registry import pass_
from tileir.types import I32
from tileir.values import Operand, Value, constant


@pass_("persist")
def persist(function: Function) -> Function:
    """Let a block work for one program instance after the other.

    The kernel gets the extents of its grid as parameters; instances are counted as in a grid, its
    first extent fastest. Of every n of them each of n blocks works for one, block b for number b
    and in the next round for number n - 1 - b, so that where instances come to take less and less
    time all blocks have as much to do. What the host can compute stays before the loop.

    before:
        define kernel void @f(f32* %p, f32 %x) {
        entry:
          %i = program_id i32 {axis = 1}
          %q = getelementptr f32* %p, %i
          store %q, %x
          ret
        }
    after:
        define kernel void @f(f32* %p, f32 %x, i32 %grid.0, i32 %grid.1, i32 %grid.2) {persistent = 1} {
        entry:
          %0 = program_id i32
          %1 = num_programs i32
          %2 = mul i32 %grid.0, %grid.1
          %3 = mul i32 %2, %grid.2
          %4 = mul i32 %1, 2
          %5 = mul i32 %0, 2
          %6 = sub i32 %4, %5
          %7 = sub i32 %6, 1
          br instances
        instances:
          %instance = phi i32 [%0, entry], [%10, next]
          %step = phi i32 [%7, entry], [%11, next]
          %8, _ = icmp (i1, i1) %instance, %3 {predicate = slt}
          cond_br %8, instance, finished
        instance:
          %9 = udiv i32 %instance, %grid.0
          %i = urem i32 %9, %grid.1
          %q = getelementptr f32* %p, %i
          store %q, %x
          br next
        next:
          %10 = add i32 %instance, %step
          %11 = sub i32 %4, %step
          br instances
        finished:
          ret
        }
    """  # noqa: E501
    return make_persistent(function) if function.kernel and function.blocks else function


def make_persistent(function: Function) -> Function:
    """The same for a kernel."""
    return PersistentLoop(function).function()


class PersistentLoop:
    """A kernel's loop over instances, `together` of which come to a block, or a cluster of them, at
    once."""

    together = 1

    def __init__(self, function: Function) -> None:
        self.old = function
        self.extents = [Value(I32, f"grid.{axis}") for axis in range(3)]
        self.counter, self.step = Value(I32, "instance"), Value(I32, "step")
        self.instance = self.counter
        self.labels: dict[str, str] = {}
        for name in ("instances", "instance", "next", "finished"):
            taken = {*function.blocks, *self.labels.values()}
            self.labels[name] = fresh_label(name, taken)

    def function(self) -> Function:
        """The kernel with its loop."""
        early, late = self._parted()
        old, labels = self.old, self.labels
        first, count = ProgramId(), NumPrograms()
        total: list[Op] = []
        number: Operand = self.extents[0]
        for extent in self.extents[1:]:
            total.append(Mul(number, extent))
            number = total[-1].results[0]
        bound = self.bound(number, total)
        entry = old.entry.label
        twice, steps = _first_step(first.result, count.result)
        start = Branch(Successor(labels["instances"], (first.result, steps[-1].results[0])))
        blocks = {entry: Block(entry, (), (*early, first, count, *total, *steps, start))}
        test = ICmp(self.counter, bound, predicate_=IntegerPredicate.SLT)
        choose = CondBranch(
            test.results[0], Successor(labels["instance"]), Successor(labels["finished"])
        )
        blocks[labels["instances"]] = Block(
            labels["instances"], (self.counter, self.step), (test, choose)
        )
        for label, block in old.blocks.items():
            ops = (*self.taken(), *late) if label == entry else block.ops
            name = labels["instance"] if label == entry else label
            blocks[name] = self._body(attrs.evolve(block, label=name, ops=ops))
        more, step = Add(self.counter, self.step), Sub(twice, self.step)
        again = Branch(Successor(labels["instances"], (more.result, step.result)))
        blocks[labels["next"]] = Block(labels["next"], (), (more, step, again))
        blocks[labels["finished"]] = Block(labels["finished"], (), (Return(),))
        parameters = (*old.parameters, *(Parameter(v) for v in self.extents))
        attributes = {**old.attributes, PERSISTENT: self.together}
        return old.evolve(parameters=parameters, blocks=blocks, attributes=attributes)

    def bound(self, count: Operand, ops: list[Op]) -> Operand:
        """What instances are counted to, of which there are `count`; `ops` come to the entry."""
        return count

    def taken(self) -> list[Op]:
        """Which instance is this block's, of those that it comes to at once."""
        return []

    def _parted(self) -> tuple[list[Op], tuple[Op, ...]]:
        """The entry's ops that the host can compute, with the descriptors made of them and what is
        assumed of them; and the others."""
        known = set(host_values(self.old))
        early: list[Op] = []
        late: list[Op] = []
        for op in self.old.entry.ops:
            inputs = all(v in known for v in op.operands if isinstance(v, Value))
            made = bool(op.results) and all(v in known for v in op.results)
            if made or (inputs and isinstance(op, (MakeDescriptor, Assume))):
                early.append(op)
            else:
                late.append(op)
        return early, tuple(late)

    def _body(self, block: Block) -> Block:
        """A block of the old function, for the instance that the loop is at."""
        ops: list[Op] = []
        for op in block.ops:
            if isinstance(op, ProgramId):
                ops += self._place(op)
            elif isinstance(op, NumPrograms):
                ops.append(Add(self.extents[op.axis], constant(I32, 0), results=op.results))
            elif isinstance(op, Return):
                ops.append(Branch(Successor(self.labels["next"]), location=op.location))
            else:
                ops.append(op)
        return attrs.evolve(block, ops=tuple(ops))

    def _place(self, op: Any) -> list[Op]:
        """The instance's index along an axis."""
        ops: list[Op] = []
        index: Operand = self.instance
        for extent in self.extents[: op.axis]:
            ops.append(UDiv(index, extent))
            index = ops[-1].results[0]
        if op.axis < 2:
            ops.append(URem(index, self.extents[op.axis]))
            index = ops[-1].results[0]
        if not ops:
            ops.append(Add(index, constant(I32, 0)))
        ops[-1] = attrs.evolve(ops[-1], results=op.results, location=op.location)
        return ops


def _first_step(block: Value, count: Value) -> tuple[Value, list[Op]]:
    """Twice the number of blocks, which two steps of a block add up to; and what computes that and,
    last, the first step: from number b of a round to number n - 1 - b of the next."""
    twice, own = Mul(count, constant(I32, 2)), Mul(block, constant(I32, 2))
    less = Sub(twice.result, own.result)
    return twice.result, [twice, own, less, Sub(less.result, constant(I32, 1))]
