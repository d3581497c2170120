"""Hoisting of loads for the next iteration of a loop before the computation of the current one. A
program that prefetches passes loaded values to the next iteration. If it loads only after it has
computed the operands of a dot, the rest of the iteration is shorter than the latency of memory."""

from __future__ import annotations

from collections.abc import Container
from typing import cast

import attrs

from tileir.analysis.loops import Loop
from tileir.analysis.uses import definitions, passed_to, uses
from tileir.backend.layouts.shape_ops import is_layout_only
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.types import Tile
from tileir.values import Value

_MOST_BYTES = 1 << 14
"""Bytes of tiles that a block carries in registers while it computes: 32 words of each of 128
threads."""


def carried_loads(function: Function, loop: Loop) -> list[Load]:
    """The loads of tiles in the latch of `loop` whose results only the next iteration uses."""
    block = function.blocks[cast(str, loop.latch)]
    loads = [op for op in block.ops if isinstance(op, Load) and isinstance(op.result.type, Tile)]
    return [op for op in loads if not op.volatile and _is_carried(function, op, block.terminator)]


def values_of_next(function: Function, loop: Loop, load: Load) -> list[Value]:
    """The values of the next iteration that are a result of `load`, maybe in another shape."""
    terminator = function.blocks[cast(str, loop.latch)].terminator
    values, waiting = list[Value](), [*load.results]
    while waiting:
        value = waiting.pop()
        values += passed_to(function, terminator, value)
        for reader in uses(function).get(value, ()):
            waiting += reader.results if is_layout_only(reader) else ()
    return values


def hoist_loads(function: Function, loop: Loop, loads: list[Load]) -> Function:
    """`function` with `loads`, of the latch of `loop`, and what they depend on at the beginning of
    the latch. Nothing in the loop may change what they read."""
    block = function.blocks[cast(str, loop.latch)]
    position = {op: i for i, op in enumerate(block.ops)}
    hoisted: set[Op] = set()
    size = 0
    for load in loads:
        needed = movable_slice(function, load, position)
        tile = cast(Tile, load.result.type)
        size += tile.size * tile.element.bytes  # type: ignore[union-attr]
        if needed is not None and size <= _MOST_BYTES:
            hoisted |= needed
    ops = sorted(block.ops, key=lambda op: (op not in hoisted, position[op]))
    if ops == list(block.ops):
        return function
    changed = attrs.evolve(block, ops=tuple(ops))
    return function.with_blocks({**function.blocks, block.label: changed})


def _is_carried(function: Function, op: Op, terminator: Op) -> bool:
    """Whether the results of `op` reach only `terminator`, as they are or seen in another shape."""
    readers = [reader for result in op.results for reader in uses(function).get(result, ())]
    return bool(readers) and all(
        reader is terminator
        or (is_layout_only(reader) and _is_carried(function, reader, terminator))
        for reader in readers
    )


def movable_slice(function: Function, load: Op, among: Container[Op]) -> set[Op] | None:
    """The ops of `among`, a part of a block, on which `load` depends, itself among them; None if
    another one reads memory, or has effects."""
    origin, waiting, needed = definitions(function), [load], set[Op]()
    while waiting:
        op = waiting.pop()
        if op in needed:
            continue
        if op is not load and op.effects & ~Effects.TRAP:
            return None
        needed.add(op)
        sources = (origin.get(v) for v in op.operands if isinstance(v, Value))
        waiting += [source for source in sources if source is not None and source in among]
    return needed
