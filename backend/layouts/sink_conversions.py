"""Sinking of conversions to the uses of their results, below loads and matmuls that are issued in
between."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Set
from typing import cast

import attrs

from tileir.analysis.liveness import liveness
from tileir.analysis.loops import loops
from tileir.analysis.uses import defining_blocks, uses
from tileir.backend.processors import MAX_REGISTERS
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.ops.shape import Broadcast, ExpandDims, Reshape
from tileir.types import Pointer, Tile
from tileir.values import Operand, Value

_CONVERT = "gpu.convert_layout"

_MATMUL = "gpu.wgmma"
"""The conversion of a tile that was loaded before would let tensor cores wait for the load."""

_ARRIVAL = "gpu.named_barrier_arrive"
"""Lets another warpgroup start a matmul. A barrier in a conversion before would let it wait."""

_SHAPES = (Broadcast, ExpandDims, Reshape)
"""Ops that only rename registers."""

_MAX_LIVE = 3 * MAX_REGISTERS // 2
"""Registers of a thread that values may take, whole tiles computed op by op, where loads are moved
up. ptxas computes a few elements at a time, in fewer: with more than these it spills what it would
otherwise not."""


def sink_conversions(function: Function) -> Function:
    """Move each conversion to the block of its users, if one block contains all of them and does
    not run more often. Within the block, move it, and casts of its result, after the last load that
    precedes their first use.

    A tile would otherwise be in registers in two layouts during a loop between its definition and
    the users of the second layout. A conversion waits for the load of what it converts, and threads
    that exchange elements wait for each other. A load after the conversion would be issued only
    then, and the latencies of the loads of several operands would add up.
    """
    function = _move_to_users(function)
    blocks = {
        label: _sink(block, _live_at_end(function, block))
        if _live_registers(function, block) <= _MAX_LIVE
        else block
        for label, block in function.blocks.items()
    }
    if all(blocks[label] is block for label, block in function.blocks.items()):
        return function
    return function.with_blocks(blocks)


def _move_to_users(function: Function) -> Function:
    """`function` with conversions moved to later blocks of the same loop."""
    place, nest, readers = defining_blocks(function), loops(function), uses(function)
    if nest.irreducible:
        return function
    moved: dict[str, list[Op]] = {}
    for op in function.ops:
        if op.mnemonic != _CONVERT or op.predicate is not None:
            continue
        result, label = op.results[0], place[op.results[0]]
        users = set(readers.get(result, ()))
        targets = [n for n, block in function.blocks.items() if not users.isdisjoint(block.ops)]
        if len(targets) != 1 or targets[0] == label:
            continue
        (target,) = targets
        same_loop = nest.innermost.get(target) == nest.innermost.get(label)
        if same_loop and _is_kept(function, cast(Value, op.operands[0]), result, target):
            moved.setdefault(target, []).append(op)
    if not moved:
        return function
    gone = {op for ops in moved.values() for op in ops}
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        ops = [op for op in block.ops if op not in gone]
        for op in moved.get(label, ()):
            at = next(i for i, user in enumerate(ops) if op.results[0] in user.operands)
            ops.insert(at, op)
        changed = len(ops) != len(block.ops) or label in moved
        blocks[label] = attrs.evolve(block, ops=tuple(ops)) if changed else block
    return function.with_blocks(blocks)


def _is_kept(function: Function, source: Value, result: Value, label: str) -> bool:
    """Whether no more registers are live where `source` is kept until block `label` in place of
    `result`."""
    return _bits(source) <= _bits(result) or source in liveness(function).entering[label]


def _sink(block: Block, leaving: Set[Value]) -> Block:
    read = {v for op in block.ops[:-1] for v in op.operands}
    loads = [n for n, op in enumerate(block.ops) if _is_issued_before(op, read)]
    movable = _movable(block, leaving)
    if not loads or not movable:
        return block
    first_use, places = dict[Value, float](), dict[Op, float]()
    for number in reversed(range(len(block.ops))):
        op, place = block.ops[number], float(number)
        if op in movable:
            use = min((first_use.get(v, len(block.ops) - 1) for v in op.results), default=number)
            preceding = bisect_left(loads, use)
            if preceding > bisect_left(loads, number):
                place = loads[preceding - 1] + 0.5
        places[op] = place
        for value in op.operands:
            if type(value) is Value:
                first_use[value] = min(place, first_use.get(value, place))
    ops = tuple(sorted(block.ops, key=lambda op: places[op]))
    return block if ops == block.ops else attrs.evolve(block, ops=ops)


def _is_issued_before(op: Op, read: Set[Operand]) -> bool:
    """Whether conversions that `op` does not need are moved after it: it loads a value that is
    `read`, starts a matmul, or lets another warpgroup start one."""
    return op.mnemonic in (_MATMUL, _ARRIVAL) or (op.mnemonic == "load" and op.results[0] in read)


def _movable(block: Block, leaving: Set[Value]) -> set[Op]:
    """The conversions of a block, and the casts and the like of what one gives, where moving them
    keeps no more registers live: those of `leaving` are live at its end anyway."""
    movable, kept = set[Op](), dict[Value, int]()
    uniform = {op.results[0] for op in block.ops if op.mnemonic == "splat"}
    readers = Counter(v for op in block.ops for v in op.operands)
    for op in block.ops:
        tiles = [v for v in op.operands if isinstance(v.type, Tile) and type(v) is Value]
        tiles = [v for v in tiles if v not in uniform]
        follows = op.mnemonic == _CONVERT or (
            (op.elementwise or isinstance(op, _SHAPES))
            and not op.effects & ~Effects.TRAP
            and any(v in kept for v in tiles)
        )
        if not follows or len(tiles) != 1:
            continue
        # A value that moves with its only reader is not live; its operands are.
        (tile,) = tiles
        bits = kept.get(tile, _bits(tile)) if readers[tile] == 1 else _bits(tile)
        bits = 0 if tile in leaving else bits
        if bits <= _bits(op.results[0]):
            movable.add(op)
            kept[op.results[0]] = bits
    return movable


def _live_at_end(function: Function, block: Block) -> Set[Value]:
    """The values that later blocks use, and the operands of the terminator."""
    passed = {v for v in block.terminator.operands if type(v) is Value}
    return liveness(function).leaving[block.label] | passed


def _live_registers(function: Function, block: Block) -> int:
    """The largest number of registers that tiles take at once in a block, without addresses."""
    alive = {v: _bits(v) for v in liveness(function).leaving[block.label]}
    total = most = sum(alive.values())
    for op in reversed(block.ops):
        total -= sum(alive.pop(v, 0) for v in op.results)
        for value in op.operands:
            if type(value) is Value and value not in alive:
                alive[value] = _bits(value)
                total += alive[value]
        most = max(most, total)
    return most // 32


def _bits(value: Value) -> int:
    """The bits of registers that a tile takes in each thread; 0 for addresses and scalars."""
    if not isinstance(value.type, Tile) or isinstance(value.type.element, Pointer):
        return 0
    return cast(Layout, value.type.layout).size("register") * value.type.element.bits
