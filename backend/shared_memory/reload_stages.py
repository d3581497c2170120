"""Reloading of stages: if a tile is loaded from a stage in shared memory and then converted through
shared memory, it is loaded again in the target layout instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import attrs

from tileir.analysis.uses import definitions
from tileir.backend.layouts.assign_layouts import in_layout
from tileir.backend.shared_memory.conversion_plan import conversion_bytes
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.cast import Cast
from tileir.ops.gpu import ConvertLayout, LocalLoad
from tileir.passes.dce import dce
from tileir.types import Tile
from tileir.values import Operand, Value


def reload_stages(function: Function) -> Function:
    """Load a stage again instead of converting what was loaded from it, or casts of that, if the
    conversion would go through shared memory with a barrier.

    before:
        %x = gpu.local_load f16<32, 32, #rows> %buffer, %stage
        %y = fpext f32<32, 32, #rows> %x
        %z = gpu.convert_layout f32<32, 32, #dot> %y {layout = #dot}
    after:
        %x = gpu.local_load f16<32, 32, #dot> %buffer, %stage
        %z = fpext f32<32, 32, #dot> %x

    No op between the two loads may change memory.
    """
    made_by = definitions(function)
    blocks = {label: _reload(block, made_by) for label, block in function.blocks.items()}
    if all(blocks[label] is block for label, block in function.blocks.items()):
        return function
    return dce(function.with_blocks(blocks))


def _reload(block: Block, made_by: Mapping[Value, Op]) -> Block:
    ops, unchanged = list[Op](), set[Op]()
    for op in block.ops:
        if isinstance(op, LocalLoad):
            unchanged.add(op)
        elif op.effects & (Effects.WRITE | Effects.SYNC):
            unchanged.clear()
        chain = _chain(op, made_by) if isinstance(op, ConvertLayout) else []
        if chain and chain[0] in unchanged:
            ops += _convert_chain(chain, cast(ConvertLayout, op))
        else:
            ops.append(op)
    return block if ops == [*block.ops] else attrs.evolve(block, ops=tuple(ops))


def _chain(op: ConvertLayout, made_by: Mapping[Value, Op]) -> list[Op]:
    """The op that reads what `op` converts, and the casts between them, in order; empty where there
    are none, or where the conversion needs no shared memory."""
    if op.predicate is not None or not conversion_bytes(cast(Tile, op.source.type), op.layout):
        return []
    chain, value = list[Op](), cast("Operand | None", op.source)
    while isinstance(value, Value) and (maker := made_by.get(value)) is not None:
        chain.insert(0, maker)
        if isinstance(maker, LocalLoad):
            return chain
        pure = not maker.effects & ~Effects.TRAP and maker.predicate is None
        value = maker.inputs[0] if isinstance(maker, Cast) and pure else None
    return []


def _convert_chain(chain: list[Op], conversion: ConvertLayout) -> list[Op]:
    """The ops of `chain` in the target layout of `conversion`, with its result."""
    ops, operands = list[Op](), dict[Value, Operand]()
    for op in chain:
        ops.append(in_layout(op, conversion.layout, operands))
        operands[op.results[0]] = ops[-1].results[0]
    return [*ops[:-1], attrs.evolve(ops[-1], results=conversion.results)]
