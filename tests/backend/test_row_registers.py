"""What costs registers: masked loads that keep what was there, comparisons of every element,
partial results of warps; and policies of caches."""

import re

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F32, I32, Builder, arg, pointer


def layer_norm(block):
    """Rows of `n` elements, known to be a multiple of 16."""
    b, data = Builder(), arg(pointer(F32), aligned=16)
    n16 = arg(I32, multiple_of=16)
    with b.kernel("k", y=data, x=data, w=data, n=n16) as (y, x, w, n):
        column = b.arange(block)
        place, mask = b.program_id(axis=0) * n + column, column < n
        value = (x + place).load(mask, 0.0)
        centred = b.select(mask, value - value.sum(axis=0) / n.to(F32), 0.0)
        scale = ((centred * centred).sum(axis=0) / n.to(F32)).rsqrt()
        (y + place).store(centred * scale * (w + column).load(mask), mask)
    return b.module()


def add(block):
    b, data = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=data, y=data, z=data, n=arg(I32, multiple_of=16)) as (x, y, z, n):
        i = b.program_id(axis=0) * block + b.arange(block)
        mask = i < n
        (z + i).store((x + i).load(mask) + (y + i).load(mask), mask)
    return b.module()


def masked_loads(ptx):
    """Of every masked load, how many registers are set before it."""
    lines = re.findall(r"^.*@%p\d+ ld\.global.*$", ptx, re.M)
    return [line.count("mov.b32") for line in lines]


def test_neighbours_under_one_mask_are_compared_once():
    ptx = compile_kernel(layer_norm(1024), "sm_90", {"num_warps": 4}).ptx
    assert len(re.findall(r"setp\.lt\.s32", ptx)) == 2


@pytest.mark.parametrize(("block", "expected"), [(1024, [0] * 4), (2048, [0] * 4 + [4] * 4)])
def test_what_masks_leave_out_is_left_as_it_is_at_the_start_only(block, expected):
    assert masked_loads(compile_kernel(add(block), "sm_90", {"num_warps": 4}).ptx) == expected


def test_what_masks_leave_out_after_a_barrier_is_set():
    ptx = compile_kernel(layer_norm(1024), "sm_90", {"num_warps": 4}).ptx
    assert masked_loads(ptx[ptx.index("bar.sync") :]) == [4, 4]


@pytest.mark.parametrize("warps", [2, 4, 8, 16, 32])
def test_partials_of_many_warps_are_read_one_per_lane(warps):
    ptx = compile_kernel(layer_norm(4096), "sm_90", {"num_warps": warps}).ptx
    wide = {2: [".v2.b32", ".v2.b32"]}
    assert re.findall(r"ld\.shared(\S+)", ptx) == wide.get(warps, [".b32", ".b32"])
    shuffles = 5 + (warps.bit_length() - 1 if warps > 2 else 0)
    assert len(re.findall(r"shfl\.sync", ptx)) == 2 * shuffles


@pytest.mark.parametrize(("warps", "n"), [(1, 192), (4, 400), (8, 1024), (16, 80)])
def test_the_same_numbers_come_out(warps, n):
    chance = np.random.default_rng(warps)
    x, w = chance.normal(size=(2, n)).astype(np.float32), chance.normal(size=n).astype(np.float32)
    y = np.full((2, 1024), np.nan, np.float32)
    SimtExecutor().launch(layer_norm(1024), None, 2, [y, x, w, n], num_warps=warps)
    centred = x.astype(float) - x.mean(axis=1, keepdims=True, dtype=float)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True)) * w
    np.testing.assert_allclose(y.reshape(-1)[: 2 * n].reshape(2, n), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("level", ["first", "last"])
def test_both_caches_are_told_which_lines_go_first(level):
    b = Builder()
    parameter = arg(pointer(F32), aligned=16, noalias=True, readonly=True)
    with b.kernel("k", x=parameter, y=arg(pointer(F32), aligned=16)) as (x, y):
        i = b.arange(512)
        (y + i).store((x + i).load(i < 500, eviction=level), eviction=level)
    ptx = compile_kernel(b.module(), "sm_90", {"num_warps": 4}).ptx
    (policy,) = re.findall(rf"createpolicy\.fractional\.L2::evict_{level}\.b64\s+(%rd\d+)", ptx)
    hint = f".L1::evict_{level}.L2::cache_hint.v4.b32"
    assert re.search(rf"ld\.global\.nc{re.escape(hint)} \{{.*\}}, \[%rd\d+\], {policy};", ptx)
    assert re.search(rf"st\.global{re.escape(hint)} \[%rd\d+\], \{{.*\}}, {policy};", ptx)
