"""Persistent kernels: one block per multiprocessor loops over program instances."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.analysis.clusters import PERSISTENT
from tileir.backend.tma.host_expressions import host_values
from tileir.ir import Block, Function, Parameter
from tileir.op import Op, Successor
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Mul, Sub
from tileir.ops.control import Branch, CondBranch, Return
from tileir.ops.descriptor import MakeDescriptor
from tileir.ops.division import UDiv, URem
from tileir.ops.hints import Assume
from tileir.ops.program import NumPrograms, ProgramId
from tileir.passes.cfg_edit import fresh_label
from tileir.passmanager.registry import pass_
from tileir.types import I32
from tileir.values import Operand, Value, constant


@pass_("persist")
def persist(function: Function) -> Function:
    """Make a kernel persistent: each block loops over program instances.

    The kernel gets the extents of its grid as parameters. Instances are numbered as in a grid, the
    first axis fastest. With n blocks, iteration j computes the instances from j * n on: block b
    computes the b-th of them in even iterations and the (n - 1 - b)-th in odd ones. This balances
    the work of kernels whose later instances take less time. Where the work differs along the first
    axis, and the others have few indices, these are the fastest, and long instances are first. Ops
    that the host can compute stay before the loop.

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
    """A kernel made persistent, as by `persist`."""
    from tileir.backend.warp_specialize.unequal_instances import (
        UnequalLoop,
        work_along_first_axis,
    )

    sign = work_along_first_axis(function)
    loop = UnequalLoop(function, rises=sign > 0) if sign else PersistentLoop(function)
    return loop.function()


class PersistentLoop:
    """The loop of a kernel over instances. An iteration computes `instances_per_iteration`, by one
    block or by a cluster."""

    instances_per_iteration = 1

    def __init__(self, function: Function) -> None:
        self.old = function
        self.extents = [Value(I32, f"grid.{axis}") for axis in range(3)]
        self.counter, self.step = Value(I32, "instance"), Value(I32, "step")
        self.instance = self.counter
        self.labels: dict[str, str] = {}
        for name in ("instances", "instance", "next", "finished"):
            used = {*function.blocks, *self.labels.values()}
            self.labels[name] = fresh_label(name, used)

    def function(self) -> Function:
        """The kernel with its loop."""
        before, inside = self._split_entry()
        old, labels = self.old, self.labels
        first, count = ProgramId(), NumPrograms()
        total: list[Op] = []
        number: Operand = self.extents[0]
        for extent in self.extents[1:]:
            total.append(Mul(number, extent))
            number = total[-1].results[0]
        bound = self.bound(number, total)
        entry = old.entry.label
        two_steps, steps = _first_step(first.result, count.result)
        start = Branch(Successor(labels["instances"], (first.result, steps[-1].results[0])))
        steps += self.before_loop(two_steps)
        blocks = {entry: Block(entry, (), (*before, first, count, *total, *steps, start))}
        test = ICmp(self.counter, bound, predicate_=IntegerPredicate.SLT)
        choose = CondBranch(
            test.results[0], Successor(labels["instance"]), Successor(labels["finished"])
        )
        blocks[labels["instances"]] = Block(
            labels["instances"], (self.counter, self.step), (test, choose)
        )
        for label, block in old.blocks.items():
            ops = (*self.select_instance(), *inside) if label == entry else block.ops
            name = labels["instance"] if label == entry else label
            blocks[name] = self._body(attrs.evolve(block, label=name, ops=ops))
        more, step = Add(self.counter, self.step), Sub(two_steps, self.step)
        back_edge = Branch(Successor(labels["instances"], (more.result, step.result)))
        blocks[labels["next"]] = Block(labels["next"], (), (more, step, back_edge))
        blocks[labels["finished"]] = Block(labels["finished"], (), (Return(),))
        parameters = (*old.parameters, *(Parameter(v) for v in self.extents))
        attributes = {**old.attributes, PERSISTENT: self.instances_per_iteration}
        return old.evolve(parameters=parameters, blocks=blocks, attributes=attributes)

    def bound(self, count: Operand, ops: list[Op]) -> Operand:
        """The bound of the loop counter for `count` instances; `ops` are added to the entry."""
        return count

    def before_loop(self, twice: Operand) -> list[Op]:
        """More ops of the entry; `twice` is twice the number of blocks."""
        return []

    def select_instance(self) -> list[Op]:
        """The ops that select the instance of this block in an iteration."""
        return []

    def _split_entry(self) -> tuple[list[Op], tuple[Op, ...]]:
        """The ops of the entry that the host can compute, with descriptors and assumptions on their
        results; and the other ops."""
        computable = set(host_values(self.old))
        before: list[Op] = []
        inside: list[Op] = []
        for op in self.old.entry.ops:
            inputs = all(v in computable for v in op.operands if isinstance(v, Value))
            is_computable = bool(op.results) and all(v in computable for v in op.results)
            if is_computable or (inputs and isinstance(op, (MakeDescriptor, Assume))):
                before.append(op)
            else:
                inside.append(op)
        return before, tuple(inside)

    def _body(self, block: Block) -> Block:
        """A block of the old function, for the current instance of the loop."""
        ops: list[Op] = []
        for op in block.ops:
            if isinstance(op, ProgramId):
                ops += self._program_id(op)
            elif isinstance(op, NumPrograms):
                ops.append(Add(self.extents[op.axis], constant(I32, 0), results=op.results))
            elif isinstance(op, Return):
                ops.append(Branch(Successor(self.labels["next"]), location=op.location))
            else:
                ops.append(op)
        return attrs.evolve(block, ops=tuple(ops))

    def _program_id(self, op: Any) -> list[Op]:
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
    """Twice the number of blocks, which is the sum of two steps of a block; and the ops that
    compute it and, last, the first step: from number b of an iteration to n - 1 - b of the next."""
    two_steps, own = Mul(count, constant(I32, 2)), Mul(block, constant(I32, 2))
    less = Sub(two_steps.result, own.result)
    return two_steps.result, [two_steps, own, less, Sub(less.result, constant(I32, 1))]
