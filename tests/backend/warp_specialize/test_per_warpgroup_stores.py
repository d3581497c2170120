"""Warpgroups that write their own rows: each waits for itself alone, and no wait is too few."""

from __future__ import annotations

from math import log
from typing import Any

import attrs
import numpy as np
import pytest

from tileir.backend.compile import run_pipeline
from tileir.backend.options import Options
from tileir.backend.simt import machine as simt
from tileir.backend.target import target
from tileir.ops.gpu import BlockBarrier
from tileir.ops.hopper import TmaStore, TmaWait
from tileir.testing.barrier_protocols import sites, without
from tileir.testing.kernels import attention

T, D = 150, 16


@pytest.fixture(scope="module")
def done() -> Any:
    return run_pipeline(attention(128, 32, D), target("sm_90a"), Options(), None)


def _run(done: Any, seed: int, module: Any = None) -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, T, D)).astype(np.float16) for _ in range(3))
    actual, machine = np.full_like(q, np.nan), target("sm_90a")
    arguments = [q, k, v, actual, T, 0.5, 2, 2, 1]
    stage = module or done.stages["barriers"]
    simt.run(
        stage, done.kernel, (2, 1, 1), arguments, machine, done.memory, done.num_warps, seed=seed
    )
    scores = np.exp(0.5 * log(2) * (q.astype(float) @ k.astype(float).transpose(0, 2, 1)))
    expected = scores / scores.sum(-1, keepdims=True) @ v.astype(float)
    np.testing.assert_allclose(actual, expected, rtol=5e-3, atol=5e-3)


@pytest.mark.slow
def test_warpgroups_wait_for_themselves(done: Any) -> None:
    role = done.stages["barriers"].functions["attention.consumer"]
    writing = [op for op in role.ops if isinstance(op, (BlockBarrier, TmaStore, TmaWait))]
    assert len(writing) == 5 and all(op.warpgroup for op in writing)
    for seed in range(4):
        _run(done, seed)


def test_no_wait_is_too_few(done: Any) -> None:
    module = done.stages["barriers"]
    names = ("gpu.barrier", "gpu.tma_wait", "gpu.async_fence")
    for site in sites(module):
        if site.op.mnemonic in names and "math" in site.function:
            with pytest.raises(AssertionError, match="race"):
                _run(done, 0, without(module, site))


def test_a_copy_of_another_warpgroup_is_a_race(done: Any) -> None:
    """Threads that copy what others wrote have to synchronize with those."""
    module = done.stages["barriers"]
    role = module.functions["attention.consumer"]
    blocks = {
        label: attrs.evolve(block, ops=tuple(_by_one(op) for op in block.ops))
        for label, block in role.blocks.items()
    }
    wrong = module.with_functions({**module.functions, role.name: role.with_blocks(blocks)})
    with pytest.raises(AssertionError, match="race"):
        _run(done, 0, wrong)


def _by_one(op: Any) -> Any:
    return op.evolve(warpgroup=False) if isinstance(op, (TmaStore, TmaWait)) else op
