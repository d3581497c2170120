"""Per-warpgroup stores: each warpgroup copies the rows that it owns."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.backend.demand import stated_warps
from tileir.backend.layouts.wgmma import WARPS
from tileir.backend.shared_memory.element_owners import LANES, element_owners
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.gpu import BlockBarrier, LocalStore
from tileir.ops.hopper import AsyncFence, TmaStore, TmaWait
from tileir.passmanager.registry import pass_
from tileir.types import Tile


@pass_("per-warpgroup-stores")
def per_warpgroup_stores(function: Function) -> Function:
    """Let each warpgroup store its own rows, synchronized by a named barrier.

    If each warpgroup writes only the boxes of the buffers that it stores by TMA itself, its threads
    synchronize among themselves, and one of them issues the TMA stores. A warpgroup then continues
    with the next tile while another one still stores. All warpgroups synchronize at a copy that
    waits for earlier copies to the same addresses.

    before:
        stage "layouts"
        #w = layout(rank = 2, register = [[0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]])

        define private void @consumer(f32<128, 32, #w> %x, f32 addrspace(3)* %b, tensor_desc<f32<64, 32>> %d, i32 %i) {num_warps = 8} {
        entry:
          gpu.tma_wait
          gpu.barrier
          gpu.local_store %x, %b, 0
          gpu.async_fence
          gpu.barrier
          gpu.tma_store %d, %b, 0, %i, 0
          gpu.tma_wait
          ret
        }
    after:
        stage "layouts"
        #w = layout(rank = 2, register = [[0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]])

        define private void @consumer(f32<128, 32, #w> %x, f32 addrspace(3)* %b, tensor_desc<f32<64, 32>> %d, i32 %i) {num_warps = 8} {
        entry:
          gpu.tma_wait {warpgroup = true}
          gpu.barrier {warpgroup = true}
          gpu.local_store %x, %b, 0
          gpu.async_fence
          gpu.barrier {warpgroup = true}
          gpu.tma_store %d, %b, 0, %i, 0 {warpgroup = true}
          gpu.tma_wait {warpgroup = true}
          ret
        }
    """  # noqa: E501
    groups = stated_warps(function) // WARPS
    copies = [op for op in function.ops if isinstance(op, TmaStore)]
    complete = any(isinstance(op, TmaWait) and op.complete for op in function.ops)
    if groups < 2 or not copies or complete or not all(_can_split(function, groups)):
        return function
    blocks = {label: _by_warpgroup(block) for label, block in function.blocks.items()}
    return function.with_blocks(blocks)


def _can_split(function: Function, groups: int) -> Any:
    """Whether a store belongs to a sequence that each warpgroup can execute by itself, for every
    TMA store and every store to its buffer."""
    copied = {op.buffer for op in function.ops if isinstance(op, TmaStore)}
    for block in function.blocks.values():
        stores: list[LocalStore] = []
        for index, op in enumerate(block.ops):
            if isinstance(op, LocalStore) and op.buffer in copied:
                before = (
                    isinstance(block.ops[index - 1], (BlockBarrier, LocalStore)) if index else False
                )
                stores.append(op)
                yield before
            elif isinstance(op, TmaStore):
                mine = [s for s in stores if s.buffer is op.buffer and s.stage == op.stage]
                yield bool(mine) and all(_owns_rows(s, op, groups) for s in mine)
                stores = [s for s in stores if s not in mine]
        yield not stores


def _owns_rows(store: LocalStore, copy: TmaStore, groups: int) -> bool:
    """Whether the rows of `store` that a warpgroup owns are all in the boxes of `copy` that it
    issues."""
    kind = store.value.type
    if not isinstance(kind, Tile) or len(kind.shape) != 2 or kind.layout is None:
        return False
    block = copy.descriptor.type.block  # type: ignore[union-attr]
    rows = block.size // block.shape[-1]
    if kind.shape[0] % (rows * groups):
        return False
    at, threads = element_owners(kind.layout, kind.shape, False)
    return bool((at[:, 0] // rows % groups == threads // (LANES * WARPS)).all())


def _by_warpgroup(block: Block) -> Block:
    """The block with its copies, their waits and their barriers per warpgroup."""
    ops = block.ops
    rewritten: list[Op] = []
    for index, op in enumerate(ops):
        is_part = isinstance(op, (TmaStore, TmaWait)) or (
            isinstance(op, BlockBarrier) and not op.warp and _is_part_of_copy(ops, index)
        )
        rewritten.append(op.evolve(warpgroup=True) if is_part else op)
    return attrs.evolve(block, ops=tuple(rewritten))


def _is_part_of_copy(ops: tuple[Op, ...], index: int) -> bool:
    """Whether a barrier is between a wait for copies and a store, or between a fence and a copy."""
    before = ops[index - 1] if index else None
    after = next((op for op in ops[index + 1 :] if op.effects), None)
    if isinstance(before, TmaWait):
        return isinstance(after, LocalStore)
    return isinstance(before, AsyncFence) and isinstance(after, TmaStore)
