"""Folding of integer accumulators that exceed the register file to fewer partial results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions, uses
from tileir.backend.codegen.combiners import identity
from tileir.backend.demand import max_tile_words, words
from tileir.backend.transforms.op_builder import OpBuilder
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.rearrange import Split
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.shape import Reshape
from tileir.passes.cfg_edit import map_edges
from tileir.types import Tile
from tileir.values import Constant, Operand, Value

_COMBINERS = frozenset({"add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax"})
"""Combiners whose results depend neither on the order nor on the grouping of elements."""

_FOLDED_SHARE = 4
"""Share of the limit of strip-mining that a folded accumulator may take, as a divisor."""


def fold_accumulators(function: Function, threads: int) -> Function:
    """Fold accumulators that are reduced after their loop.

    If a loop accumulates an integer tile of more than `max_tile_words`, which is then reduced along
    its last dimension by the same combiner, the loop accumulates groups of neighbours instead: a
    histogram `sum(acc + x, axis=1)` of 16 x 1024 counters per block becomes one of 16 x 64.
    """
    for loop in loops(function).by_header.values() if not function.is_declaration else ():
        for parameter in function.blocks[loop.header].parameters:
            accumulator = _accumulator(function, loop, parameter, threads)
            if accumulator is not None:
                function = _fold(function, accumulator)
    return function


@attrs.frozen
class _Accumulator:
    """Parameter number `index` of block `header`, which starts as the neutral element; the op that
    updates it with `term`, another tile; and the type of the folded accumulator."""

    header: str
    index: int
    parameter: Value
    update: Op
    term: Operand
    folded: Tile


def _accumulator(
    function: Function, loop: Loop, parameter: Value, threads: int
) -> _Accumulator | None:
    limit, kind = max_tile_words(threads), parameter.type
    if not isinstance(kind, Tile) or words(kind) <= limit:
        return None
    index = function.blocks[loop.header].parameters.index(parameter)
    arguments = list(_arguments(function, loop, index))
    updates = {definitions(function).get(cast(Value, v)) for back, v in arguments if back}
    update = updates.pop() if len(updates) == 1 else None
    folded = _folded_type(kind, threads, limit // _FOLDED_SHARE)
    if update is None or update.mnemonic not in _COMBINERS or folded is None:
        return None
    addends = [v for v in update.inputs if v is not parameter]
    neutral = Constant(kind, identity(update.mnemonic, cast(Any, kind.element)))
    starts = all(v == neutral for back, v in arguments if not back)
    if not starts or len(addends) != 1 or update.predicate is not None:
        return None
    accumulator = _Accumulator(loop.header, index, parameter, update, addends[0], folded)
    return accumulator if _is_only_reduced(function, accumulator) else None


def _arguments(function: Function, loop: Loop, index: int) -> Iterator[tuple[bool, Operand]]:
    """The argument of each edge to the header for parameter `index`, and whether it is a back
    edge."""
    for label, block in function.blocks.items():
        for edge in block.successors:
            if edge.label == loop.header:
                yield label in loop.blocks, edge.arguments[index]


def _is_only_reduced(function: Function, accumulator: _Accumulator) -> bool:
    """Whether the accumulator is read only by its update and by reductions with the same combiner,
    and the result of the update only by the loop."""
    by_user = uses(function)
    reductions = [
        op for op in by_user.get(accumulator.parameter, ()) if op is not accumulator.update
    ]
    if not reductions or not all(_is_reduction(op, accumulator) for op in reductions):
        return False
    result = accumulator.update.results[0]
    return all(
        result not in op.inputs
        and all(
            argument is not result
            or (edge.label == accumulator.header and number == accumulator.index)
            for edge in op.successors
            for number, argument in enumerate(edge.arguments)
        )
        for op in by_user.get(result, ())
    )


def _is_reduction(op: Op, accumulator: _Accumulator) -> bool:
    return (
        isinstance(op, Reduce)
        and isinstance(op.combiner, Combiner)
        and op.combiner.value == accumulator.update.mnemonic
        and op.axis == len(accumulator.folded.shape) - 1
        and op.predicate is None
    )


def _folded_type(kind: Tile, threads: int, most: int) -> Tile | None:
    """`kind` with the last dimension halved until it takes at most `most` words or one element of
    each thread; None where that is not possible."""
    while words(kind) > most and kind.size // 2 >= threads and kind.shape[-1] % 2 == 0:
        kind = Tile(kind.element, (*kind.shape[:-1], kind.shape[-1] // 2))
    return kind if words(kind) <= most else None


def _fold(function: Function, accumulator: _Accumulator) -> Function:
    folded = Value(accumulator.folded, accumulator.parameter.name)
    builder = OpBuilder(accumulator.update)
    term = _fold_term(builder, accumulator)
    updated = builder.add(type(accumulator.update)(*cast(Any, (folded, term))))
    edges = {accumulator.parameter: folded, accumulator.update.results[0]: updated}
    blocks = {
        label: _rewrite(block, accumulator, folded, builder.ops, edges)
        for label, block in function.blocks.items()
    }
    return function.with_blocks(blocks)


def _fold_term(builder: OpBuilder, accumulator: _Accumulator) -> Operand:
    """The term, its neighbours combined until it has the type of the folded accumulator."""
    term, kind = accumulator.term, cast(Tile, accumulator.parameter.type)
    while kind is not accumulator.folded:
        kind = Tile(kind.element, (*kind.shape[:-1], kind.shape[-1] // 2))
        pairs = builder.add(Reshape(term, Tile(kind.element, (*kind.shape, 2))))
        split = Split(pairs, location=accumulator.update.location)
        builder.ops.append(split)
        term = builder.add(type(accumulator.update)(*cast(Any, split.results)))
    return term


def _rewrite(
    block: Block,
    accumulator: _Accumulator,
    folded: Value,
    update: list[Op],
    edges: dict[Value, Value],
) -> Block:
    ops = list[Op]()
    for op in block.ops:
        if op is accumulator.update:
            ops += update
        elif isinstance(op, Reduce) and accumulator.parameter in op.values:
            ops.append(attrs.evolve(op, values=(folded,)))
        else:
            ops.append(op)
    ops[-1] = map_edges(ops[-1], lambda edge: _edge(edge, accumulator, edges))
    parameters = tuple(folded if p is accumulator.parameter else p for p in block.parameters)
    return attrs.evolve(block, parameters=parameters, ops=tuple(ops))


def _edge(edge: Successor, accumulator: _Accumulator, edges: dict[Value, Value]) -> Successor:
    if edge.label != accumulator.header:
        return edge
    arguments = list(edge.arguments)
    passed = arguments[accumulator.index]
    if isinstance(passed, Constant):
        arguments[accumulator.index] = Constant(accumulator.folded, passed.bits)
    else:
        arguments[accumulator.index] = edges[cast(Value, passed)]
    return Successor(edge.label, tuple(arguments))
