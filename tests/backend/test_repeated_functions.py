"""Functions of the elements of a vector that many threads need: whether each thread computes them,
or one thread does and passes the results on."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tileir import interpret
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, Builder, arg, pointer

ROWS, COLUMNS = 64, 128


def scale_columns(functions: int, *, dot: bool = True) -> Any:
    """out = x scaled by columns, times y; the scales are `functions` functions of a vector."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    out = pointer(F32)
    with b.kernel("k", x=kind, y=kind, v=pointer(F32), out=out) as (x, y, v, out):
        i, j = b.arange(ROWS), b.arange(COLUMNS)
        scales = (v + j).load()
        for n in range(functions):
            scales = scales.exp2(fast="approx") if n % 2 == 0 else scales.log2(fast="approx")
        tile = (x + i[:, None] * COLUMNS + j[None, :]).load().to(F32) * scales[None, :]
        if dot:
            right = (y + j[:, None] * ROWS + i[None, :]).load()
            total = b.dot(tile.to(F16), right, b.full((ROWS, ROWS), 0.0, F32))
            (out + i[:, None] * ROWS + i[None, :]).store(total)
        else:
            (out + i[:, None] * COLUMNS + j[None, :]).store(tile)
    return b.module()


def count_exponentials(functions: int, **options: Any) -> int:
    """How many exponentials a thread computes."""
    module = scale_columns(functions, **options)
    kernel = compile_kernel(module, "sm_90a", Options(num_warps=4))
    return len(re.findall(r"ex2\.", kernel.ptx))


def test_results_of_many_functions_are_passed_on():
    """One of 128 threads computes each scale. One function is computed by each thread that needs
    it: that takes no longer than an exchange."""
    assert count_exponentials(5) == 3 * 1
    assert count_exponentials(1) > 4


@pytest.mark.parametrize("functions", [1, 5])
def test_threads_agree_with_the_interpreter(functions):
    random = np.random.default_rng(functions)
    x, y = (random.normal(size=s).astype(np.float16) for s in ((ROWS, COLUMNS), (COLUMNS, ROWS)))
    v = random.uniform(-1, 1, COLUMNS).astype(np.float32)
    expected, actual = (np.zeros((ROWS, ROWS), np.float32) for _ in range(2))
    interpret(scale_columns(functions), "k", (1,), [x, y, v, expected])
    SimtExecutor("sm_90a").launch(scale_columns(functions), "k", 1, [x, y, v, actual], num_warps=4)
    np.testing.assert_allclose(actual, expected, rtol=1e-2, atol=1e-2)
