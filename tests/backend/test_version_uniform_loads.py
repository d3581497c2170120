"""Loops that load scales at quotients by an argument: a copy loads a scalar where all are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend.executors import SimtExecutor
from tileir.backend.software_pipeline.version_uniform_loads import version_uniform_loads
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.passmanager import run

SIZE = 64
PASS = "async-pipeline{prefetch-operands=false,warpgroups=1}"


def scaled_matmul(*, masked: bool = False, twice: bool = False, varies: bool = False) -> Any:
    """The sum over i of (A[i] B[i]) * scales[i][j // block], where `block` is an argument. With
    `masked`, scales from column `limit` on are 2; with `twice`, another vector scales rows; with
    `varies`, the quotients depend on the iteration."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    numbers = {name: arg(I32) for name in ("n", "block", "limit")}
    vectors = {"s": arg(pointer(F32)), "c": arg(pointer(F32), noalias=True)}
    with b.kernel("k", **kinds, **vectors, **numbers) as (x, y, s, z, n, block, limit):
        lanes = b.arange(SIZE)
        at = lanes[:, None] * SIZE + lanes[None, :]
        total = b.var(b.full((SIZE, SIZE), 0.0, F32))
        quotients = lanes // block
        with b.for_(0, n, stages=3) as i:
            left, right = (x + (at + i * SIZE**2)).load(), (y + (at + i * SIZE**2)).load()
            group = (lanes + i) // block if varies else quotients
            place = s + (group + i * SIZE)
            scales = place.load(lanes < limit, 2.0) if masked else place.load()
            product = b.dot(left, right, b.full((SIZE, SIZE), 0.0, F32))
            if twice:
                rows = (s + (quotients + (i * SIZE + 1))).load()
                product = product * rows.reshape(SIZE, 1).broadcast_to(SIZE, SIZE)
            row_major = scales.reshape(1, SIZE).broadcast_to(SIZE, SIZE)
            total.set(total.get() + product * row_major)
        (z + at).store(total.get())
    return b.module()


def results(launch: Any, module: Any, n: int, block: int, limit: int, **options: Any) -> Any:
    random = np.random.default_rng(n)
    tiles = [random.integers(-3, 4, (n, SIZE, SIZE)).astype(np.float16) for _ in "ab"]
    scales = random.integers(1, 4, n * SIZE + 2).astype(np.float32)
    arguments = [*tiles, scales, np.full((SIZE, SIZE), np.nan, np.float32), n, block, limit]
    launch(module, "k", (1,), arguments, **options)
    return arguments[3]


@pytest.mark.sampled(5, by="n")
@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize(("block", "limit"), [(64, 64), (100, 64), (32, 64), (1, 64), (64, 40)])
@pytest.mark.parametrize("form", [{}, {"masked": True}, {"twice": True}])
def test_results_stay_as_they_are(form: dict[str, bool], block: int, limit: int, n: int) -> None:
    module = scaled_matmul(**form)
    expected = results(tileir.interpret, module, n, block, limit)
    changed = run(module, PASS).module
    np.testing.assert_array_equal(results(tileir.interpret, changed, n, block, limit), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", [64, 32])
@pytest.mark.parametrize("form", [{}, {"masked": True}, {"twice": True}])
def test_threads_agree(form: dict[str, bool], block: int) -> None:
    module, options = scaled_matmul(**form), {"num_warps": 4, "target": "sm_90a"}
    expected = results(tileir.interpret, module, 3, block, 64)
    actual = results(SimtExecutor().launch, module, 3, block, 64, **options)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("form", [{}, {"masked": True}, {"twice": True}])
def test_the_copy_loads_scalars(form: dict[str, bool]) -> None:
    function = scaled_matmul(**form).functions["k"]
    changed = version_uniform_loads(function)
    kinds = [op.results[0].type for op in changed.ops if op.mnemonic == "load"]
    loads = [op for op in function.ops if op.mnemonic == "load"]
    assert kinds.count(F32) == len(loads) - 2 and len(kinds) == 2 * len(loads)
    assert len([op for op in changed.ops if op.mnemonic == "dot"]) == 2


def test_quotients_that_change_in_the_loop_are_not_compared() -> None:
    function = scaled_matmul(varies=True).functions["k"]
    assert version_uniform_loads(function) is function


def test_versions_share_their_buffers() -> None:
    """Only one of the loops runs."""
    from tileir.backend import compile as compile_kernel

    options = {"num_warps": 4, "warp_specialize": False}
    stage = 2 * SIZE**2 * 2 + SIZE * 4
    assert compile_kernel(scaled_matmul(), "sm_90a", options).plan.shared == 3 * stage
