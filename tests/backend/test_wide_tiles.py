"""Tiles of more columns than one `wgmma` has: warpgroups share them, and each has several
instructions where its part is still wider."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F16, F32, I8, I32, Builder, arg, pointer

DEPTH = 32


def matmul(rows: int, columns: int, by_rows: bool, element: Any = F16, total: Any = F32) -> Any:
    """A times B, `DEPTH` steps of K at a time; the rows of B are contiguous, or its columns."""
    b = Builder()
    kinds = {name: arg(pointer(element), aligned=16) for name in "ab"}
    with b.kernel("k", **kinds, c=arg(pointer(total), noalias=True), n=arg(I32)) as (x, y, z, n):
        k = b.arange(DEPTH)
        acc = b.var(b.full((rows, columns), 0, total))
        with b.for_(0, n, stages=3) as i:
            at, length = k + i * DEPTH, n * DEPTH
            left = (x + (b.arange(rows)[:, None] * length + at[None, :])).load()
            places = at[:, None] * columns + b.arange(columns)[None, :]
            if not by_rows:
                places = at[:, None] + b.arange(columns)[None, :] * length
            acc.set(b.dot(left, (y + places).load(), acc.get()))
        place = b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]
        (z + place).store(acc.get())
    return b.module()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize(
    ("columns", "warps"), [(512, 8), (384, 4), (384, 8), (1024, 16), (512, 16)]
)
def test_threads_agree(columns: int, warps: int, by_rows: bool) -> None:
    module, n = matmul(64, columns, by_rows), 3
    options = {"num_warps": warps, "warp_specialize": False}
    text = str(compile_kernel(module, "sm_90a", options).tir_at("barriers"))
    assert "gpu.wgmma " in text and " dot " not in text
    random = np.random.default_rng(columns)
    a = random.integers(-3, 4, (64, DEPTH * n)).astype(np.float16)
    b = random.integers(-3, 4, (DEPTH * n, columns)).astype(np.float16)
    c = np.full((64, columns), np.nan, np.float32)
    stored_b = b if by_rows else np.ascontiguousarray(b.T)
    SimtExecutor().launch(module, "k", (1,), [a, stored_b, c, n], num_warps=warps, target="sm_90a")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("columns", "order"), [(384, [0, 1, 0, 1]), (512, [0, 0, 1, 1])])
def test_accumulators_that_do_not_fit_are_complete_one_by_one(
    columns: int, order: list[int]
) -> None:
    """Consecutive instructions use different accumulators, unless a thread has registers for one of
    them at a time only: with 256 of each, it would spill and load both for each step of K."""
    options = {"num_warps": 4, "warp_specialize": False}
    ptx = compile_kernel(matmul(64, columns, True), "sm_90a", options).ptx
    firsts = re.findall(r"wgmma\.mma_async\S+ \{(%\w+)", ptx)[:4]
    assert [list(dict.fromkeys(firsts)).index(x) for x in firsts] == order


@pytest.mark.parametrize(("element", "total"), [(BF16, F32), (I8, I32)])
def test_other_types(element: Any, total: Any) -> None:
    module = matmul(64, 512, False, element, total)
    options = {"num_warps": 8, "warp_specialize": False}
    text = str(compile_kernel(module, "sm_90a", options).ptx)
    assert ("m64n256k32" if element is I8 else "m64n256k16") in text


def test_instructions_begin_at_panels() -> None:
    """160 columns of an instruction are no multiple of the 64 that a panel of rows has."""
    options = {"num_warps": 4, "warp_specialize": False}
    for by_rows in (True, False):
        text = str(compile_kernel(matmul(64, 320, by_rows), "sm_90a", options).tir_at("barriers"))
        assert ("gpu.wgmma " in text) != by_rows


def test_the_interpreter_agrees() -> None:
    module, n = matmul(64, 512, True), 2
    random = np.random.default_rng(1)
    a = random.integers(-3, 4, (64, DEPTH * n)).astype(np.float16)
    b = random.integers(-3, 4, (DEPTH * n, 512)).astype(np.float16)
    c = np.full((64, 512), np.nan, np.float32)
    tileir.interpret(module, "k", (1,), [a, b, c, n])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
