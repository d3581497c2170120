"""Functions with large tiles that need no strip-mining: threads compute the elements of these tiles
one by one, from loads that fit their registers."""

from __future__ import annotations

from tileir.backend.demand import (
    is_large,
    max_tile_words,
    offset_tiles,
    registers,
    registers_of,
    words,
)
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.memory import Store
from tileir.ops.reduce import Reduce
from tileir.ops.shape import Broadcast, ExpandDims, MakeRange, Reshape, Splat, Trans
from tileir.values import Value

_MAX_REGISTERS = 256
_BLOCK_REGISTERS = 65536
"""32-bit registers that a thread and a multiprocessor have (CUDA C++ Programming Guide, "Technical
Specifications")."""

_MOST_REDUCED = 4
"""Loads that are only reduced may take as many times the registers of `max_tile_words`: ptxas
issues them as registers become free, and has more of them in flight than a loop over chunks."""

_STREAMED = (Broadcast, ExpandDims, MakeRange, Reduce, Reshape, Splat, Store, Trans)
"""Ops that use or make the elements of a tile one by one, as elementwise ops do."""


def fits_whole(function: Function, threads: int) -> bool:
    """Whether the values of tiles of more than `max_tile_words` that must stay in registers fit
    `threads`. These are loads, small elements packed, which may take up to that limit; and values
    that are computed before a reduction of such a tile and read after it, which may take half of
    the registers. Other values need no registers of their own: a cast of a loaded tile, for
    example, is computed where it is stored.

    Small elements that are loaded before a reduction and read after it may take all registers:
    spilling a few of them costs less than loading all of them again. If no store needs the tiles,
    few elements are in registers at a time on their way to a reduction. Loads, and values computed
    from them, may then be `_MOST_REDUCED` times as large.
    """
    return all(_block_fits_whole(block, function, threads) for block in function.blocks.values())


def fit_element_by_element(function: Function, threads: int) -> bool:
    """Whether the tiles of more than `max_tile_words` are loaded, computed and stored element by
    element, and each of them takes at most all registers of a thread (`registers_of`). ptxas then
    orders the elements so that few are live at a time."""
    limit, most = max_tile_words(threads), threads * registers_of(threads)
    offsets = offset_tiles(function)
    for op in function.ops:
        tiles = [v for v in (*op.operands, *op.results) if v not in offsets]
        largest = max((words(v.type) for v in tiles), default=0)
        if largest > most or (largest > limit and not _is_element_by_element(op)):
            return False
    return True


def _is_element_by_element(op: Op) -> bool:
    if isinstance(op, Reduce):
        return False
    streams = op.elementwise or isinstance(op, _STREAMED) or op.mnemonic == "load"
    return streams or op.is_terminator


def _block_fits_whole(block: Block, function: Function, threads: int) -> bool:
    limit = max_tile_words(threads)
    most = threads * min(_MAX_REGISTERS, _BLOCK_REGISTERS // threads) // 2
    if any(words(p.type) > limit for p in block.parameters):
        return False
    share = 2 if _are_small_and_reused(block, limit) else 1
    stored = any(isinstance(op, Store) and is_large(op, limit) for op in block.ops)
    loadable = limit * (share if stored else _MOST_REDUCED)
    last_use = {v: n for n, op in enumerate(block.ops) for v in op.operands if type(v) is Value}
    loaded, computed = 0, dict[Value, int]()
    for number, op in enumerate(block.ops):
        largest = max((words(v.type) for v in (*op.operands, *op.results)), default=0)
        if largest <= limit:
            continue
        if largest > (share * most if stored else loadable) or not (
            op.elementwise or isinstance(op, _STREAMED) or op.mnemonic == "load"
        ):
            return False
        if op.mnemonic == "load":
            loaded += registers(op.results[0].type)
        if loaded > loadable:
            return False
        if op.mnemonic == "reduce":
            live = sum(n for v, n in computed.items() if last_use.get(v, 0) > number)
            if live > max(most, min(loaded, share * limit)):
                return False
        if op.mnemonic == "load" or any(v in computed for v in op.operands if type(v) is Value):
            computed.update((v, registers(v.type)) for v in op.results)
    other_ops = (op for b in function.blocks.values() if b is not block for op in b.ops)
    return not any(v in computed for op in other_ops for v in op.operands if type(v) is Value)


def _are_small_and_reused(block: Block, limit: int) -> bool:
    """Whether a tile of more than `limit` words is reduced, and all such tiles that are loaded have
    packed elements and are read both before and after the reduction."""
    reductions = [
        n
        for n, op in enumerate(block.ops)
        if op.mnemonic == "reduce" and any(words(v.type) > limit for v in op.operands)
    ]
    loads = [
        op.results[0]
        for op in block.ops
        if op.mnemonic == "load" and words(op.results[0].type) > limit
    ]
    if len(reductions) != 1 or any(2 * registers(v.type) > words(v.type) for v in loads):
        return False
    before, after = block.ops[: reductions[0]], block.ops[reductions[0] :]
    return bool(loads) and all(
        any(v in op.operands for op in part) for v in loads for part in (before, after)
    )
