"""Roles, barriers that count and copies by tensor maps, as the interpreter runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileir.errors import InterpretError
from tileir.interp import interpret
from tileir.textual import parse

RING = (Path(__file__).parents[1] / "corpus" / "hopper" / "ring.tir").read_text()
M, N, K = 200, 104, 304


def multiply(text: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (M, K)), rng.integers(-3, 4, (K, N))
    c = np.full((M, N), np.nan, np.float16)
    x, y = a.astype(np.float16).ravel(), b.astype(np.float16).ravel()
    interpret(parse(text), "product", (2, 2), [x, y, c.reshape(-1), M, N, K], seed=seed)
    assert np.array_equal(c, a @ b)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_a_ring_in_any_order(seed: int) -> None:
    multiply(RING, seed)


@pytest.mark.parametrize(
    ("line", "instead", "code", "op"),
    [
        ("gpu.mbarrier_arrive %empty, %last, %begun", "", "TIR0518", "gpu.mbarrier_wait"),
        ("gpu.tma_load %bs, %b, %slot, %full, %slot, %i, %column", "", "TIR0518", "gpu.join"),
        ("gpu.mbarrier_wait %full, %slot, %parity", "", "TIR0505", "gpu.tma_store"),
        ("{bytes = 24576}", "{bytes = 24575}", "TIR0518", "gpu.mbarrier_wait"),
        ("arrivals = 8", "arrivals = 7", "TIR0519", "gpu.mbarrier_arrive"),
        ("gpu.tma_wait", "", "TIR0520", "gpu.role"),
        ("gpu.join", "", "TIR0520", ""),
    ],
)
def test_what_is_left_out_is_found(line: str, instead: str, code: str, op: str) -> None:
    assert line in RING
    with pytest.raises(InterpretError) as caught:
        multiply(RING.replace(line, instead), 1)
    first = caught.value.diagnostics[0]
    whole = " ".join(d.message for d in (first, *first.notes))
    assert first.code == code and op in whole and (first.location or not op)


BLOCKS = """tir 1.0
stage "warp_specialized"

define kernel void @k(f32* %x) {num_warps = 4} {
entry:
  %m = gpu.tensor_map tensor_desc<f32<1, 8, 32>> %x, [i32 2, i64 512], [i32 16, i64 32], [i32 32, i64 1]
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 16, 32]}
  %row = make_range i32<16>
  %column = expand_dims i32<16, 1> %row {axis = 1}
  %rows = broadcast i32<16, 32> %column
  %v = sitofp f32<16, 32> %rows
  gpu.local_store %v, %b, 0
  gpu.async_fence
  gpu.barrier
  gpu.tma_store %m, %b, 0, 0, 4, 0 {axis = AXIS}
  gpu.tma_wait
  ret
}
"""  # noqa: E501 - a line of the text


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_of_one_stage_are_contiguous_along_the_axis(axis: int) -> None:
    x = np.full((2, 16, 32), -1, np.float32)
    interpret(parse(BLOCKS.replace("AXIS", str(axis))), "k", 1, [x.reshape(-1)])
    expected, rows = np.full((2, 16), -1), np.arange(16)
    if axis:
        expected[0, 4:] = rows[:12]  # the last rows would be beyond the tensor
    else:
        expected[:, 4:12] = rows.reshape(2, 8)
    assert (x == expected[:, :, None]).all()
