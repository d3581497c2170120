"""Canonical induction variables: loops that count their iterations."""

from __future__ import annotations

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.backend.transforms.polynomial_emitter import iteration_counter
from tileir.ir import Block, Function
from tileir.ops.arith import Add
from tileir.passes.cfg_edit import append_arguments
from tileir.types import I32
from tileir.values import Operand, Value, constant


def add_canonical_induction_variables(function: Function) -> Function:
    """`function` with an iteration counter (i32, from 0 on) in every loop with one latch that has
    no counter yet."""
    for header, loop in loops(function).by_header.items():
        if loop.latch is not None and iteration_counter(function, header) is None:
            function = _add_counter(function, loop)
    return function


def _add_counter(function: Function, loop: Loop) -> Function:
    count = Value(I32, "round")
    more = Add(count, constant(I32, 1))
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        if label == loop.header:
            block = attrs.evolve(block, parameters=(*block.parameters, count))
        if label == loop.latch:
            block = attrs.evolve(block, ops=(*block.ops[:-1], more, block.ops[-1]))
            blocks[label] = _pass_argument(block, loop.header, more.result)
        else:
            blocks[label] = _pass_argument(block, loop.header, constant(I32, 0))
    return function.with_blocks(blocks)


def _pass_argument(block: Block, header: str, value: Operand) -> Block:
    last = append_arguments(block.terminator, (header,), [value])
    is_unchanged = last is block.terminator
    return block if is_unchanged else attrs.evolve(block, ops=(*block.ops[:-1], last))
