"""State carried through control flow, in block parameters at joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from tileir.analysis.cfg import cfg
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.passes.cfg_edit import append_arguments
from tileir.types import Type
from tileir.values import Operand, Value

State: TypeAlias = tuple[Operand, ...]
"""The values of the state at one program point."""

Step: TypeAlias = Callable[[Block, State], tuple[Sequence[Op], State]]
"""A function from a block and the state at its head to the new ops and the state at its end."""


def thread_state_through(
    function: Function, types: Sequence[tuple[Type, str]], initial: State, step: Step
) -> Function:
    """Rewrite every block by `step`, which reads and updates a state of `types` (each with a name
    for its values), `initial` at the entry. Every join gets parameters for the state;
    `simplify-cfg` and `dce` remove the unused ones."""
    graph = cfg(function)
    entry = function.entry.label
    heads: dict[str, State] = {}
    rewritten: dict[str, Block] = {}
    ends: dict[str, State] = {}
    for label in graph.order:
        block, predecessors = function.blocks[label], graph.predecessors[label]
        if label == entry:
            heads[label] = initial
        elif len(predecessors) == 1:
            heads[label] = ends[predecessors[0]]
        else:
            heads[label] = tuple(Value(kind, name) for kind, name in types)
            block = _with_parameters(block, heads[label])
        ops, ends[label] = step(block, heads[label])
        rewritten[label] = attrs.evolve(block, ops=tuple(ops))
    joins = {n for n in graph.order if n != entry and len(graph.predecessors[n]) > 1}
    blocks = {
        n: _pass_state(rewritten[n], ends[n], joins) for n in function.blocks if n in rewritten
    }
    return function.with_blocks(blocks)


def _with_parameters(block: Block, head: State) -> Block:
    values = tuple(v for v in head if isinstance(v, Value))
    return attrs.evolve(block, parameters=(*block.parameters, *values))


def _pass_state(block: Block, state: State, joins: set[str]) -> Block:
    """`block` with the state as arguments of its edges to joins."""
    last = append_arguments(block.terminator, joins, state)
    return attrs.evolve(block, ops=(*block.ops[:-1], last))
