"""Ops of sm_90: mbarriers, TMA copies, and wgmma."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any

from tileir.backend.codegen.async_interface import TensorMapHandle, WgmmaStep
from tileir.backend.codegen.emit.matrix_descriptors import SmemMatrix
from tileir.backend.codegen.emit.shared_addresses import add_terms, times
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.codegen.rules.gpu import buffer as buffer_of
from tileir.backend.codegen.tma_boxes import box_of, boxes_of, panel_of
from tileir.backend.layouts.wgmma import ROWS, WARPS, WgmmaInstruction, warpgroup, warpgroup_grid
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.ops.descriptor import Padding
from tileir.types import F32, I1, I32, I64, Tile, shape_of
from tileir.values import is_zero

_WORD = 8
"""Bytes of a barrier."""
_ADDRESS = 0x3FFFF
"""Bits of an address that a matrix descriptor encodes."""


def _tensor_map(lowering: Lowering, op: Any) -> list[Fragment]:
    maps = [x for x in lowering.function.ops if x.mnemonic == op.mnemonic]
    block: Tile = op.to.block
    try:
        box = box_of(block.shape, block.element.bytes, op.swizzle)
    except ValueError as error:
        raise lowering.refuse(op, str(error)) from error
    tensor_map = TensorMapHandle(maps.index(op), block, box, op.swizzle, op.padding is Padding.NAN)
    extents, strides = ([_wide(lowering, v) for v in op.dimensions[i::2]] for i in (0, 1))
    base = lowering.scalar(op.base)
    return [[lowering.thread.tensor_map(tensor_map, base, extents, strides, lowering.is_elected())]]


def _wide(lowering: Lowering, operand: Any) -> Any:
    """An integer as an i64."""
    return lowering.thread.convert("sext", scalar_of(operand.type), I64, lowering.scalar(operand))


# Barriers -----------------------------------------------------------------------------------


def _mbarrier_alloc(lowering: Lowering, op: Any) -> list[Fragment]:
    thread, first = lowering.thread, lowering.scratch[op]
    thread.mbarrier_init(thread.integer(first), op.count, op.arrivals, lowering.is_elected())
    if not _more_barriers(lowering, op):
        thread.mbarrier_ready()
        thread.barrier()
    return [[thread.integer(first)]]


def _more_barriers(lowering: Lowering, op: Any) -> bool:
    """Whether the next op also allocates mbarriers. That op then makes all of them visible."""
    for block in lowering.function.blocks.values():
        if op in block.ops:
            later_ops = block.ops[block.ops.index(op) + 1 :]
            following = next(x for x in later_ops if x.mnemonic != "gpu.shared_alloc")
            return following.mnemonic == op.mnemonic
    return False


def barrier_of(lowering: Lowering, op: Any, barrier: Any, index: Any) -> Any:
    """The offset of mbarrier `index` in shared memory."""
    defining_op = lowering.origin(barrier)
    if defining_op is None or defining_op.mnemonic != "gpu.mbarrier_alloc":
        raise lowering.refuse(op, "the barrier must be the result of gpu.mbarrier_alloc")
    moved = times(lowering.thread, lowering.scalar(index), _WORD)
    return add_terms(
        lowering.thread, [lowering.thread.integer(lowering.scratch[defining_op]), moved]
    )


def _mbarrier_expect(lowering: Lowering, op: Any) -> list[Fragment]:
    where = barrier_of(lowering, op, op.barrier, op.index)
    lowering.thread.mbarrier_expect(where, op.bytes, lowering.is_elected())
    return []


def _mbarrier_arrive(lowering: Lowering, op: Any) -> list[Fragment]:
    where = barrier_of(lowering, op, op.barrier, op.index)
    predicate = None if op.condition is None else lowering.scalar(op.condition)
    if op.cluster:
        lowering.thread.arrive_everywhere(where, predicate)
    else:
        lowering.thread.mbarrier_arrive(where, predicate)
    return []


def _mbarrier_wait(lowering: Lowering, op: Any) -> list[Fragment]:
    where = barrier_of(lowering, op, op.barrier, op.index)
    lowering.thread.mbarrier_wait(where, lowering.scalar(op.parity))
    return []


# Copies -------------------------------------------------------------------------------------


def _boxes(lowering: Lowering, op: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the offset in shared memory and the indices of every box of the block that `op`
    copies."""
    thread, place, start = lowering.thread, *_stage(lowering, op, op.buffer, op.stage)
    block: Tile = op.descriptor.type.block
    swizzle = _map_of(lowering, op).swizzle
    if place.panel_bytes != place.pitch * place.shape[place.slow] or place.fast != 1:
        raise lowering.refuse(op, "panels of the buffer must be whole patterns of rows along 1")
    panel = panel_of(block.shape, block.element.bytes, swizzle)
    if place.swizzle != swizzle or (place.panel or place.shape[1]) != panel:
        raise lowering.refuse(op, f"the buffer must have panels of {panel} and swizzle {swizzle}")
    if place.shape[0] * place.shape[1] % block.size or place.shape[1] != block.shape[-1]:
        raise lowering.refuse(op, f"a stage of {place.shape} for a block of {block}")
    indices = [lowering.scalar(v) for v in op.indices]
    for first, offset in boxes_of(block.shape, block.element.bytes, swizzle, place.shape[0]):
        if offset % place.alignment or place.bytes % place.alignment:
            raise lowering.refuse(op, f"boxes must begin at multiples of {place.alignment} bytes")
        moved = [_plus(thread, i, n) for i, n in zip(indices, first, strict=True)]
        yield _plus(thread, start, offset), moved


