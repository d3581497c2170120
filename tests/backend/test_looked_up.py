"""Loads of short runs at indices from memory: threads load the runs of the indices that they
have, so that these do not move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.builder import F16, F32, I32, Builder, arg, pointer


def sum_of_runs(rows: int, codes: int, run: int) -> Any:
    """The sum over rows and codes of the run of the table that a code says."""
    b = Builder()
    kinds = {"index": arg(pointer(I32), aligned=16), "table": arg(pointer(F16), aligned=16)}
    with b.kernel("k", **kinds, out=arg(pointer(F32), noalias=True)) as (index, table, out):
        places = b.arange(rows)[:, None] * codes + b.arange(codes)[None, :]
        chosen = (index + places).load()[:, :, None] * run
        runs = (table + (chosen + b.arange(run)[None, None, :])).load().to(F32)
        total = runs.reshape(rows * codes * run)
        out.store(b.reduce(total, axis=0, combiner="fadd"))
    return b.module()


@pytest.mark.parametrize(("codes", "run", "moves"), [
    (2, 8, False), (4, 8, False), (2, 4, False), (8, 8, True), (2, 64, True),
])  # fmt: skip
def test_indices_that_a_thread_loads_together_stay(codes: int, run: int, moves: bool) -> None:
    """Eight indices are two accesses, and 64 elements those of several threads."""
    options = {"num_warps": 4, "warp_specialize": False}
    kernel = compile_kernel(sum_of_runs(128, codes, run), "sm_90a", options)
    ops = kernel.tir_at("barriers").kernel().ops
    moved = [op for op in ops if op.mnemonic == "gpu.convert_layout" and op.shared is not None]
    assert bool(moved) is moves


def test_results_are_those_of_the_interpreter() -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(0, 32, (64, 2)).astype(np.int32)
    table = rng.integers(-8, 8, (32, 8)).astype(np.float16)
    arguments = [index, table, np.zeros(1, np.float32)]
    assert_equal_results(sum_of_runs(64, 2, 8), arguments, num_warps=4, target="sm_90a")
