"""Ops of warpgroups: what warps leave out, and ordered dots."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileir.backend
from tileir.backend.compile import run_pipeline
from tileir.backend.options import Options
from tileir.backend.simt import machine as simt
from tileir.backend.target import target
from tileir.builder import F32, Builder, arg, pointer
from tileir.interp import interpret
from tileir.ir import Module
from tileir.testing.kernels import attention
from tileir.textual import parse, print_module

SCALING = """
tir 1.0
stage "warp_specialized"
define kernel void @scaling(f32* %x, f32* %s, f32* %y) {num_warps = 4} {
entry:
  %r = make_range i32<64>
  %c = make_range i32<8>
  %r1 = reshape i32<64, 1> %r
  %c1 = reshape i32<1, 8> %c
  %r2 = mul i32<64, 1> %r1, 8
  %r3 = broadcast i32<64, 8> %r2
  %c3 = broadcast i32<64, 8> %c1
  %at = add i32<64, 8> %r3, %c3
  %xs = splat f32*<64, 8> %x
  %ss = splat f32*<64> %s
  %ys = splat f32*<64, 8> %y
  %px = getelementptr f32*<64, 8> %xs, %at
  %ps = getelementptr f32*<64> %ss, %r
  %py = getelementptr f32*<64, 8> %ys, %at
  %v = load f32<64, 8> %px
  %f = load f32<64> %ps
  %f1 = reshape f32<64, 1> %f
  %f2 = broadcast f32<64, 8> %f1
  %o = gpu.conditional_scale f32<64, 8> %v, %f2
  store %py, %o
  ret
}
"""


@pytest.mark.parametrize("changed", ((), (3,), (0, 17, 63), tuple(range(64))))
def test_rows_scaled(changed: tuple[int, ...]) -> None:
    random = np.random.default_rng(len(changed))
    x, s = random.standard_normal((64, 8)).astype(np.float32), np.ones(64, np.float32)
    s[list(changed)] = random.uniform(0, 1, len(changed))
    module, machine = parse(SCALING), target("sm_90a")
    out = np.full_like(x, np.nan)
    interpret(module, None, (1, 1, 1), [x, s, out])
    np.testing.assert_array_equal(out, x * s[:, None])
    done = run_pipeline(module, machine, Options(), None)
    out = np.full_like(x, np.nan)
    last = done.stages["barriers"]
    simt.run(last, done.kernel, (1, 1, 1), [x, s, out], machine, done.memory, done.num_warps)
    np.testing.assert_array_equal(out, x * s[:, None])


@pytest.fixture(scope="module")
def ptx() -> str:
    return tileir.backend.compile(attention(128, 32, 64), "sm_90a").ptx


def test_warps_test_whether_accumulators_are_scaled_and_rows_have_passed_their_bounds(
    ptx: str,
) -> None:
    """In an iteration both, and in the first iteration, which has no sum to scale, the second."""
    assert ptx.count("vote.sync.any") == 3


def running(scale: float, rows: int = 64, columns: int = 32) -> Module:
    """`running(x, bound, most, y, f, z)`: the largest of each row of x times `scale` where that is
    more than the largest of `bound`, else the largest of `most`, also in each element of the row;
    and 2 to the power of how much less the latter is, times 0.25."""
    b = Builder()
    buffers = dict.fromkeys(("x", "bound", "most", "y", "f", "z"), arg(pointer(F32), aligned=16))
    with b.kernel("running", **buffers) as (x, bound, most, y, f, z):
        row, column = b.arange(rows), b.arange(columns)
        place = row[:, None] * columns + column[None, :]
        largest, bounds, kept = (
            b.reduce((p + place).load(), axis=1, combiner="fmaxnum") for p in (x, bound, most)
        )
        result = largest * scale
        passed = result > bounds
        level = b.select(passed, result, kept)
        power = b.exp2((kept - level) * 0.25, fast="approx")
        (y + row).store(level)
        (z + place).store(level[:, None].broadcast_to(rows, columns))
        (f + row).store(b.select(passed, power, b.full((rows,), 1.0, F32)))
    return b.module()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("scale", (0.5, -2.0, 0.0, np.inf, np.nan))
@pytest.mark.parametrize("passed", (0.0, 0.1, 1.0))
def test_rows_that_pass_their_bounds(scale: float, passed: float) -> None:
    random = np.random.default_rng(7)
    x = random.standard_normal((64, 32)).astype(np.float32)
    x[3], x[5, 4:], x[6, 1], x[7] = np.nan, np.nan, np.inf, -np.inf
    bound = np.where(random.random(64) < passed, -1.0, 1e9).astype(np.float32)
    bound[8], most = np.nan, random.standard_normal(64).astype(np.float32)
    bound, most = (np.repeat(v[:, None], 32, 1) for v in (bound, most))
    module, machine = running(scale), target("sm_90a")
    expected, scales = np.full(64, 7, np.float32), np.full(64, 7, np.float32)
    whole = [np.full((64, 32), 7, np.float32) for _ in range(2)]
    interpret(module, None, (1, 1, 1), [x, bound, most, expected, scales, whole[0]])
    done = run_pipeline(module, machine, Options(num_warps=4), None)
    laid_out = print_module(done.stages["layouts"])
    assert "gpu.conditional_row_max" in laid_out and "exp2" not in laid_out
    actual, times, last = (
        np.full(64, 7, np.float32),
        np.ones(64, np.float32),
        done.stages["barriers"],
    )
    arguments = [x, bound, most, actual, times, whole[1]]
    simt.run(last, done.kernel, (1, 1, 1), arguments, machine, done.memory, done.num_warps)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(*whole)
    np.testing.assert_allclose(times, scales, rtol=1e-6)


def test_warpgroups_begin_dots_alternately(ptx: str) -> None:
    """One arrives for the first instance; an iteration waits for 8 warps and lets the next one
    begin."""
    waits: Any = re.findall(r"barrier\.sync[^;]*, 256;|bar\.sync[^;]*, 256;", ptx)
    arrivals: Any = re.findall(r"barrier\.arrive[^;]*, 256;|bar\.arrive[^;]*, 256;", ptx)
    assert (len(waits), len(arrivals)) == (1, 2)


def test_one_warpgroup_needs_no_ordering() -> None:
    ptx = tileir.backend.compile(attention(64, 32, 64), "sm_90a").ptx
    assert not re.search(r"\bbar(rier)?\.arrive", ptx)
