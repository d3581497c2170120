"""Swap the operands of matmuls with few rows: compute C as the transpose of B^T A^T."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tileir.analysis.uses import arguments, definitions
from tileir.backend.layouts.wgmma import COLUMNS, MOST_COLUMNS, ROWS
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


@pass_("swap-operands")
def swap_operands(function: Function) -> Function:
    """Compute a dot with M < 64 as the transpose of B^T A^T if N is a multiple of 64.

    `wgmma` has 64 rows and as few as 8 columns. The operands of the transposed dot are swapped, and
    each is transposed. Loop-carried accumulators are carried transposed.

    before:
        define void @f(f16*<24, 16> %p, f16*<16, 64> %q, i32 %k, f32*<24, 64> %z) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %acc = phi f32<24, 64> [0.0, entry], [%more, loop]
          %x = load f16<24, 16> %p
          %y = load f16<16, 64> %q
          %more = dot f32<24, 64> %x, %y, %acc
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
          %acc = phi f32<64, 24> [0.0, entry], [%2, loop]
          %x = load f16<24, 16> %p
          %y = load f16<16, 64> %q
          %0 = trans f16<64, 16> %y {order = [1, 0]}
          %1 = trans f16<16, 24> %x {order = [1, 0]}
          %2 = dot f32<64, 24> %0, %1, %acc
          %more = trans f32<24, 64> %2 {order = [1, 0]}
          %j = add i32 %i, 16
          %in, _ = icmp (i1, i1) %j, %k {predicate = slt}
          cond_br %in, loop, done
        done:
          store %z, %more
          ret
        }
    """
    dots = {op for op in function.ops if isinstance(op, Dot) and _should_swap(function, op)}
    return dce(_OperandSwapper(function, dots).function()) if dots else function


def _should_swap(function: Function, dot: Dot) -> bool:
    """Whether the transposed dot can be `wgmma`, and the dot cannot."""
    shape = shape_of(dot.c.type)
    if len(shape) != 2 or dot.predicate is not None:
        return False
    (m, n), origin = shape, definitions(function)
    few = m < ROWS and m % COLUMNS == 0 and n % ROWS == 0 and n <= MOST_COLUMNS
    source: Any = origin.get(dot.a) if isinstance(dot.a, Value) else None
    while isinstance(source, Trans) and isinstance(source.value, Value):
        source = origin.get(source.value)
    return few and isinstance(source, (Load, DescriptorLoad))


@attrs.frozen(eq=False)
class _OperandSwapper:
    old: Function
    dots: set[Dot]
    transposed: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    """The transposed value for each block parameter and result of a dot."""

    def function(self) -> Function:
        """The function with swapped dots."""
        carried = self._accumulator_parameters()
        for value in (*carried, *(dot.result for dot in self.dots)):
            self.transposed[value] = Value(
                _transposed_type(value.type), value.name if value in carried else ""
            )
        return self.old.with_blocks({n: self._block(b) for n, b in self.old.blocks.items()})

    def _accumulator_parameters(self) -> set[Value]:
        """The block parameters that carry accumulators of the dots."""
        incoming = arguments(self.old)
        parameters: set[Value] = set()
        waiting: list[Operand] = [dot.c for dot in self.dots]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Value) and value in incoming and value not in parameters:
                parameters.add(value)
                waiting += incoming[value]
        return parameters

    def _block(self, block: Block) -> Block:
        ops: list[Op] = [self._transpose_back(v) for v in block.parameters if v in self.transposed]
        for op in block.ops[:-1]:
            if isinstance(op, Dot) and op in self.dots:
                ops += self._swap_dot(op)
            else:
                ops.append(op)
        ops.append(map_edges(block.terminator, lambda edge: self._edge(edge, ops)))
        head = tuple(self.transposed.get(v, v) for v in block.parameters)
        return attrs.evolve(block, parameters=head, ops=tuple(ops))

    def _edge(self, edge: Successor, ops: list[Op]) -> Successor:
        head = self.old.blocks[edge.label].parameters
        if not any(v in self.transposed for v in head):
            return edge
        pairs = zip(head, edge.arguments, strict=True)
        return Successor(
            edge.label,
            tuple(self._transpose(a, ops) if v in self.transposed else a for v, a in pairs),
        )

    def _swap_dot(self, dot: Dot) -> Iterator[Op]:
        ops: list[Op] = []
        a, b, c = (self._transpose(x, ops) for x in (dot.b, dot.a, dot.c))
        yield from ops
        yield Dot(
            a, b, c, precision=dot.precision, max_imprecise=dot.max_imprecise,
            lhs_signed=dot.rhs_signed, rhs_signed=dot.lhs_signed,
            results=(self.transposed[dot.result],), location=dot.location,
        )  # fmt: skip
        yield self._transpose_back(dot.result)

    def _transpose(self, operand: Operand, ops: list[Op]) -> Operand:
        """`operand` transposed."""
        if isinstance(operand, Constant):
            return Constant(_transposed_type(operand.type), operand.bits)
        if isinstance(operand, Value) and operand in self.transposed:
            return self.transposed[operand]
        definition = definitions(self.old).get(operand) if isinstance(operand, Value) else None
        if isinstance(definition, Trans) and tuple(definition.order) == (1, 0):
            return definition.value
        ops.append(definition := Trans(operand, order=(1, 0)))
        return definition.result

    def _transpose_back(self, value: Value) -> Trans:
        return Trans(self.transposed[value], order=(1, 0), results=(value,))


def _transposed_type(kind: Type) -> Tile:
    assert isinstance(kind, Tile)
    return Tile(kind.element, kind.shape[::-1])
