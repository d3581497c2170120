"""Loops with constant trip counts, and the values of scalars in each of their iterations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

import attrs

from tileir.analysis.dominance import dominance
from tileir.analysis.induction import induction_variables, trip_count
from tileir.analysis.loops import Loop, loops
from tileir.analysis.polynomial import Iteration, Symbol
from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.passes.fold import fold_op
from tileir.rewrite import Replace, Walk
from tileir.types import element_of
from tileir.values import Constant, Operand, Value, constant

_MAX_ITERATIONS = 1024
"""The most iterations whose values are enumerated."""


@attrs.frozen
class ConstantLoopNest:
    """The loops around a block, outermost first, and their constant trip counts."""

    loops: tuple[Loop, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(loop.header for loop in self.loops)


def iteration_space(function: Function, root: Loop, label: str) -> ConstantLoopNest | None:
    """The loops from `root` down to the innermost one around block `label`; None unless their trip
    counts are constants and the block executes once per iteration."""
    nest = list(_around(function, root, label))
    counts = [trip_count(function, loop) for loop in nest]
    tree = dominance(function)
    trip_counts: list[int] = []
    for loop, trips in zip(nest, counts, strict=True):
        if trips is None or not trips.count or loop.latch is None:
            return None
        if not tree.dominates(label, loop.latch) or (trips.tested_first and label == loop.header):
            return None
        trip_counts.append(trips.count)
    return (
        ConstantLoopNest(tuple(nest), tuple(trip_counts))
        if prod(trip_counts) <= _MAX_ITERATIONS
        else None
    )


def _around(function: Function, root: Loop, label: str) -> Iterator[Loop]:
    by_header = loops(function).by_header
    inner = [loop for loop in by_header.values() if label in loop.blocks]
    return (loop for loop in sorted(inner, key=lambda x: x.depth) if loop.depth >= root.depth)


def values_per_iteration(
    function: Function, space: ConstantLoopNest, symbols: Iterable[Symbol]
) -> list[dict[Symbol, int]] | None:
    """The values of `symbols`, which vary in the loops, in every iteration; None if they depend on
    anything but the iteration."""
    moving = [s for s in symbols if not isinstance(s, Iteration)]
    if not all(isinstance(s, Value) for s in moving):
        return None
    values = [s for s in moving if isinstance(s, Value)]
    starts = _starts(function, space)
    order = _backward_slice(function, values, starts)
    if order is None:
        return None
    rows: list[dict[Symbol, int]] = []
    for at in product(*map(range, space.counts)):
        position = dict(zip(space.headers, at, strict=True))
        env: dict[Value, Operand] = {
            v: constant(v.type, start + step * position[header])
            for v, (header, start, step) in starts.items()
        }
        if not all(_evaluate(op, env) for op in order):
            return None
        row: dict[Symbol, int] = {Iteration(h): n for h, n in position.items()}
        rows.append(row | {v: _integer(env[v]) for v in values})
    return rows


def _starts(function: Function, space: ConstantLoopNest) -> dict[Value, tuple[str, int, int]]:
    """The loop header, initial value and step of each induction variable."""
    starts: dict[Value, tuple[str, int, int]] = {}
    for loop in space.loops:
        for variable in induction_variables(function, loop):
            start, stride = variable.start, variable.stride
            if isinstance(start, Constant) and stride is not None:
                starts[variable.value] = (loop.header, int(start.value), stride)
    return starts


def _backward_slice(
    function: Function, values: Sequence[Value], available: Mapping[Value, object]
) -> list[Op] | None:
    """The ops that compute `values` from `available` values and literals, in order; None where
    they depend on other values."""
    op_of = definitions(function)
    order: dict[Op, None] = {}

    def reach(value: Value, depth: int) -> bool:
        op = op_of.get(value)
        if value in available or op in order:
            return True
        if op is None or op.effects not in (Effects.PURE, Effects.TRAP) or depth > 64:
            return False
        if not op.inputs or not all(
            reach(v, depth + 1) for v in op.operands if isinstance(v, Value)
        ):
            return False
        order[op] = None
        return True

    return list(order) if all(reach(v, 0) for v in values) else None


def _evaluate(op: Op, env: dict[Value, Operand]) -> bool:
    """Add the results of `op` to `env`; False where it does not fold to constants."""
    answer = fold_op(op.remap(env), Walk({}))
    if not isinstance(answer, Replace) or answer.ops:
        return False
    env.update(zip(op.results, answer.values, strict=True))
    return all(isinstance(v, Constant) for v in answer.values)


def _integer(operand: Operand) -> int:
    assert isinstance(operand, Constant) and element_of(operand.type)
    return int(operand.value)
