"""Operands A that a loop does not change: in shared memory where registers do not suffice."""

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

SIZE = 64


def scores_times_values(*, scaled: bool = False) -> Any:
    """C = the sum over i of (Q B[i]^T) B[i], with half of the first B[i] where it is `scaled`."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qb"}
    with b.kernel("k", **kinds, c=pointer(F32), n=arg(I32)) as (q, y, z, n):
        at = b.arange(SIZE)[:, None] * SIZE + b.arange(SIZE)[None, :]
        zero = b.full((SIZE, SIZE), 0.0, F32)
        queries, total = (q + at).load(), b.var(zero)
        with b.for_(0, n, stages=2) as i:
            right = (y + (at + i * SIZE**2)).load()
            left = (right.to(F32) * 0.5).to(F16) if scaled else right
            scores = b.dot(queries, b.trans(left, order=[1, 0]), zero).to(F16)
            total.set(b.dot(scores, right, total.get()))
        (z + at).store(total.get())
    return b.module()


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("warps", "buffers"), [(1, 2), (4, 1)])
def test_queries_are_stored_where_registers_do_not_hold_them(
    warps: int, buffers: int, scaled: bool
) -> None:
    """Of one warp each thread would have 128 registers of C, 128 of scores and 64 of queries. B may
    be computed in registers."""
    options = Options(num_warps=warps)
    done = run_pipeline(scores_times_values(scaled=scaled), target("sm_80"), options, None)
    ops = list(done.stages["pipelined"].functions[done.kernel].ops)
    assert sum(op.mnemonic == "gpu.shared_alloc" for op in ops) == buffers
    stores = [op for op in ops if op.mnemonic == "gpu.local_store"]
    assert len(stores) == buffers - 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_threads_agree(n: int, scaled: bool) -> None:
    random = np.random.default_rng(n)
    q = random.integers(-1, 2, (SIZE, SIZE)).astype(np.float16)
    tiles = random.integers(-1, 2, (n, SIZE, SIZE)).astype(np.float16)
    module = scores_times_values(scaled=scaled)
    expected, found = np.full((2, SIZE, SIZE), np.nan, np.float32)
    tileir.interpret(module, "k", (1,), [q, tiles, expected, n])
    SimtExecutor().launch(module, "k", (1,), [q, tiles, found, n], num_warps=1)
    np.testing.assert_array_equal(found, expected)
