"""Ops that a loop does not change, in nests of loops: what they are, and the work to list them."""

from __future__ import annotations

import random

from tests.counting import grows_linearly
from tests.sizes import for_each
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.interp.liveness import invariant_ops
from tileir.ir import Function
from tileir.op import Op
from tileir.textual import parse
from tileir.values import Operand, Value


class Nest:
    """Text of a kernel of nested loops, whose ops read any values that dominate them."""

    def __init__(self, seed: int) -> None:
        self.draw, self.lines, self.count = random.Random(seed), list[str](), 0

    def name(self) -> str:
        self.count += 1
        return str(self.count)

    def ops(self, values: list[str]) -> None:
        for _ in range(self.draw.randrange(4)):
            result = f"%v{self.name()}"
            left, right = (self.draw.choice([*values[-6:], "%x", "%y", "3"]) for _ in range(2))
            self.lines.append(f"  {result} = add i32 {left}, {right}")
            values.append(result)

    def body(self, label: str, values: list[str], deep: int) -> str:
        """Ops and loops from block `label` on; the label of the last block."""
        self.ops(values)
        while deep and self.draw.random() < 0.6:
            label = self.loop(label, values, deep - 1)
            self.ops(values)
        return label

    def loop(self, before: str, values: list[str], deep: int) -> str:
        n = self.name()
        self.lines += [f"  br h{n}", f"h{n}:", f"  %i{n} = phi i32 [0, {before}], [%n{n}, l{n}]"]
        values.append(f"%i{n}")
        self.ops(values)
        self.lines.append(f"  %c{n}, _ = icmp (i1, i1) %i{n}, %x {{predicate = slt}}")
        self.lines += [f"  cond_br %c{n}, b{n}, e{n}", f"b{n}:"]
        self.body(f"b{n}", list(values), deep)
        self.lines += [f"  br l{n}", f"l{n}:", f"  %n{n} = add i32 %i{n}, 1"]
        self.lines += [f"  br h{n}", f"e{n}:"]
        return f"e{n}"

    def kernel(self, deep: int) -> Function:
        self.body("entry", [], deep)
        head = "tir 1.0\n\ndefine kernel void @k(i32 %x, i32 %y) {\nentry:\n"
        return parse("\n".join((head, *self.lines, "  ret\n}\n"))).functions["k"]


def is_invariant(function: Function, op: Op, loop: Loop) -> bool:
    """Whether `op`, which is in `loop`, has the same operands in every iteration."""

    def same(operand: Operand) -> bool:
        origin = definitions(function).get(operand) if isinstance(operand, Value) else None
        if not isinstance(operand, Value) or label_of.get(operand) not in loop.blocks:
            return True
        return isinstance(origin, Op) and is_invariant(function, origin, loop)

    label_of = {
        value: label
        for label, block in function.blocks.items()
        for value in (*block.parameters, *(r for o in block.ops for r in o.results))
    }
    pure = op.effects is Effects.PURE and op.predicate is None and bool(op.inputs)
    return pure and all(map(same, op.operands))


@for_each("seed", range(60))
def test_invariant_ops_are_what_their_definition_says(seed: int) -> None:
    function = Nest(seed).kernel(3)
    nest, expected = loops(function), set[Op]()
    for label, block in function.blocks.items():
        loop = nest.around(label)
        if loop is not None:
            expected |= {op for op in block.ops if is_invariant(function, op, loop)}
    assert invariant_ops(function) == expected


def test_some_nests_have_ops_that_only_outer_loops_change() -> None:
    functions = [Nest(seed).kernel(3) for seed in range(60)]
    assert sum(len(invariant_ops(function)) for function in functions) > 100
    depths = [loop.depth for f in functions for loop in loops(f).by_header.values()]
    assert max(depths) == 3


class Deep(Nest):
    """Loops each inside the one before, with an op or a few in each."""

    def body(self, label: str, values: list[str], deep: int) -> str:
        self.ops(values)
        return self.loop(label, values, deep - 1) if deep else label


def test_the_work_is_linear_in_the_depth_of_a_nest() -> None:
    unread = {depth: [Deep(0).kernel(depth) for _ in range(2)] for depth in (30, 120)}
    assert grows_linearly(lambda depth: invariant_ops(unread[depth].pop()), 30)
