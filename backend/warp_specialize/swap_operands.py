"""Products of few rows as the transposed products of many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tileir.analysis.uses import definitions
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.descriptor import DescriptorLoad
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.ops.shape import Trans
from tileir.passes.cfg_edit import map_edges
from tileir.passes.dce import dce
from tileir.passmanager.registry import pass_
from tileir.types import Tile, Type, shape_of
from tileir.values import Constant, Operand, Value

_ROWS, _COLUMNS, _WIDEST = 64, 8, 256
"""What rows and columns of products by warpgroups are multiples of, and most columns (PTX ISA,
"Asynchronous Warpgroup Level Matrix Shape")."""


@pass_("swap-operands")
def swap_operands(function: Function) -> Function:
    """Compute a product of fewer than 64 rows transposed, where its columns are multiples of 64.

    Products by warpgroups have 64 rows, or a multiple, and as few as 8 columns. The transposed
    product has the factors exchanged, each transposed; sums that loops carry are carried so.

    before:
        define void @f(f16*<24, 16> %p, f16*<16, 64> %q, i32 %k, f32*<24, 64> %z) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %sum = phi f32<24, 64> [0.0, entry], [%more, loop]
          %x = load f16<24, 16> %p
          %y = load f16<16, 64> %q
          %more = dot f32<24, 64> %x, %y, %sum
          %j = add i32 %i, 16
          %in, _ = icmp (i1, i1) %j, %k {predicate = slt}
          cond_br %in, loop, done
        done:
          store %z, %more
          ret
        }
    after:
        define void @f(f16*<24, 16> %p, f16*<16, 64> %q, i32 %k, f32*<24, 64> %z) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %sum = phi f32<64, 24> [0.0, entry], [%2, loop]
          %x = load f16<24, 16> %p
          %y = load f16<16, 64> %q
          %0 = trans f16<64, 16> %y {order = [1, 0]}
          %1 = trans f16<16, 24> %x {order = [1, 0]}
          %2 = dot f32<64, 24> %0, %1, %sum
          %more = trans f32<24, 64> %2 {order = [1, 0]}
          %j = add i32 %i, 16
          %in, _ = icmp (i1, i1) %j, %k {predicate = slt}
          cond_br %in, loop, done
        done:
          store %z, %more
          ret
        }
    """
    dots = {op for op in function.ops if isinstance(op, Dot) and _better(function, op)}
    return dce(_Swapping(function, dots).function()) if dots else function


def _better(function: Function, dot: Dot) -> bool:
    """Whether the transposed product is one by warpgroups, and the product is not."""
    shape = shape_of(dot.c.type)
    if len(shape) != 2 or dot.predicate is not None:
        return False
    (m, n), origin = shape, definitions(function)
    few = m < _ROWS and m % _COLUMNS == 0 and n % _ROWS == 0 and n <= _WIDEST
    found: Any = origin.get(dot.a) if isinstance(dot.a, Value) else None
    while isinstance(found, Trans) and isinstance(found.value, Value):
        found = origin.get(found.value)
    return few and isinstance(found, (Load, DescriptorLoad))


@attrs.frozen(eq=False)
class _Swapping:
    old: Function
    dots: set[Dot]
    turned: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    """What is there transposed, by what it was: parameters of blocks and products."""

    def function(self) -> Function:
        """The function with its products."""
        carried = self._carried()
        for value in (*carried, *(dot.result for dot in self.dots)):
            self.turned[value] = Value(_turned(value.type), value.name if value in carried else "")
        return self.old.with_blocks({n: self._block(b) for n, b in self.old.blocks.items()})

    def _carried(self) -> set[Value]:
        """The parameters of blocks that sums of the products go through."""
        incoming: dict[Value, list[Operand]] = {}
        for block in self.old.blocks.values():
            for edge in block.successors:
                head = self.old.blocks[edge.label].parameters
                for parameter, argument in zip(head, edge.arguments, strict=True):
                    incoming.setdefault(parameter, []).append(argument)
        found: set[Value] = set()
        waiting: list[Operand] = [dot.c for dot in self.dots]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Value) and value in incoming and value not in found:
                found.add(value)
                waiting += incoming[value]
        return found

    def _block(self, block: Block) -> Block:
        ops: list[Op] = [self._back(v) for v in block.parameters if v in self.turned]
        for op in block.ops[:-1]:
            if isinstance(op, Dot) and op in self.dots:
                ops += self._product(op)
            else:
                ops.append(op)
        ops.append(map_edges(block.terminator, lambda edge: self._edge(edge, ops)))
        head = tuple(self.turned.get(v, v) for v in block.parameters)
        return attrs.evolve(block, parameters=head, ops=tuple(ops))

    def _edge(self, edge: Successor, ops: list[Op]) -> Successor:
        head = self.old.blocks[edge.label].parameters
        if not any(v in self.turned for v in head):
            return edge
        pairs = zip(head, edge.arguments, strict=True)
        return Successor(
            edge.label, tuple(self._as_turned(a, ops) if v in self.turned else a for v, a in pairs)
        )

    def _product(self, dot: Dot) -> Iterator[Op]:
        ops: list[Op] = []
        a, b, c = (self._as_turned(x, ops) for x in (dot.b, dot.a, dot.c))
        yield from ops
        yield Dot(
            a, b, c, precision=dot.precision, max_imprecise=dot.max_imprecise,
            lhs_signed=dot.rhs_signed, rhs_signed=dot.lhs_signed,
            results=(self.turned[dot.result],), location=dot.location,
        )  # fmt: skip
        yield self._back(dot.result)

    def _as_turned(self, operand: Operand, ops: list[Op]) -> Operand:
        """`operand` transposed."""
        if isinstance(operand, Constant):
            return Constant(_turned(operand.type), operand.bits)
        if isinstance(operand, Value) and operand in self.turned:
            return self.turned[operand]
        made = definitions(self.old).get(operand) if isinstance(operand, Value) else None
        if isinstance(made, Trans) and tuple(made.order) == (1, 0):
            return made.value
        ops.append(made := Trans(operand, order=(1, 0)))
        return made.result

    def _back(self, value: Value) -> Trans:
        return Trans(self.turned[value], order=(1, 0), results=(value,))


def _turned(kind: Type) -> Tile:
    assert isinstance(kind, Tile)
    return Tile(kind.element, kind.shape[::-1])
