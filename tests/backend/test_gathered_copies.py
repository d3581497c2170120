"""Rows that a pipelined loop copies from where loaded indices say: each thread loads the indices of
its own rows, before the matmul is begun that the next copies wait for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.builder import F16, F32, I32, Builder, arg, pointer

ROWS, DEPTH = 64, 16
OPTIONS = {"num_warps": 4, "warp_specialize": False}
SIMULATED = {"num_warps": 4, "target": "sm_90a"}


def gathered_matmul() -> Any:
    """The sum over steps of A[index]^T B, 16 rows of A and B at a time."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    kinds["index"] = arg(pointer(I32), aligned=16)
    with b.kernel("k", **kinds, c=arg(pointer(F32), noalias=True), n=arg(I32)) as (x, y, at, z, n):
        columns = b.arange(ROWS)[None, :]
        total = b.var(b.full((ROWS, ROWS), 0.0, F32))
        with b.for_(0, n, stages=2) as i:
            rows = b.arange(DEPTH) + i * DEPTH
            chosen = (at + rows).load()
            left = (x + (chosen[:, None] * ROWS + columns)).load()
            right = (y + (rows[:, None] * ROWS + columns)).load()
            total.set(b.dot(b.trans(left, order=[1, 0]), right, total.get()))
        (z + (b.arange(ROWS)[:, None] * ROWS + columns)).store(total.get())
    return b.module()


def test_threads_load_the_indices_of_the_rows_that_they_copy() -> None:
    text = str(compile_kernel(gathered_matmul(), "sm_90a", OPTIONS).tir_at("barriers"))
    loop = text[text.index("gpu.async_wait") :]
    before, after = loop.split("gpu.wgmma", 1)
    copies = after[: after.index("gpu.async_commit")]
    assert "load i32<16" in before
    assert "gpu.convert_layout" not in before + copies and " load " not in copies


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_results_stay_as_they_are(n: int) -> None:
    random = np.random.default_rng(n)
    a, b = (random.integers(-3, 4, (DEPTH * n, ROWS)).astype(np.float16) for _ in "ab")
    index = random.permutation(DEPTH * n).astype(np.int32)
    c = np.full((ROWS, ROWS), np.nan, np.float32)
    *_, c, _ = assert_equal_results(gathered_matmul(), [a, b, index, c, n], **SIMULATED)
    np.testing.assert_array_equal(c, a[index].astype(np.float32).T @ b.astype(np.float32))
