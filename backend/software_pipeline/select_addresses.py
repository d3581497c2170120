"""Addresses that depend on branches within a loop become selects, which can be computed ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, cast

import attrs

from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks, definitions
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Select
from tileir.ops.control import CondBranch
from tileir.ops.hints import Hint
from tileir.ops.memory import Load
from tileir.passes.cfg_edit import copy_op
from tileir.passes.dce import dce
from tileir.passes.defined_lanes import emit, spread
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.types import I1, element_of, with_element
from tileir.values import Operand, Value, constant

_MOST_OPS = 64
"""The most ops that one block recomputes."""


def select_addresses(function: Function, loop: Loop, operands: Iterable[Operand]) -> Function:
    """`function` where `operands`, addresses in `loop` and its condition, depend on no parameter of
    a block within the loop, as far as this is possible: where branches join, a select of the values
    that they pass replaces the parameter.

    A block that joins branches recomputes what its selects need of the blocks that it joins: ops on
    integers and pointers. Where a block did not run, divisors are 1, hints promise nothing, loads
    are masked off, and the select does not read what is undefined. The caller checks that nothing
    in the loop changes the memory that is read."""
    replaced = dict[Value, Operand]()
    ops = dict[str, list[Op]]()
    for label, parameters in _joins(function, loop, operands).items():
        join = _Join(function, loop, label)
        for parameter in parameters:
            selected = join.select(parameter)
            if selected is not None:
                replaced[parameter] = selected
        ops[label] = join.ops
    if not replaced:
        return function
    blocks = {
        label: attrs.evolve(
            block, ops=tuple(op.remap(replaced) for op in (*ops.get(label, ()), *block.ops))
        )
        for label, block in function.blocks.items()
    }
    return simplify_cfg(dce(function.with_blocks(blocks)))


def _joins(function: Function, loop: Loop, operands: Iterable[Operand]) -> dict[str, list[Value]]:
    """The parameters of the blocks of `loop`, but its header, that `operands` depend on."""
    origin, place = definitions(function), defining_blocks(function)
    header, latches = function.blocks[loop.header], [function.blocks[x] for x in loop.latches]
    waiting, seen = [*operands], set[Operand]()
    joins = dict[str, list[Value]]()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Value) or value in seen or place.get(value) not in loop.blocks:
            continue
        seen.add(value)
        op = origin.get(value)
        if op is not None:
            waiting += op.operands
        elif value in header.parameters:
            index = header.parameters.index(value)
            edges = (edge for latch in latches for edge in latch.successors)
            waiting += [e.arguments[index] for e in edges if e.label == loop.header]
        else:
            joins.setdefault(place[value], []).append(value)
            waiting += [edge.operand for edge in _edges(function, value)]
    return {label: joins[label] for label in loop.order if label in joins}


class _Edge(NamedTuple):
    """The edge to successor `number` of block `source`, and what it passes for a parameter."""

    source: str
    number: int
    operand: Operand


def _edges(function: Function, parameter: Value) -> Iterator[_Edge]:
    """The edges that pass a value for `parameter` of a block."""
    label = defining_blocks(function)[parameter]
    index = function.blocks[label].parameters.index(parameter)
    for source, block in function.blocks.items():
        for number, edge in enumerate(block.successors):
            if edge.label == label:
                yield _Edge(source, number, edge.arguments[index])


class _Join:
    """The ops that block `label` of a loop begins with, to select what branches pass to it."""

    def __init__(self, function: Function, loop: Loop, label: str) -> None:
        self.function, self.loop, self.label = function, loop, label
        self.ops: list[Op] = []
        self._tree = dominance(function)
        self._origin, self._place = definitions(function), defining_blocks(function)
        self._env: dict[Value, Operand] = {}
        self._budget = _MOST_OPS

    def select(self, parameter: Value) -> Operand | None:
        """The value of `parameter` of a block, computed by selects; None, without new ops, if that
        is not possible."""
        before, env = len(self.ops), dict(self._env)
        selected = self._value(parameter, is_root=True)
        if selected is None:
            self.ops, self._env = self.ops[:before], env
        return selected

    def _value(self, operand: Operand, *, is_root: bool = False) -> Operand | None:
        """The value of `operand`, of an earlier block, at the start of this block."""
        if not isinstance(operand, Value):
            return operand
        block = self._place[operand]
        if self._tree.strictly_dominates(block, self.label):
            return operand
        if operand in self._env:
            return self._env[operand]
        self._budget -= 1
        if self._budget < 0 or loops(self.function).innermost.get(block) != self.loop.header:
            return None
        op = self._origin.get(operand)
        if op is not None:
            return self._copy(op, operand)
        if block == self.label and not is_root:
            return None
        selected = self._merge([*_edges(self.function, operand)])
        if selected is not None:
            self._env[operand] = selected
        return selected

    def _copy(self, op: Op, result: Value) -> Operand | None:
        """`result` of a copy of `op`, which may run where `op` does not."""
        if not _is_cheap(op) or any(self._value(v) is None for v in op.operands):
            return None
        copied: Any = op
        if op.effects:
            runs = self._condition(self._place[result])
            if runs is None:
                return None
            if isinstance(op, Hint):
                own = None if op.predicate is None else self._env.get(op.predicate, op.predicate)  # type: ignore[arg-type]
                predicate = runs if own is None else self._and(runs, own)
                copied = attrs.evolve(copied, predicate=predicate)
            elif isinstance(op, Load):
                mask = spread(runs, with_element(op.pointer.type, I1), self.ops)
                own = None if op.mask is None else self._value(op.mask)
                mask = mask if own is None else self._and(mask, own)
                copied = attrs.evolve(copied, mask=mask)
            else:
                name, number = op.harmless  # type: ignore[misc]
                operand = cast(Operand, self._value(getattr(op, name)))
                safe = self._select(runs, operand, constant(operand.type, number))
                copied = attrs.evolve(copied, **{name: safe})
        self.ops.append(copy_op(copied, self._env))
        self._env.update(zip(op.results, self.ops[-1].results, strict=True))
        return self._env[result]

    def _merge(self, edges: Sequence[_Edge]) -> Operand | None:
        """The value that is passed if one of `edges` is, selected."""
        if len(edges) == 1:
            return self._value(edges[0].operand)
        above = reduce(self._tree.common, (edge.source for edge in edges))
        branch = self.function.blocks[above].terminator
        if not isinstance(branch, CondBranch):
            return None
        sides = [[e for e in edges if self._is_on_side(e, above, n)] for n in range(2)]
        if not all(sides) or len(sides[0]) + len(sides[1]) != len(edges):
            return None
        condition = self._value(branch.condition)
        then, otherwise = (self._merge(side) for side in sides)
        if condition is None or then is None or otherwise is None:
            return None
        return then if then is otherwise else self._select(condition, then, otherwise)

    def _is_on_side(self, edge: _Edge, above: str, number: int) -> bool:
        """Whether `edge` follows only after block `above` goes on to its successor `number`."""
        if edge.source == above:
            return edge.number == number
        return self._is_entered(above, number) and self._tree.dominates(
            self.function.blocks[above].successors[number].label, edge.source
        )

    def _is_entered(self, above: str, number: int) -> bool:
        """Whether successor `number` of block `above` has no other edges to it."""
        label = self.function.blocks[above].successors[number].label
        edges = (e.label for block in self.function.blocks.values() for e in block.successors)
        return sum(x == label for x in edges) == 1

    def _condition(self, block: str) -> Operand | None:
        """The condition that `block` ran, as a defined value; None if it is unknown."""
        runs: list[Operand] = []
        while not self._tree.strictly_dominates(block, self.label):
            above = self._tree.parent[block]
            branch = self.function.blocks[above].terminator
            if isinstance(branch, CondBranch):
                for number, edge in enumerate(branch.successors):
                    if edge.label == block and self._is_entered(above, number):
                        condition = self._value(branch.condition)
                        if condition is None:
                            return None
                        runs.append(condition if number == 0 else self._not(condition))
            block = above
        return reduce(lambda inner, outer: self._and(outer, inner), runs) if runs else None

    def _and(self, first: Operand, second: Operand) -> Operand:
        """Whether both are true; `second` may be undefined where `first` is false."""
        return self._select(first, second, constant(second.type, False))

    def _not(self, condition: Operand) -> Operand:
        return self._select(condition, constant(I1, False), constant(I1, True))

    def _select(self, condition: Operand, then: Operand, otherwise: Operand) -> Operand:
        lanes = spread(condition, with_element(then.type, I1), self.ops)
        return emit(self.ops, Select(lanes, then, otherwise))


def _is_cheap(op: Op) -> bool:
    """Whether `op` computes or loads integers or pointers, and can be made conditional."""
    if op.predicate is not None and not isinstance(op, Hint):
        return False
    plain = isinstance(op, Load) and not op.volatile
    if op.effects and not (isinstance(op, Hint) or op.harmless is not None or plain):
        return False
    floats = any(getattr(element_of(v.type), "is_float", False) for v in op.results)
    return not floats and not op.effects & ~(Effects.TRAP | Effects.READ)
