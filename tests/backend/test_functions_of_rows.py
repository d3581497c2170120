"""Mathematical functions of the results of reductions: each lane of a warp would compute those of
all rows that the warp reduces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.types import Tile

SIZE = 32


def functions_of_rows(functions: int = 6) -> Any:
    """In each of n steps, four times: the differences of each row of w + x from its maximum are
    added up, x shifted by one more place, and `functions` square roots of all that are taken. The
    integer part is the next x."""
    b = Builder()
    array = arg(pointer(F32), aligned=16)
    with b.kernel("k", x=array, w=array, n=arg(I32)) as (x, w, n):
        place = b.arange(SIZE)
        weights = (w + (place[:, None] + place[None, :] * SIZE)).load()
        with b.for_(0, n):
            total = b.var(b.full((SIZE,), 0.0, F32))
            with b.for_(0, 4) as shift:
                rows = weights + (x + (place + shift)).load()[None, :]
                most = rows.reduce(1, "fmaxnum")
                result = total.get() + (most[:, None] - rows).reduce(1, "fadd")
                for _ in range(functions):
                    result = result.sqrt() + most
                total.set(result)
            (x + place).store(total.get().to(I32).to(F32))
    return b.module()


def registers_of_functions(module: Any) -> set[int]:
    """How many elements a thread has of the vectors that mathematical functions compute."""
    ops = compile_kernel(module, "sm_90a", {"num_warps": 4}).tir_at("barriers").functions["k"].ops
    kinds = [op.results[0].type for op in ops if op.mnemonic == "sqrt"]
    return {k.layout.size("register") for k in kinds if isinstance(k, Tile) and k.layout}


def test_each_lane_computes_functions_of_its_own_row() -> None:
    assert registers_of_functions(functions_of_rows()) == {1}


def test_few_functions_are_computed_where_rows_are_reduced() -> None:
    """A conversion takes longer."""
    assert registers_of_functions(functions_of_rows(1)) == {4}


@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_agree(n: int) -> None:
    """What is added up are integers."""
    random = np.random.default_rng(n)
    x, w = (random.integers(0, 9, size).astype(np.float32) for size in (SIZE + 3, SIZE * SIZE))
    assert_equal_results(functions_of_rows(), [x, w, n], target="sm_90a", num_warps=4)
