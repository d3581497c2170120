"""Scales of blocks of columns whose size is an argument: a guard of the launcher makes all columns
of a tile share one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.tma.host_plan import HostPlan
from tileir.backend.warp_specialize.assume_block_sizes import assume_block_sizes
from tileir.types import shape_of

SIZE, DEPTH = 64, 32
OPTIONS = {"warp_specialize": True}


@triton.jit
def k(a, b, s, c, n, depth, block, N: tl.constexpr, K: tl.constexpr, FIRST: tl.constexpr):
    """The sum over blocks of K of (A B) * scales[j // block]; tiles begin at multiples of N, and
    FIRST."""
    rows, columns = tl.arange(0, N), tl.program_id(0) * N + FIRST + tl.arange(0, N)
    j, along = columns % n, tl.arange(0, K)
    total = tl.zeros((N, N), dtype=tl.float32)
    scales = s + j // block
    for start in range(0, depth, K):
        x = tl.load(a + rows[:, None] * depth + (start + along)[None, :])
        y = tl.load(b + j[None, :] * depth + (start + along)[:, None])
        total += tl.dot(x, y) * tl.load(scales + start)[None, :]
    inside = (rows[:, None] < N) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=inside)


def scaled_matmul(first: int = 0) -> Any:
    signature = {
        **dict.fromkeys("ab", "*fp16:16"), "s": "*fp32", "c": "*fp32:16",
        "n": "i32:16", "depth": "i32:16", "block": "i32",
    }  # fmt: skip
    return k.module(signature, {"N": SIZE, "K": DEPTH, "FIRST": first})


def results(launch: Any, n: int, block: int, **options: Any) -> Any:
    random, depth = np.random.default_rng(n + block), 2 * DEPTH
    a, b = (random.integers(-3, 4, (x, depth)).astype(np.float16) for x in (SIZE, n))
    scales = random.integers(1, 4, depth + n).astype(np.float32)
    arguments = [a, b, scales, np.full((SIZE, n), np.nan, np.float32), n, depth, block]
    launch(scaled_matmul(), "k", (-(-n // SIZE),), arguments, **options)
    return arguments[3]


@pytest.mark.sampled(2, by="n")
@pytest.mark.parametrize("block", [SIZE, 2 * SIZE, 32, 100])
@pytest.mark.parametrize("n", [64, 144])
def test_results_stay_as_they_are(n: int, block: int) -> None:
    expected = results(tileir.interpret, n, block)
    by_threads = results(SimtExecutor().launch, n, block, target="sm_90a", **OPTIONS)
    np.testing.assert_array_equal(by_threads, expected)


def test_consumers_load_scalars() -> None:
    module = compile_kernel(scaled_matmul(), "sm_90a", OPTIONS).tir_at("barriers")
    consumer = next(f for name, f in module.functions.items() if "consumer" in name)
    loads = [op for op in consumer.ops if op.mnemonic == "load"]
    assert loads and all(shape_of(op.results[0].type) == () for op in loads)


@pytest.mark.parametrize(("block", "fits"), [(64, True), (192, True), (32, False), (80, False)])
def test_the_launcher_guards_the_size(block: int, fits: bool) -> None:
    module = compile_kernel(scaled_matmul(), "sm_90a", OPTIONS).tir_at("barriers")
    plan = HostPlan.of(module.functions["k"])
    assert plan is not None
    maps = plan.map_values((4096, 8192, 16384, 32768, 128, 64, block, 2, 1, 1))
    assert (maps is not None) == fits


def test_tiles_that_begin_elsewhere_stay() -> None:
    """Numbers from 8 on are in two blocks of 64."""
    function = scaled_matmul(8).functions["k"]
    assert assume_block_sizes(function) is function
