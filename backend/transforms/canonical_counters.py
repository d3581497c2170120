"""Loops that count their rounds, so that indices can be computed from the count."""

from __future__ import annotations

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.backend.transforms.polynomial_emitter import iteration_counter
from tileir.ir import Block, Function
from tileir.ops.arith import Add
from tileir.passes.cfg_edit import map_edges, with_arguments
from tileir.types import I32
from tileir.values import Operand, Value, constant


def add_canonical_induction_variables(function: Function) -> Function:
    """`function` with a number of its own in every loop of one latch that has none from 0 on."""
    for header, loop in loops(function).by_header.items():
        if loop.latch is not None and iteration_counter(function, header) is None:
            function = _counted(function, loop)
    return function


def _counted(function: Function, loop: Loop) -> Function:
    count = Value(I32, "round")
    more = Add(count, constant(I32, 1))
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        if label == loop.header:
            block = attrs.evolve(block, parameters=(*block.parameters, count))
        if label == loop.latch:
            block = attrs.evolve(block, ops=(*block.ops[:-1], more, block.ops[-1]))
            blocks[label] = _passing(block, loop.header, more.result)
        else:
            blocks[label] = _passing(block, loop.header, constant(I32, 0))
    return function.with_blocks(blocks)


def _passing(block: Block, header: str, value: Operand) -> Block:
    last = map_edges(
        block.terminator, lambda e: with_arguments(e, [value]) if e.label == header else e
    )
    same = last is block.terminator
    return block if same else attrs.evolve(block, ops=(*block.ops[:-1], last))
