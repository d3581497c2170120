"""Loads of small matrices in kernels without dots: threads load the elements that they use, unless
that would take more instructions, or access fewer neighbours at once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import Options, compile as compile_kernel
from tileir.builder import F16, F32, Builder, arg, pointer

HEADS, ROWS, COLUMNS = 2, 8, 16
WARPS = 4


def scaled_heads(
    *, transposed: bool = False, aligned: bool = True, both: bool = False, rows: int = ROWS
) -> Any:
    """y[h, r, c] = x[h, r, c] * s[r, c] for all heads h; `transposed`: s[c, r] in memory. Unless
    `aligned`, no two elements of s are known to be in one word. With `both`, the sums of the
    columns of s are added, so that s is used in two layouts."""
    b = Builder()
    kinds = {
        "x": arg(pointer(F16), aligned=16),
        "s": arg(pointer(F16), aligned=16 if aligned else 2),
    }
    with b.kernel("k", y=arg(pointer(F32), aligned=16), **kinds) as (y, x, s):
        h, r, c = b.arange(HEADS), b.arange(rows), b.arange(COLUMNS)
        steps = (1, rows) if transposed else (COLUMNS, 1)
        places = r[:, None] * steps[0] + c[None, :] * steps[1]
        scales = (s + places).load().to(F32)
        at = (r * COLUMNS)[None, :, None] + c[None, None, :]
        at = (h * (rows * COLUMNS))[:, None, None] + at
        values = (x + at).load().to(F32) * scales[None, :, :]
        if both:
            values = values + scales.sum(axis=0)[None, None, :]
        (y + at).store(values)
    return b.module()


def ptx_of(module: Any) -> str:
    return compile_kernel(module, "sm_90", Options(num_warps=WARPS)).ptx


def arrays(rows: int = ROWS) -> list[Any]:
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 8, HEADS * rows * COLUMNS).astype(np.float16)
    s = rng.integers(-8, 8, rows * COLUMNS).astype(np.float16)
    return [np.zeros(HEADS * rows * COLUMNS, np.float32), x, s]


def loads(ptx: str) -> list[str]:
    return re.findall(r"ld\.global\S*", ptx)


def test_a_small_matrix_is_loaded_where_it_is_used() -> None:
    """Each head's threads load the row that they scale: no thread waits for another."""
    ptx = ptx_of(scaled_heads())
    assert "shared" not in ptx and "bar.sync" not in ptx
    assert len(loads(ptx)) == 2  # as many as in a layout with one element for each thread


@pytest.mark.parametrize(
    "module",
    [
        scaled_heads(transposed=True, rows=4),
        scaled_heads(aligned=False),
        scaled_heads(rows=2 * ROWS),
    ],
    ids=["lanes would access columns", "more instructions", "more elements than threads"],
)
def test_others_are_loaded_in_a_layout_of_their_own(module: Any) -> None:
    assert "ld.shared" in ptx_of(module) or "shfl" in ptx_of(module)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_results_are_the_same(transposed: bool, both: bool) -> None:
    module = scaled_heads(transposed=transposed, both=both)
    (y, *_) = assert_equal_results(module, arrays(), num_warps=WARPS)
    assert y.any()
