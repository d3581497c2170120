"""Copy stages: the producer's threads copy what they load to shared memory asynchronously."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs

from tileir.analysis.uses import uses
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import neighbours_first, vector_run
from tileir.backend.software_pipeline.vector_loads import LEAST_BYTES
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.gpu import AsyncCommit, AsyncCopy, LocalStore
from tileir.ops.memory import Load
from tileir.passmanager.registry import pass_
from tileir.types import Pointer, Tile
from tileir.values import Operand


@pass_("copy-stages")
def copy_stages(function: Function) -> Function:
    """Copy tiles to shared memory asynchronously, if they are loaded only to be stored there.

    A copy takes no registers, so that all copies of a stage are in flight at once. The pass applies
    to a load and a store before an `async_commit`, where threads copy 4 bytes or more at a time and
    masked-out elements are zero.

    before:
        stage "layouts"
        #t = layout(rank = 2, register = [[4, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[1, 0], [2, 0]])

        define private void @producer(f32*<8, 32, #t> %p, i1<8, 32, #t> %m, f32 addrspace(3)* %b, i32 %i, i64 addrspace(3)* %full) {num_warps = 4} {
        entry:
          %x = load f32<8, 32, #t> %p, %m, 0.0
          gpu.local_store %x, %b, %i {offsets = [8, 0]}
          gpu.async_commit
          gpu.async_wait
          gpu.async_fence
          gpu.mbarrier_arrive %full, %i
          ret
        }
    after:
        stage "layouts"
        #t = layout(rank = 2, register = [[4, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[1, 0], [2, 0]])

        define private void @producer(f32*<8, 32, #t> %p, i1<8, 32, #t> %m, f32 addrspace(3)* %b, i32 %i, i64 addrspace(3)* %full) {num_warps = 4} {
        entry:
          gpu.async_copy %p, %b, %i, %m {offsets = [8, 0]}
          gpu.async_commit
          gpu.async_wait
          gpu.async_fence
          gpu.mbarrier_arrive %full, %i
          ret
        }
    """  # noqa: E501
    widths = AccessWidths(function)
    blocks = {
        label: attrs.evolve(block, ops=_replace_loads(function, block.ops, widths))
        for label, block in function.blocks.items()
    }
    return attrs.evolve(function, blocks=blocks)


def _replace_loads(function: Function, ops: Sequence[Op], widths: AccessWidths) -> tuple[Op, ...]:
    """The ops of a block, with copies of tiles that are loaded only to be stored."""
    copied = _find_copies(function, ops, widths)
    loads, result = set(copied.values()), list[Op]()
    for op in ops:
        if isinstance(op, LocalStore) and op in copied:
            load = copied[op]
            result.append(
                AsyncCopy(
                    load.pointer, op.buffer, op.stage, load.mask, offsets=op.offsets,
                    location=load.location,
                )
            )  # fmt: skip
        elif op not in loads:
            result.append(op)
    return tuple(result)


def _find_copies(
    function: Function, ops: Sequence[Op], widths: AccessWidths
) -> dict[LocalStore, Load]:
    """The load of each store that can be a copy, and that an `async_commit` follows. Between a load
    and its store, other tiles are loaded and stored."""
    last = max((i for i, op in enumerate(ops) if isinstance(op, AsyncCommit)), default=0)
    loads, copied = dict[Operand, Load](), dict[LocalStore, Load]()
    for op in ops[:last]:
        if isinstance(op, Load):
            loads[op.results[0]] = op
        elif isinstance(op, LocalStore):
            if op.value in loads and _is_copy(function, loads[op.value], op, widths):
                copied[op] = loads[op.value]
        elif op.effects is not Effects.PURE:
            loads.clear()
    return copied


def _is_copy(function: Function, load: Load, store: LocalStore, widths: AccessWidths) -> bool:
    """Whether threads can copy what `load` loads and `store` stores."""
    if load.volatile or load.predicate is not None or store.columns:
        return False
    if not load.fills_with_zeros or len(uses(function)[load.results[0]]) != 1:
        return False
    tile = cast(Tile, load.pointer.type)
    size = cast(Pointer, tile.element).pointee.bytes
    return any(
        min(vector_run(neighbours_first(tile.layout, d), d), widths.width(load, d)) * size
        >= LEAST_BYTES
        for d in range(len(tile.shape))
    )
