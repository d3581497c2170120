"""Iterations of loops that run together."""

from __future__ import annotations

import numpy as np
import pytest

from tileir import interpret
from tileir.backend import compile as compile_
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.executor import executor
from tileir.ir import Module


def row_totals(width: int, iterations: int | None, stores: bool = False) -> Module:
    """`k(x, y, n)`: y [width] = the sum of rows of x, `iterations` or n of them; with `stores`,
    each is written to y as well."""
    b = Builder()
    types = {name: arg(pointer(F32), aligned=16) for name in "xy"}
    with b.kernel("k", **types, n=I32) as (x, y, n):
        i = b.arange(width)
        total = b.var(b.full((width,), 0.0, F32))
        with b.for_(0, n if iterations is None else iterations) as row:
            value = (x + (i + row * width)).load()
            if stores:
                (y + i).store(value)
            total.set(total.get() + value)
        (y + i).store(total.get())
    return b.module()


def loads(module: Module) -> int:
    return compile_(module, "sm_90a", {"num_warps": 4}).ptx.count("ld.global")


@pytest.mark.parametrize(
    ("width", "iterations", "count"),
    [
        (128, 64, 4),
        (512, 64, 4),
        (1024, 64, 4),
        (2048, 64, 4),
        (128, 22, 2),
        (128, 23, 1),
        (128, 6, 6),
        (128, 16, 16),
    ],
)
def test_iterations_that_load_little_run_together(width, iterations, count) -> None:
    """A thread has 64 bytes in flight: 4 iterations of 4 or 16 bytes, 2 of 32, 1 of 64. They
    divide the number of all iterations. Up to 16 run together where they load 64 bytes."""
    assert loads(row_totals(width, iterations)) == count


def test_loops_of_unknown_length_and_those_that_store_do_not() -> None:
    assert loads(row_totals(128, None)) == loads(row_totals(128, 64, stores=True)) == 1


@pytest.mark.parametrize("iterations", [5, 8, 16])
def test_results_are_those_of_the_interpreter(iterations: int) -> None:
    x = np.random.default_rng(0).standard_normal(128 * iterations).astype(np.float32)
    results = []
    for launch in (interpret, executor("simt").launch, executor("cpu").launch):
        y = np.zeros(128, np.float32)
        launch(row_totals(128, iterations), "k", 1, [x, y, 0])
        results.append(y)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def weighted_rows(rows: int) -> Module:
    """`k(x, w, y)`: y [128] = the sum of `rows` rows of x in f16, each times exp of its w."""
    b = Builder()
    types = {"x": arg(pointer(F16), aligned=16), "w": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **types, y=arg(pointer(F32), aligned=16)) as (x, w, y):
        i, columns = b.arange(rows), b.arange(128)
        values = (x + (i[:, None] * 128 + columns[None, :])).load().to(F32)
        weights = b.exp((w + i).load())[:, None]
        total = b.reduce(weights * values, axis=0, combiner="fadd")
        (y + columns).store(total)
    return b.module()


@pytest.mark.parametrize(("warps", "rows", "iterations"), [(1, 256, 4), (4, 512, 1)])
def test_chunks_of_a_reduction_run_together(warps: int, rows: int, iterations: int) -> None:
    """A chunk has 32 bytes of rows and 4 of weights for each thread: two take more than 64 bytes.
    Threads of one warp may have 256."""
    ptx = compile_(weighted_rows(rows), "sm_90a", {"num_warps": warps}).ptx
    assert ptx.count("ld.global") - ptx.count("ld.global.b32") == 2 * iterations


@pytest.mark.parametrize("warps", [1, 4])
def test_sums_of_chunks_are_those_of_the_interpreter(warps: int) -> None:
    random = np.random.default_rng(0)
    x, w = random.integers(-4, 5, (64, 128)).astype(np.float16), np.zeros(64, np.float32)
    expected, y = np.zeros((2, 128), np.float32)
    interpret(weighted_rows(64), "k", 1, [x, w, expected])
    executor("simt").launch(weighted_rows(64), "k", 1, [x, w, y], num_warps=warps)
    np.testing.assert_array_equal(y, expected)
