"""Matmuls scaled by vectors in every iteration: a scale that all elements share is loaded as a
scalar, and an iteration that waits for its own `wgmma` passes one barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend.executors import SimtExecutor
from tileir.backend.software_pipeline.uniform_loads import load_scalars
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.passmanager import run

SIZE = 64
PASS = "async-pipeline{prefetch-operands=false,warpgroups=1}"


def scaled_matmul(
    *, block: int = SIZE, limit: int = 0, carried: bool = False, both: bool = False,
    divided: bool = False,
) -> Any:  # fmt: skip
    """The sum over i of (A[i] B[i]) * rows[i][:, None] * columns[i][j // block]; with `both`, of
    A[i] B[i] + B[i] A[i]. With `carried`, the rows scale one sum of all matmuls after the loop.
    `limit` masks the scales of columns. With `divided`, i is (i * d) // d, by a parameter d."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    vectors = {"g": arg(pointer(F32), aligned=16), "h": arg(pointer(F32))}
    vectors["c"] = arg(pointer(F32), noalias=True)
    with b.kernel("k", **kinds, **vectors, n=arg(I32), d=arg(I32)) as (x, y, g, h, z, n, d):
        at = b.arange(SIZE)[:, None] * SIZE + b.arange(SIZE)[None, :]
        zero = b.full((SIZE, SIZE), 0.0, F32)
        total = b.var(zero)
        columns = b.arange(SIZE) // block
        with b.for_(0, n, stages=3) as i:
            left, right = (x + (at + i * SIZE**2)).load(), (y + (at + i * SIZE**2)).load()
            if carried:
                total.set(b.dot(left, right, total.get()))
            else:
                rows = (g + (b.arange(SIZE) + i * SIZE)).load()
                at_column = h + (columns + (i * d // d if divided else i) * SIZE)
                scales = at_column.load(b.arange(SIZE) < limit, 2.0) if limit else at_column.load()
                product = b.dot(left, right, zero)
                if both:
                    product = product + b.dot(right, left, zero)
                row_scales = rows.reshape(SIZE, 1).broadcast_to(SIZE, SIZE)
                row_major = scales.reshape(1, SIZE).broadcast_to(SIZE, SIZE)
                total.set(total.get() + product * row_scales * row_major)
        (z + at).store(total.get())
    return b.module()


def result(launch: Any, module: Any, n: int, d: int = 3, **options: Any) -> Any:
    random = np.random.default_rng(n)
    tiles = [random.integers(-3, 4, (n, SIZE, SIZE)).astype(np.float16) for _ in "ab"]
    vectors = [random.integers(1, 4, (n, SIZE)).astype(np.float32) for _ in "gh"]
    arguments = [*tiles, *vectors, np.full((SIZE, SIZE), np.nan, np.float32), n, d]
    launch(module, "k", (1,), arguments, **options)
    return arguments[4]


def loop_of(module: Any) -> list[Any]:
    """The ops of the block that multiplies."""
    blocks = module.functions["k"].blocks.values()
    return next([*b.ops] for b in blocks if any(op.mnemonic == "gpu.wgmma" for op in b.ops))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("block", [SIZE, 2 * SIZE, SIZE // 2])
@pytest.mark.parametrize("limit", [0, 40])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_results_stay_as_they_are(block: int, limit: int, n: int) -> None:
    module = scaled_matmul(block=block, limit=limit)
    expected = result(tileir.interpret, module, n)
    np.testing.assert_array_equal(result(tileir.interpret, run(module, PASS).module, n), expected)
    for warps in (4, 8):
        values = result(
            SimtExecutor().launch,
            module,
            n,
            num_warps=warps,
            prefetch_operands=False,
            target="sm_90a",
        )
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(
    ("block", "limit", "is_scalar"),
    [(SIZE, 0, True), (2 * SIZE, 0, True), (SIZE // 2, 0, False), (SIZE, 40, False)],
)
def test_one_address_is_a_scalar(block: int, limit: int, is_scalar: bool) -> None:
    """Half as many columns in a block are two addresses, and masked-out elements differ."""
    function = scaled_matmul(block=block, limit=limit).functions["k"]
    changed = load_scalars(function, function.blocks)
    kinds = [op.results[0].type for op in changed.ops if op.mnemonic == "load"]
    assert (F32 in kinds) == is_scalar
    assert (changed is function) != is_scalar


def test_an_iteration_that_waits_for_its_dot_passes_one_barrier() -> None:
    """Its copies begin while the matmul is computed, and vectors are read meanwhile. Where the
    matmul of the iteration before is in flight, the copies wait for it and for a barrier."""
    names = [op.mnemonic for op in loop_of(run(scaled_matmul(), PASS).module)]
    assert names.count("gpu.barrier") == 1
    start, end = names.index("gpu.wgmma"), names.index("gpu.wgmma_wait")
    between = names[start:end]
    assert between.count("gpu.async_copy") == 3
    assert between.index("gpu.local_load") < between.index("gpu.async_copy")
    carried = [op.mnemonic for op in loop_of(run(scaled_matmul(carried=True), PASS).module)]
    assert carried.count("gpu.barrier") == 2
    assert carried.index("gpu.wgmma_wait") < carried.index("gpu.async_copy")


def test_vectors_between_several_dots_are_read_where_they_are_needed() -> None:
    names = [op.mnemonic for op in loop_of(run(scaled_matmul(both=True), PASS).module)]
    assert names.count("gpu.wgmma") == 2
    assert names.index("gpu.wgmma_wait") < names.index("gpu.local_load")


@pytest.mark.parametrize(("n", "d"), [(0, 0), (1, 1), (5, 3)])
def test_addresses_by_quotients_are_computed_ahead(n: int, d: int) -> None:
    """A divisor need not be other than zero if no iteration runs."""
    module = scaled_matmul(block=SIZE // 2, divided=True)
    changed = run(module, PASS).module
    names = [op.mnemonic for op in loop_of(changed)]
    assert names.count("gpu.async_copy") == 4 and "load" not in names
    expected = result(tileir.interpret, module, n, d)
    np.testing.assert_array_equal(result(tileir.interpret, changed, n, d), expected)