def _plus(thread: Any, x: Any, number: int) -> Any:
    return thread.binary("add", I32, x, thread.integer(number)) if number else x


def _map_of(lowering: Lowering, op: Any) -> Any:
    defining_op = lowering.origin(op.descriptor)
    if defining_op is None or defining_op.mnemonic != "gpu.tensor_map":
        raise lowering.refuse(op, "the descriptor must be the result of gpu.tensor_map")
    return defining_op


def _map(lowering: Lowering, op: Any) -> Any:
    """The tensor map that a copy uses; None if it uses none."""
    _map_of(lowering, op)
    return lowering.scalar(op.descriptor)


def _stage(lowering: Lowering, op: Any, buffer: Any, stage: Any) -> tuple[SharedTile, Any]:
    """The placement of a stage, and the offset of its first byte."""
    place = buffer_of(lowering, op, buffer)
    start = times(lowering.thread, lowering.scalar(stage), place.bytes)
    return place, add_terms(lowering.thread, [lowering.thread.integer(place.base), start])


def _tma_load(lowering: Lowering, op: Any) -> list[Fragment]:
    barrier = barrier_of(lowering, op, op.barrier, op.index)
    map_, chosen = _map(lowering, op), lowering.is_elected()
    if _guard(lowering, op) != op.multicast:
        times_ = f"{op.multicast} times " if op.multicast > 1 else ""
        raise lowering.refuse(op, f"a stage must have {times_}the extents of the block")
    if op.multicast == 1:
        for offset, indices in _boxes(lowering, op):
            lowering.thread.tma_load(map_, offset, barrier, indices, chosen)
        return []
    if op.multicast != lowering.thread.cluster:
        raise lowering.refuse(op, f"the cluster has {lowering.thread.cluster} blocks")
    rank = lowering.thread.cluster_rank()
    for offset, indices in _parts(lowering, op, rank):
        lowering.thread.tma_multicast(map_, offset, barrier, indices, chosen)
    return []


def _tma_store(lowering: Lowering, op: Any) -> list[Fragment]:
    thread, map_, chosen = lowering.thread, _map(lowering, op), _leader(lowering, op)
    for number in _blocks(lowering, op, _guard(lowering, op)):
        for offset, indices in _parts(lowering, op, number):
            thread.tma_store(map_, offset, indices, chosen, add=op.add)
    thread.tma_commit(chosen)
    return []


