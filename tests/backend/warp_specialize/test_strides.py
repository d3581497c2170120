"""Matrices whose rows have gaps, overlap, run backwards or are all one, and matrices of
nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from tests.backend.warp_specialize.test_unmapped import small_numbers
from tileir.backend.executors import SimtExecutor
from tileir.testing.kernels_strided import strided_matmul

VIEWS = {
    "rows with gaps": lambda a: _strided_view(a, 64, 1),
    "by multiples of 4": lambda a: _strided_view(a, 4, 1),
    "by anything": lambda a: _strided_view(a, 5, 1),
    "columns with gaps": lambda a: _strided_view(a, 3, 2),
    "by columns": lambda a: np.ascontiguousarray(a.T).T,
    "rows from the last on": lambda a: a[::-1].copy()[::-1],
    "columns from the last on": lambda a: a[:, ::-1].copy()[:, ::-1],
    "one row": lambda a: as_strided(a, a.shape, (0, a.itemsize)),
    "one column": lambda a: as_strided(a, a.shape, (a.strides[0], 0)),
}


def _strided_view(a: Any, more: int, step: int) -> Any:
    wide = np.zeros((a.shape[0], a.shape[1] * step + more), a.dtype)
    view = wide[:, : a.shape[1] * step : step]
    view[:] = a
    return view


def check_launch(a: Any, b: Any, c: Any, seed: int) -> None:
    (m, k), n = a.shape, b.shape[1]
    strides = [s // 2 for view in (a, b, c) for s in view.strides]
    SimtExecutor().launch(
        strided_matmul(64, 64, 32), "strided_matmul", (max(1, -(-m // 64) * -(-n // 64)), 1, 1),
        [a, b, c, m, n, k, *strides], target="sm_90a", seed=seed,
    )  # fmt: skip
    assert np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("which", (0, 1))
@pytest.mark.parametrize("view", VIEWS)
def test_operands(view: str, which: int) -> None:
    operands = [small_numbers((66, 48), np.float16, 1), small_numbers((48, 72), np.float16, 2)]
    operands[which] = VIEWS[view](operands[which])
    check_launch(*operands, np.full((66, 72), np.nan, np.float16), which)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("view", [*VIEWS][:7])
def test_results(view: str) -> None:
    out = VIEWS[view](np.full((66, 72), np.nan, np.float16))
    check_launch(
        small_numbers((66, 48), np.float16, 1), small_numbers((48, 72), np.float16, 2), out, 3
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", ((0, 8, 8), (8, 0, 8), (8, 8, 0), (1, 1, 1)))
def test_matrices_of_nothing(size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b = np.ones((m, k), np.float16), np.ones((k, n), np.float16)
    check_launch(a, b, np.full((m, n), np.nan, np.float16), 1)
