"""Copies to global memory in the SIMT simulator: what they write is there once somebody has waited
until they are complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.shadow import RaceError
from tileir.textual import parse

START = """tir 1.0
stage "warp_specialized"

define kernel void @k(f32* %x, f32* %y) {num_warps = 4} {
entry:
  %m = gpu.tensor_map tensor_desc<f32<8, 32>> %x, [i32 16, i64 32], [i32 32, i64 1] {swizzle = 3}
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [2, 8, 32], swizzle = 3, panel = 32}
  %lane = make_range i32<128>
  %base = splat f32*<128> %x
  %at = getelementptr f32*<128> %base, %lane
  %other = splat f32*<128> %y
  %to = getelementptr f32*<128> %other, %lane
  %v = splat f32<8, 32> f32 3.0
  %w = splat f32<8, 32> f32 4.0
  %z = splat f32<128> f32 5.0
  gpu.local_store %v, %b, 0
  gpu.local_store %w, %b, 1
  gpu.async_fence
  gpu.barrier
"""
END = """
  gpu.tma_wait
  ret
}
"""
COPY = "gpu.tma_store %m, %b, 0, 0, 0"
LOWER = "gpu.tma_store %m, %b, 1, 8, 0"
"""Next to what the first copies."""
OVER = "gpu.tma_store %m, %b, 1, 4, 0"
ADD = "gpu.tma_store %m, %b, 0, 0, 0 {add = true}"
ADD_OVER = "gpu.tma_store %m, %b, 1, 4, 0 {add = true}"
READ = "gpu.tma_wait"
COMPLETE = "gpu.tma_wait {complete = true}"
SYNC = "gpu.barrier"
LOAD = "%r = load f32<128> %at\n  store %to, %r"
STORE = "store %at, %z"
ATOMIC = "%r = atomic_rmw f32<128> %at, %z {op = fadd, sem = relaxed}"
FETCH = """%f = gpu.mbarrier_alloc i64 addrspace(3)*
  gpu.mbarrier_expect %f, 0 {bytes = 1024}
  gpu.tma_load %m, %b, 1, %f, 0, 0, 0"""
FETCHED = "gpu.mbarrier_wait %f, 0, 0"
REFETCH = """gpu.mbarrier_expect %f, 0 {bytes = 1024}
  gpu.tma_load %m, %b, 1, %f, 0, 0, 0"""
REFETCHED = "gpu.mbarrier_wait %f, 0, 1"


def run(*lines: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """What the lines, in order, store."""
    x, y = np.zeros((16, 32), np.float32), np.zeros(128, np.float32)
    module = parse(START + "".join(f"  {line}\n" for line in lines) + END)
    SimtExecutor().launch(module, None, 1, [x, y], target="sm_90a", seed=seed)
    return x


RACES = {
    "writes where a copy writes": ((COPY, OVER), "a copy that the kernel begins writes byte 512"),
    "a copy that has read": ((COPY, READ, OVER), "a copy that the kernel begins writes byte 512"),
    "the newest is not waited for": (
        (COPY, LOWER, "gpu.tma_wait {pending = 1, complete = true}", OVER), "writes byte 1024"),
    "adds where a copy writes": ((COPY, ADD_OVER), "adds to byte 512"),
    "writes where a copy adds": ((ADD, OVER), "writes byte 512"),
    "adds and reads": ((ADD, SYNC, LOAD), "the kernel reads byte 0"),
    "adds and changes": ((ADD, SYNC, ATOMIC), "the kernel changes byte 0"),
    "reads what was read": ((COPY, READ, SYNC, LOAD), "the kernel reads byte 0"),
    "reads before threads synchronize": ((COPY, COMPLETE, LOAD), "reads byte .* thread 0 wrote"),
    "writes": ((COPY, READ, SYNC, STORE), "the kernel writes byte 0"),
    "writes before threads synchronize": ((COPY, COMPLETE, STORE), "writes byte .* thread 0 wrote"),
    "a copy reads": ((COPY, READ, FETCH, FETCHED), "a copy reads byte 0"),
    "a copy of what is being read": ((FETCH, COPY, FETCHED), "kernel writes byte 0 .* reads?"),
    "a copy of what is being read again": (
        (FETCH, FETCHED, SYNC, REFETCH, COPY, REFETCHED), "kernel writes byte 0 .* reads?"),
    "a copy of what threads read": ((LOAD, COPY), "lets a copy write byte .* thread .* read"),
    "a copy over what threads wrote": ((STORE, SYNC, COPY), "no fence"),
    "a copy over what threads changed": ((ATOMIC, COPY), "lets a copy write .* changed"),
    "a copy reads what threads wrote": ((STORE, SYNC, FETCH, FETCHED), "reads byte 0 .* no fence"),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", RACES)
def test_what_a_copy_writes_is_in_no_order_before_it_is_complete(name: str) -> None:
    lines, message = RACES[name]
    for seed in range(4):
        with pytest.raises(RaceError, match=message):
            run(*lines, seed=seed)


def test_both_places_are_reported() -> None:
    with pytest.raises(RaceError) as raised:
        run(COPY, OVER)
    first, second = (START.count("\n") + 1 + i for i in range(2))
    assert f":{second}:" in str(raised.value).split("gpu.tma_store")[0]
    assert f"gpu.tma_store at <string>:{first}:" in str(raised.value)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("lines", "first", "fifth"),
    [
        ((COPY, LOWER), 3, 3), ((COPY, COMPLETE, OVER), 3, 4), ((ADD, ADD_OVER), 3, 7),
        ((ADD, COMPLETE, ADD_OVER), 3, 7), ((COPY, COMPLETE, ADD_OVER), 3, 7),
        ((COPY, LOWER, "gpu.tma_wait {pending = 1, complete = true}", ADD), 6, 6),
        ((COPY, COMPLETE, SYNC, LOAD), 3, 3), ((COPY, COMPLETE, SYNC, STORE), 5, 3),
        ((COPY, COMPLETE, FETCH, FETCHED, SYNC, LOAD), 3, 3), ((LOAD, SYNC, COPY), 3, 3),
        ((FETCH, FETCHED, COPY), 3, 3), ((FETCH, FETCHED, SYNC, REFETCH, REFETCHED, COPY), 3, 3),
    ],
)  # fmt: skip
def test_what_is_waited_for_is_there(lines: tuple[str, ...], first: float, fifth: float) -> None:
    for seed in range(4):
        x = run(*lines, seed=seed)
        assert (x[0] == first).all() and (x[4] == fifth).all()
