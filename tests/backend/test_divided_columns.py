"""Warpgroups that divide the columns of a dot among themselves: each begins at a panel of B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import Options
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.target import target
from tileir.builder import F16, F32, I32, Builder, arg, pointer

ROWS = 64


def chained_matmuls(keys: int, width: int, *, scaled: bool = False) -> Any:
    """C = the sum over i of (Q K[i]^T) V[i], with `keys` rows of K and V, of `width` elements; V is
    doubled in registers where it is `scaled`."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qkv"}
    with b.kernel("f", **kinds, c=pointer(F32), n=arg(I32)) as (q, k, v, c, n):
        columns = b.arange(width)[None, :]
        top, at = (b.arange(m)[:, None] * width + columns for m in (ROWS, keys))
        queries, total = (q + top).load(), b.var(b.full((ROWS, width), 0.0, F32))
        with b.for_(0, n, stages=2) as i:
            left, right = ((x + (at + i * (keys * width))).load() for x in (k, v))
            zero = b.full((ROWS, keys), 0.0, F32)
            scores = b.dot(queries, b.trans(left, order=[1, 0]), zero).to(F16)
            right = (right.to(F32) * 2.0).to(F16) if scaled else right
            total.set(b.dot(scores, right, total.get()))
        (c + top).store(total.get())
    return b.module()


def panels(module: Any, warps: int) -> tuple[list[str], list[int]]:
    """The dots of the pipelined loop, and the panels of its stages."""
    options = Options(num_warps=warps, warp_specialize=False)
    done = run_pipeline(module, target("sm_90a"), options, None)
    ops: list[Any] = [*done.stages["pipelined"].functions[done.kernel].ops]
    dots = [op.mnemonic for op in ops if op.mnemonic in ("dot", "gpu.wgmma")]
    return dots, [op.panel for op in ops if op.mnemonic == "gpu.shared_alloc"]


@pytest.mark.parametrize(
    ("width", "warps", "expected"),
    [(64, 4, [64, 64]), (64, 8, [64, 32]), (64, 16, [64, 16]), (128, 8, [64, 64])],
)
def test_the_columns_of_each_warpgroup_begin_a_panel(
    width: int, warps: int, expected: list[int]
) -> None:
    """Only V has N along its rows: 64 columns are 32 for each of two warpgroups."""
    dots, placed = panels(chained_matmuls(32, width), warps)
    assert (dots, placed[:2]) == (["gpu.wgmma"] * 2, expected)


def test_columns_too_few_for_a_panel_stay_with_mma() -> None:
    """8 columns of 16 bits are half of the narrowest panel."""
    assert panels(chained_matmuls(32, 16), 8)[0] == ["gpu.wgmma", "dot"]


def test_panels_that_threads_store_begin_with_the_columns_of_each_warpgroup() -> None:
    """V of 64 columns is computed in registers: the third buffer has what is stored."""
    dots, placed = panels(chained_matmuls(32, 64, scaled=True), 8)
    assert dots == ["gpu.wgmma"] * 2
    assert 32 in placed


def test_panels_of_a_dot_without_a_loop_begin_with_the_columns_of_each_warpgroup() -> None:
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xy"}
    with b.kernel("f", **kinds, c=pointer(F32)) as (x, y, c):
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        product = b.dot((x + at).load(), (y + at).load(), b.full((64, 64), 0.0, F32))
        (c + at).store(product)
    options = Options(num_warps=8, warp_specialize=False)
    done = run_pipeline(b.module(), target("sm_90a"), options, None)
    ops: list[Any] = [*done.stages["layouts"].functions[done.kernel].ops]
    buffers = [(op.fast, op.panel) for op in ops if op.mnemonic == "gpu.shared_alloc"]
    assert (1, 32) in buffers, "Y is stored with the rows that it has in memory"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("keys", "width", "warps"), [(32, 64, 8), (16, 32, 8), (64, 64, 16), (32, 128, 16)]
)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_agree(n: int, scaled: bool, keys: int, width: int, warps: int) -> None:
    random = np.random.default_rng(n)
    shapes = [(ROWS, width), (n, keys, width), (n, keys, width)]
    tiles = [random.integers(-1, 2, shape).astype(np.float16) for shape in shapes]
    module = chained_matmuls(keys, width, scaled=scaled)
    expected, threads = np.full((2, ROWS, width), np.nan, np.float32)
    tileir.interpret(module, "f", (1,), [*tiles, expected, n])
    options: dict[str, Any] = {
        "num_warps": warps, "target": "sm_90a", "warp_specialize": False,
    }  # fmt: skip
    SimtExecutor().launch(module, "f", (1,), [*tiles, threads, n], **options)
    np.testing.assert_array_equal(threads, expected)
