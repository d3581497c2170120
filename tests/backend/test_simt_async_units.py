"""Asynchronous units of the SIMT simulator: the order of copies and accesses, tensor maps, and
blocks of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.codegen.async_interface import TensorMapHandle, WgmmaStep
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.wgmma import WgmmaInstruction
from tileir.backend.simt.happens_before import AgentClock, HappensBefore, join
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.simt.shadow import RaceError, ShadowMemory
from tileir.backend.simt.tensor_maps import GlobalTensor
from tileir.backend.simt.wgmma import PendingWgmma
from tileir.textual import parse
from tileir.types import F16, F32, I32, Tile

AT = np.arange(16)

MAP = TensorMapHandle(0, Tile(F16, (8, 16)), (8, 16), 0, False)


@for_each(("base", "extents", "strides"), [
        (4096 + 8, (64, 64), (64, 1)), (4096, (64, 64), (60, 1)), (4096, (64, 64), (-64, 1)),
        (4096, (64, 64), (1 << 39, 1)), (4096, (64, 64), (64, 2)), (4096, (0, 64), (64, 1)),
        (4096, (64, 0), (64, 1)), (4096, (-1, 64), (64, 1)), (4096, ((1 << 32) + 1, 64), (64, 1)),
    ])  # fmt: skip
def test_what_no_tensor_map_describes(base: int, extents: Any, strides: Any) -> None:
    """Each for one reason: CUDA driver API, cuTensorMapEncodeTiled."""
    with pytest.raises(AssertionError, match=r"no tensor map for"):
        GlobalTensor.of(MAP, base, extents, strides)


@pytest.mark.parametrize(
    ("base", "extents", "strides"),
    [
        (4096, (64, 64), (64, 1)), (16, (1, 1), (0, 1)), (0, (1 << 32, 64), ((1 << 39) - 8, 1)),
    ],
)  # fmt: skip
def test_what_tensor_maps_describe(base: int, extents: Any, strides: Any) -> None:
    tensor = GlobalTensor.of(MAP, base, extents, strides)
    assert (tensor.base, tensor.extents, tensor.strides) == (base, extents, strides)


def agents() -> tuple[AgentClock, AgentClock]:
    order = HappensBefore(64)
    first, second = (AgentClock(order, order.agent(name)) for name in ("@one", "@two"))
    return first, second


def test_what_is_given_to_copies_orders_copies_alone() -> None:
    """A role that lets another begin copies says nothing to its threads."""
    first, second = agents()
    first.read(AT)
    proxy_order: dict[int, int] = {}
    first.give(proxy_order)
    with pytest.raises(
        RaceError, match=r"a copy that @two begins writes byte 0 .* which @one read"
    ):
        second.begin_copy(AT)
    join(second.copy_clocks, proxy_order)
    second.begin_copy(AT)
    with pytest.raises(RaceError, match=r"@two writes byte 0 .* which @one read"):
        second.write(AT)
    second.join(proxy_order)
    second.write(AT)


def test_a_copy_may_not_write_what_threads_read() -> None:
    """Since the thread that begins it has synchronized them."""
    shadow = ShadowMemory(1024, "shared memory")
    shadow.read(AT, np.full(16, 40))
    with pytest.raises(RaceError, match=r"thread 0 lets a copy write byte 0 .* thread 40 read"):
        shadow.check_write(AT, 0)
    shadow.check_write(AT, 40)
    shadow.clock.synchronize()
    shadow.check_write(AT, 0)
    shadow.write(AT, np.full(16, 40))
    with pytest.raises(RaceError, match=r"thread 0 lets a copy write byte 0 .* thread 40 wrote"):
        shadow.check_write(AT, 0)


@pytest.mark.parametrize(("reader", "fine"), [(3, True), (40, True), (127, True), (128, False)])
def test_a_barrier_of_warpgroups_orders_the_threads_of_each(reader: int, fine: bool) -> None:
    shadow = ShadowMemory(1024, "shared memory")
    shadow.write(AT, np.full(16, 3))
    shadow.clock.synchronize_groups()
    if fine:
        shadow.read(AT, np.full(16, reader))
        return
    with pytest.raises(RaceError, match=r"thread 128 reads byte 0 .* thread 3 wrote"):
        shadow.read(AT, np.full(16, reader))


STORE = """tir 1.0
stage "warp_specialized"

define kernel void @k(f16* %x) {num_warps = 4} {
entry:
  %m = gpu.tensor_map tensor_desc<f16<8, 16>> %x, [i32 8, i64 16], [i32 16, i64 1] {swizzle = 1}
  %b = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 8, 16], swizzle = 1, panel = 16}
  %v = splat f16<8, 16> f16 3.0
  gpu.local_store %v, %b, 0
  gpu.async_fence
  gpu.barrier
  gpu.tma_store %m, %b, 0, 0, 0
  gpu.tma_wait
  ret
}
"""


def launch(text: str, *arguments: Any, grid: int = 1, seed: int = 0) -> None:
    SimtExecutor().launch(parse(text), None, grid, list(arguments), target="sm_90a", seed=seed)


def test_a_tile_leaves_by_a_copy() -> None:
    x = np.zeros((8, 16), np.float16)
    launch(STORE, x)
    assert (x == 3).all()


SENDS = """tir 1.0
stage "warp_specialized"

define kernel void @k(f32* %x) {cluster = 2, num_warps = 4} {
entry:
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [2, 8, 32]}
  %sent = gpu.mbarrier_alloc i64 addrspace(3)*
  gpu.mbarrier_expect %sent, 0 {bytes = 2048}
  %rank = gpu.cluster_rank i32
  %mine = splat f32<8, 32> f32 1.0
  gpu.local_store %mine, %b, %rank
  gpu.cluster_arrive
  gpu.cluster_wait
  %peer = xor i32 %rank, 1
  %own = gpu.local_load f32<8, 32> %b, %rank
SYNCHRONIZE  %all = splat f32<16, 32> f32 2.0
  gpu.cluster_scatter %all, %b, %peer, %sent, 0 {blocks = 2}
  gpu.cluster_mbarrier_wait %sent, 0, 0
  gpu.cluster_arrive
  gpu.cluster_wait
  ret
}
"""
SYNCHRONIZE = "  gpu.cluster_arrive\n  gpu.cluster_wait\n"


def test_rows_are_sent_when_those_before_them_have_been_read() -> None:
    x = np.zeros(4, np.float32)
    for seed in range(4):
        launch(SENDS.replace("SYNCHRONIZE", SYNCHRONIZE), x, seed=seed)
        with pytest.raises(AssertionError, match=r"race: .* (writes|reads|accesses) byte"):
            launch(SENDS.replace("SYNCHRONIZE", ""), x, seed=seed)


@pytest.mark.parametrize("operand_type", ["e4m3", "s8", "f16", "tf32"])
def test_a_dot_reads_every_byte_of_its_operands(operand_type: str) -> None:
    """64 rows and 16 columns of 32 bytes, in blocks of 8 by 16 bytes, two next to each other."""
    a, b = (
        ThreadValues(np.full(128, at >> 4 | 128 >> 4 << 16 | 256 >> 4 << 32)) for at in (0, 2048)
    )
    thread = SimtThread(128, (0, 0, 0), (1, 1, 1), SimtMemory(4096))
    accumulator_type = I32 if operand_type == "s8" else F32
    work = PendingWgmma(
        thread,
        WgmmaInstruction(16, operand_type, operand_type, accumulator_type),
        [WgmmaStep(0, 0, 0, True)],
        a,
        b,
        None,
    )
    assert work.places().tolist() == list(range((64 + 16) * 32))
