"""Replacement of loops by a single execution of their body."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.field import Successor
from tileir.ir import Block, Function, Module
from tileir.ops.control import Branch
from tileir.passes.simplify_cfg import drop_unreachable
from tileir.testing.reduction.edit import Place, with_functions
from tileir.values import Operand, Value


def tested_loops(module: Module) -> list[Place]:
    """The loops with one latch that are left from another block, outermost first."""
    return [
        (function.name, header)
        for function in module.functions.values() if function.blocks
        for header, loop in loops(function).by_header.items() if _exits_before_latch(loop)
    ]  # fmt: skip


def run_once(module: Module, places: Sequence[Place]) -> Module:
    """`module` in which the first of the loops at `places` runs its body exactly once."""
    name, header = places[0]
    function = module.functions[name]
    result = _once(function, loops(function).by_header[header])
    return with_functions(module, {name: drop_unreachable(result)})


def _exits_before_latch(loop: Loop) -> bool:
    return loop.latch is not None and len(loop.exits) == 1 and loop.exits[0][0] != loop.latch


def _once(function: Function, loop: Loop) -> Function:
    """The function with the body of the loop executed once: the block with the exit continues with
    the body, and the latch leaves the loop. Outside the loop, parameters of the header are replaced
    by the arguments of the latch."""
    leaving, latch = function.blocks[loop.exits[0][0]], function.blocks[loop.latch or ""]
    inner = next(e for e in leaving.successors if e.label in loop.blocks)
    outer = next(e for e in leaving.successors if e.label not in loop.blocks)
    back = next(e for e in latch.successors if e.label == loop.header)
    passed: dict[Value, Operand] = dict(
        zip(function.blocks[loop.header].parameters, back.arguments, strict=True)
    )
    arguments = tuple(passed.get(a, a) if type(a) is Value else a for a in outer.arguments)
    blocks = {label: _reading(b, passed) if label not in loop.blocks else b
              for label, b in function.blocks.items()}  # fmt: skip
    blocks[leaving.label] = _jumping(leaving, inner)
    blocks[latch.label] = _jumping(latch, Successor(outer.label, arguments))
    return function.with_blocks(blocks)


def _reading(block: Block, env: dict[Value, Operand]) -> Block:
    return attrs.evolve(block, ops=[op.remap(env) for op in block.ops])


def _jumping(block: Block, edge: Successor) -> Block:
    return attrs.evolve(block, ops=(*block.ops[:-1], Branch(edge)))
