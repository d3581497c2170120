"""Values that change as control flow goes, as parameters of the blocks where paths meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from tileir.analysis.cfg import cfg
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.passes.cfg_edit import map_edges, with_arguments
from tileir.types import Type
from tileir.values import Operand, Value

State: TypeAlias = tuple[Operand, ...]
"""What is carried, at one place."""

Step: TypeAlias = Callable[[Block, State], tuple[Sequence[Op], State]]
"""The new ops of a block, given what is carried at its head, and what is carried at its end."""


def thread_state_through(
    function: Function, types: Sequence[tuple[Type, str]], initial: State, step: Step
) -> Function:
    """`function` with every block as `step` gives it, which carries values of `types` (with names
    for them), `initial` at the entry. Blocks where paths meet get parameters for them, needed or
    not: `simplify-cfg` and `dce` remove those that are not."""
    graph = cfg(function)
    entry = function.entry.label
    heads: dict[str, State] = {}
    made: dict[str, Block] = {}
    ends: dict[str, State] = {}
    for label in graph.order:
        block, before = function.blocks[label], graph.predecessors[label]
        if label == entry:
            heads[label] = initial
        elif len(before) == 1:
            heads[label] = ends[before[0]]
        else:
            heads[label] = tuple(Value(kind, name) for kind, name in types)
            block = _with_parameters(block, heads[label])
        ops, ends[label] = step(block, heads[label])
        made[label] = attrs.evolve(block, ops=tuple(ops))
    meeting = {n for n in graph.order if n != entry and len(graph.predecessors[n]) > 1}
    blocks = {n: _passing(made[n], ends[n], meeting) for n in function.blocks if n in made}
    return function.with_blocks(blocks)


def _with_parameters(block: Block, head: State) -> Block:
    values = tuple(v for v in head if isinstance(v, Value))
    return attrs.evolve(block, parameters=(*block.parameters, *values))


def _passing(block: Block, end: State, meeting: set[str]) -> Block:
    """`block` passing what it carries to the blocks where paths meet."""
    last = map_edges(
        block.terminator, lambda e: with_arguments(e, end) if e.label in meeting else e
    )
    return attrs.evolve(block, ops=(*block.ops[:-1], last))
