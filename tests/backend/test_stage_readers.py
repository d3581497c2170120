"""What reads a stage of a pipelined loop: dots, in any block, read their operands there even where
other ops need the tile as well."""

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
from tileir.passmanager import run

SIZE = 64
PASS = "async-pipeline{prefetch-operands=false}"


def program(*, conditional: bool) -> Any:
    """C += (A[i] B[i]^T) B[i] + (A[i] / 2) A[i], the second matmul if i is even where it is
    `conditional`."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    with b.kernel("k", **kinds, c=pointer(F32), n=arg(I32)) as (x, y, z, n):
        at = b.arange(SIZE)[:, None] * SIZE + b.arange(SIZE)[None, :]
        zero = b.full((SIZE, SIZE), 0.0, F32)
        total = b.var(zero)
        with b.for_(0, n, stages=2) as i:
            left, right = (x + (at + i * SIZE**2)).load(), (y + (at + i * SIZE**2)).load()
            scores = b.dot(left, b.trans(right, order=[1, 0]), zero).to(F16)
            total.set(b.dot(scores, right, total.get()))
            half = (left.to(F32) * 0.5).to(F16)
            if conditional:
                with b.if_(i % 2 == 0):
                    total.set(b.dot(half, left, total.get()))
            else:
                total.set(b.dot(half, left, total.get()))
        (z + at).store(total.get())
    return b.module()


def arguments(n: int) -> list[Any]:
    random = np.random.default_rng(n)
    tiles = [random.integers(-1, 2, (n, SIZE, SIZE)).astype(np.float16) for _ in "ab"]
    return [*tiles, np.full((SIZE, SIZE), np.nan, np.float32), n]


def result(launch: Any, module: Any, n: int, **options: Any) -> Any:
    inputs = arguments(n)
    launch(module, "k", (1,), inputs, **options)
    return inputs[2]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("machine", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("warps", [2, 4])
def test_results_stay_as_they_are(conditional: bool, n: int, machine: str, warps: int) -> None:
    module = program(conditional=conditional)
    expected = result(tileir.interpret, module, n)
    np.testing.assert_array_equal(result(tileir.interpret, run(module, PASS).module, n), expected)
    options = {"num_warps": warps, "target": machine, "warp_specialize": False}
    values = result(SimtExecutor().launch, module, n, **options)
    np.testing.assert_array_equal(values, expected)


def ops_of(module: Any, mnemonic: str) -> list[Any]:
    return [op for op in module.functions["k"].ops if op.mnemonic == mnemonic]


def test_every_dot_reads_its_own_fragments() -> None:
    """One read of A as a whole is left, for the matmul of its half."""
    for conditional in (False, True):
        piped = run(program(conditional=conditional), PASS).module
        reads = [op.result.type.shape for op in ops_of(piped, "gpu.local_load")]
        assert len(ops_of(piped, "gpu.shared_alloc")) == 2
        assert not ops_of(piped, "load")
        steps = SIZE // 16
        assert reads.count((SIZE, 16)) == 2 * steps  # A and B^T of the first matmul
        assert reads.count((SIZE, SIZE)) == 3  # B, A, and A to be halved


@pytest.mark.parametrize("conditional", [False, True])
def test_wgmma_reads_an_operand_that_other_ops_need_where_it_was_copied(conditional: bool) -> None:
    """Instead of a buffer of its own, which threads would fill in every iteration; also in a
    branch."""
    options = Options(num_warps=4, warp_specialize=False)
    done = run_pipeline(program(conditional=conditional), target("sm_90a"), options, None)
    piped = done.stages["pipelined"]
    assert len(ops_of(piped, "gpu.wgmma")) == 3
    assert len(ops_of(piped, "gpu.shared_alloc")) == 2
    assert not ops_of(piped, "gpu.local_store")
