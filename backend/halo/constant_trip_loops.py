"""Loops that run a known number of times, and the numbers that scalars take in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

import attrs

from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, induction_variables, loops, trip_count
from tileir.analysis.polynomial import Iteration, Symbol
from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.passes.fold import fold_op
from tileir.rewrite import Replace, Walk
from tileir.types import element_of
from tileir.values import Constant, Operand, Value, constant

_MOST = 1024
"""Rounds that are gone through one by one at most."""


@attrs.frozen
class IterationSpace:
    """`loops` around a block, outermost first, and how often each runs whatever happens."""

    loops: tuple[Loop, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(loop.header for loop in self.loops)


def rounds(function: Function, root: Loop, label: str) -> IterationSpace | None:
    """The loops from `root` down to the innermost around block `label`, where the block runs
    once in each of their rounds, of which there are a known number; else None."""
    around = list(_around(function, root, label))
    counts = [trip_count(function, loop) for loop in around]
    tree = dominance(function)
    found: list[int] = []
    for loop, trips in zip(around, counts, strict=True):
        if trips is None or not trips.count or loop.latch is None:
            return None
        if not tree.dominates(label, loop.latch) or (trips.tested_first and label == loop.header):
            return None
        found.append(trips.count)
    return IterationSpace(tuple(around), tuple(found)) if prod(found) <= _MOST else None


def _around(function: Function, root: Loop, label: str) -> Iterator[Loop]:
    by_header = loops(function).by_header
    inner = [loop for loop in by_header.values() if label in loop.blocks]
    return (loop for loop in sorted(inner, key=lambda x: x.depth) if loop.depth >= root.depth)


def numbers(
    function: Function, around: IterationSpace, wanted: Iterable[Symbol]
) -> list[dict[Symbol, int]] | None:
    """What the `wanted` symbols, which the loops change, are in every round; None where that
    depends on more than the round."""
    moving = [s for s in wanted if not isinstance(s, Iteration)]
    if not all(isinstance(s, Value) for s in moving):
        return None
    values = [s for s in moving if isinstance(s, Value)]
    starts = _starts(function, around)
    order = _computed(function, values, starts)
    if order is None:
        return None
    found: list[dict[Symbol, int]] = []
    for at in product(*map(range, around.counts)):
        which = dict(zip(around.headers, at, strict=True))
        env: dict[Value, Operand] = {
            v: constant(v.type, start + step * which[header])
            for v, (header, start, step) in starts.items()
        }
        if not all(_evaluate(op, env) for op in order):
            return None
        round_: dict[Symbol, int] = {Iteration(h): n for h, n in which.items()}
        found.append(round_ | {v: _integer(env[v]) for v in values})
    return found


def _starts(function: Function, around: IterationSpace) -> dict[Value, tuple[str, int, int]]:
    """By induction variable its loop, the number it starts with, and its step."""
    found: dict[Value, tuple[str, int, int]] = {}
    for loop in around.loops:
        for variable in induction_variables(function, loop):
            start, stride = variable.start, variable.stride
            if isinstance(start, Constant) and stride is not None:
                found[variable.value] = (loop.header, int(start.value), stride)
    return found


def _computed(
    function: Function, values: Sequence[Value], known: Mapping[Value, object]
) -> list[Op] | None:
    """The ops that compute `values` from what is `known` and from literals, in order."""
    made = definitions(function)
    order: dict[Op, None] = {}

    def reach(value: Value, depth: int) -> bool:
        op = made.get(value)
        if value in known or op in order:
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
    """Enter the results of `op`; False where it has none that are known."""
    answer = fold_op(op.remap(env), Walk({}))
    if not isinstance(answer, Replace) or answer.ops:
        return False
    env.update(zip(op.results, answer.values, strict=True))
    return all(isinstance(v, Constant) for v in answer.values)


def _integer(operand: Operand) -> int:
    assert isinstance(operand, Constant) and element_of(operand.type)
    return int(operand.value)