def _parts(lowering: Lowering, op: Any, number: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the boxes, as `_boxes` does, of block `number` of a stage, whose blocks are consecutive
    along the op's axis."""
    thread, block = lowering.thread, op.descriptor.type.block
    row = panel_of(block.shape, block.element.bytes, _map_of(lowering, op).swizzle)
    size = block.size // block.shape[-1] * row * block.element.bytes
    for offset, indices in _boxes(lowering, op):
        moved = add_terms(thread, [indices[op.axis], times(thread, number, block.shape[op.axis])])
        at = [*indices[: op.axis], moved, *indices[op.axis + 1 :]]
        yield add_terms(thread, [offset, times(thread, number, size)]), at


def _guard(lowering: Lowering, op: Any) -> int:
    """The number of blocks in a stage."""
    block: Tile = op.descriptor.type.block
    place = buffer_of(lowering, op, op.buffer)
    return place.shape[0] * place.shape[1] // block.size


def _blocks(lowering: Lowering, op: Any, count: int) -> Iterator[Any]:
    """Yield the numbers of the blocks of a stage that one thread copies."""
    thread, groups = lowering.thread, lowering.num_warps // WARPS
    if not op.warpgroup or groups < 2:
        yield from map(thread.integer, range(count))
        return
    if count % groups:
        raise lowering.refuse(op, f"{count} blocks for {groups} warpgroups")
    for first in range(0, count, groups):
        yield _plus(thread, thread.group(), first)


def _tma_wait(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.tma_wait(op.pending, _leader(lowering, op), complete=op.complete)
    return []


def _leader(lowering: Lowering, op: Any) -> Any:
    """Whether this thread executes `op` for the block, or, if `op` is per warpgroup, for its
    warpgroup."""
    if not op.warpgroup or lowering.num_warps <= WARPS:
        return lowering.is_elected()
    thread = lowering.thread
    within = thread.binary("and", I32, thread.thread(), thread.integer(WARPS * 32 - 1))
    return thread.compare("eq", I32, within, thread.integer(0))


def _async_fence(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.async_fence()
    return []


# wgmma --------------------------------------------------------------------------------------


def _wgmma(lowering: Lowering, op: Any) -> list[Fragment]:
    if not lowering.target.wgmma:
        raise lowering.refuse(op, f"{lowering.target.name} has no warpgroup matmuls")
    right = _smem_operand(lowering, op, "b", op.trans_b)
    a_in_registers = isinstance(op.a.type, Tile)
    left = None if a_in_registers else _smem_operand(lowering, op, "a", not op.trans_a)
    along_rows = (1 if left is None else left.place.fast, right.place.fast)
    kind = warpgroup(op, lowering.num_warps, along_rows)
    steps = list(_wgmma_steps(lowering, op, kind, left, right))
    along, _ = warpgroup_grid(op, lowering.num_warps)
    row = _part(lowering, along, remainder=True)
    column = _part(lowering, along, remainder=False)
    a: Any = lowering.fragment(op.a)
    if left is not None:
        a = _descriptor(lowering, op, left, (op.a, op.a_stage), row, ROWS)
    each = shape_of(op.c.type)[1] // (lowering.num_warps // 4 // along)
    b = _descriptor(lowering, op, right, (op.b, op.b_stage), column, each)
    c = None if is_zero(op.c) else lowering.fragment(op.c)
    return [lowering.thread.wgmma(kind, steps, a, b, c)]


def _smem_operand(lowering: Lowering, op: Any, name: str, k_last: bool) -> SmemMatrix:
    """An operand in a buffer; `k_last` where K is the second dimension of its stages."""
    place = buffer_of(lowering, op, getattr(op, name))
    matrix = SmemMatrix(place, k_last == (place.fast == 1))
    why = matrix.unfit()
    if why is not None:
        raise lowering.refuse(op, f"{name}: {why}")
    return matrix


def _part(lowering: Lowering, along: int, *, remainder: bool) -> Any:
    """The warpgroup's index along N, or (the remainder) along M; None if there is only one along
    that dimension."""
    thread, groups = lowering.thread, lowering.num_warps // 4
    count = along if remainder else groups // along
    if count == 1:
        return None
    if count == groups:
        return thread.group()
    name = "urem" if remainder else "udiv"
    return thread.binary(name, I32, thread.group(), thread.integer(along))


def _descriptor(
    lowering: Lowering, op: Any, matrix: SmemMatrix, operand: tuple[Any, Any], part: Any, each: int
) -> Any:
    """The matrix descriptor of the part of an operand that a warpgroup multiplies: part number
    `part`, of `each` rows or columns."""
    thread = lowering.thread
    _, start = _stage(lowering, op, *operand)
    if part is not None:
        if not matrix.reaches(each):
            raise lowering.refuse(
                op, f"no warpgroup's part of an operand may begin at {each} of an operand"
            )
        start = thread.binary("add", I32, start, times(thread, part, matrix.offset(each, 0)))
    address = thread.binary("and", I32, thread.shared_address(start), thread.integer(_ADDRESS))
    low = thread.binary("lshr", I32, address, thread.integer(4))
    wide = thread.convert("zext", I32, I64, low)
    return thread.binary("or", I64, wide, thread.constant(I64, matrix.bits))


def _wgmma_steps(
    lowering: Lowering, op: Any, kind: WgmmaInstruction, left: SmemMatrix | None, right: SmemMatrix
) -> Iterator[WgmmaStep]:
    """Yield the instructions of one warpgroup. K varies slowest, then blocks of 64 rows, then
    columns, so that consecutive instructions use different accumulators. If a thread has too few
    registers for all of them, K varies fastest: each accumulator is then spilled once."""
    m, n = shape_of(op.c.type)
    depth = _depth(lowering, op, kind, left, right)
    along, wide = warpgroup_grid(op, lowering.num_warps)
    steps, columns = depth // kind.k, n // wide
    registers = ROWS * kind.k // 128
    column_blocks = range(columns // kind.n)
    for column_block in column_blocks:
        if not right.reaches(column_block * kind.n):
            raise lowering.refuse(op, f"no wgmma may begin at column {column_block * kind.n}")
    first, count = (x // kind.k for x in op.depth or (0, depth))
    if op.depth and (first + count > steps or any(x % kind.k for x in op.depth)):
        raise lowering.refuse(op, f"depth must be multiples of {kind.k}, of a K of {depth}")
    parts = list(product(range(m // (ROWS * along)), column_blocks))
    depths = range(first, first + count)
    if _fit(lowering, kind, len(parts)):
        order = ((step, *part) for step in depths for part in parts)
    else:
        order = ((step, *part) for part in parts for step in depths)
    for step, block, column_block in order:
        a = (block * steps + step) * registers
        if left is not None:
            a = left.offset(block * ROWS * along, step * kind.k)
        first_register = (block * len(column_blocks) + column_block) * kind.accumulator_count
        yield WgmmaStep(
            first_register, a, right.offset(column_block * kind.n, step * kind.k), step == first
        )


def _fit(lowering: Lowering, kind: WgmmaInstruction, count: int) -> bool:
    """Whether the accumulators of `count` instructions fit the registers of a thread."""
    threads = lowering.num_warps * lowering.target.lanes
    words = count * kind.accumulator_count * kind.accumulator.bits // 32
    return words < lowering.target.available_registers(threads)


def _depth(
    lowering: Lowering, op: Any, kind: WgmmaInstruction, left: SmemMatrix | None, right: SmemMatrix
) -> int:
    """The extent of K, which is the same in both operands."""
    m, n = shape_of(op.c.type)
    rows, depth = shape_of(op.a.type) if left is None else left.extents
    columns, k = right.extents
    enough = columns == n or (columns > n and not right.k_contiguous)
    if (rows, depth) != (m, k) or not enough or k % kind.k:
        message = f"operands of {rows}x{depth} and {k}x{columns} for accumulators of {m}x{n}"
        raise lowering.refuse(op, f"{message}, and K a multiple of {kind.k}")
    return k


def _wgmma_wait(lowering: Lowering, op: Any) -> list[Fragment]:
    values = lowering.fragment(op.value)
    return [lowering.thread.wgmma_wait(scalar_of(op.value.type), values, op.pending)]


def _order(lowering: Lowering, op: Any) -> list[Fragment]:
    """Add up all values. The sum is unused; it only keeps the computations of the values
    together."""
    thread = lowering.thread
    handles = dict.fromkeys(lowering.fragment(op.value))
    thread.order(reduce(lambda a, b: thread.binary("fadd", F32, a, b), handles))
    return []


def _check(lowering: Lowering, op: Any) -> list[Fragment]:
    thread = lowering.thread
    wrong = thread.binary("xor", I1, lowering.scalar(op.condition), thread.constant(I1, 1))

    def stop() -> list[Any]:
        thread.trap()
        return []

    thread.when(wrong, (), stop)
    return []


RULES: dict[str, Rule] = {
    "gpu.tensor_map": _tensor_map,
    "gpu.mbarrier_alloc": _mbarrier_alloc,
    "gpu.mbarrier_expect": _mbarrier_expect,
    "gpu.mbarrier_arrive": _mbarrier_arrive,
    "gpu.mbarrier_wait": _mbarrier_wait,
    "gpu.tma_load": _tma_load,
    "gpu.tma_store": _tma_store,
    "gpu.tma_wait": _tma_wait,
    "gpu.async_fence": _async_fence,
    "gpu.wgmma": _wgmma,
    "gpu.wgmma_wait": _wgmma_wait,
    "gpu.schedule_barrier": _order,
    "gpu.device_assert": _check,
}
