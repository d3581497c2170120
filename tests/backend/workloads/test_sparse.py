"""Matmuls of matrices of blocks: places come from memory, blocks by tensor maps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.workloads.running import agree, assembles, normal
from tileir.errors import InterpretError
from tileir.interp import interpret
from tileir.passmanager import run
from tileir.testing.workloads import sparse
from tileir.testing.workloads.tables import Blocks

pytestmark = pytest.mark.sampled(1)

SIZE = 64
MASK = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], bool)
"""A row without blocks, one with all, columns of two."""


@pytest.mark.slow
def test_blocks_of_a_matmul() -> None:
    blocks = Blocks(MASK)
    m, n, k = 4 * SIZE, 3 * SIZE, 40
    x, y = normal(m, k), normal(k, n)
    expected = blocks.blocks_of(x.astype(float) @ y.astype(float), SIZE)
    z = np.zeros((blocks.count, SIZE, SIZE), np.float16)
    rows, columns = blocks.places
    arguments = [x, y, z, rows, columns, m, n, k]
    agree(sparse.sdd(SIZE, 32), (blocks.count,), arguments, 2, expected, off=1e-3)


@pytest.mark.parametrize("group", (2, 4))
def test_blocks_of_a_matmul_by_rows(group: int) -> None:
    blocks = Blocks(MASK)
    m, n, k = 4 * SIZE, 3 * SIZE, 72
    x, y = normal(m, k), normal(k, n)
    expected = blocks.blocks_of(x.astype(float) @ y.astype(float), SIZE)
    z = np.zeros((blocks.count, SIZE, SIZE), np.float16)
    groups = blocks.by_groups(group)
    arguments = [x, y, z, *groups, m, n, k]
    grid = (len(groups[0]),)
    agree(sparse.sdd_rows(SIZE, 32, group), grid, arguments, 2, expected, off=1e-3, seeds=1)


def test_groups_of_a_row_are_even() -> None:
    rows, firsts, lasts, columns = Blocks(MASK).by_groups(2)
    assert (rows.tolist(), firsts.tolist(), lasts.tolist()) == (
        [0, 2, 2, 3],
        [0, 2, 4, 5],
        [1, 3, 4, 5],
    )
    assert columns.tolist() == [0, 2, 0, 1, 2, 1]


def test_rows_and_columns_with_most_blocks_come_first() -> None:
    rows, columns = Blocks(MASK).longest
    assert (rows.tolist(), columns.tolist()) == ([2, 0, 3, 1], [0, 1, 2])


@pytest.mark.parametrize("bk", (32, 64))
def test_sparse_by_dense(bk: int) -> None:
    blocks, n = Blocks(MASK), 72
    x = normal(blocks.count, SIZE, SIZE)
    y = normal(3 * SIZE, n)
    starts, columns = blocks.by_row
    expected = blocks.dense(x).astype(float) @ y.astype(float)
    order = blocks.longest[0]
    arguments = [x, y, np.zeros((4 * SIZE, n), np.float16), order, starts, columns, n]
    agree(sparse.dsd(SIZE, 64, bk), (2, 4), arguments, 2, expected, off=1e-3, seeds=1)


@pytest.mark.slow
@pytest.mark.parametrize("bk", (32, 64))
def test_dense_by_sparse(bk: int) -> None:
    blocks, m = Blocks(MASK), 100
    x, y = normal(m, 4 * SIZE), normal(blocks.count, SIZE, SIZE)
    starts, which, rows = blocks.by_column
    expected = x.astype(float) @ blocks.dense(y).astype(float)
    z = np.zeros((m, 3 * SIZE), np.float16)
    arguments = [x, y, z, blocks.longest[1], starts, which, rows, m, 4 * SIZE, 3 * SIZE]
    agree(sparse.dds(64, SIZE, bk), (2, 3), arguments, 2, expected, off=1e-3)


def test_softmax_of_blocks() -> None:
    blocks, scale = Blocks(MASK), 0.3
    x = normal(blocks.count, 8, 8)
    dense = blocks.dense(x.astype(float), -np.inf) * scale
    with np.errstate(invalid="ignore"):
        weights = np.exp(dense - dense.max(1, keepdims=True))
        expected = blocks.blocks_of(np.nan_to_num(weights / weights.sum(1, keepdims=True)), 8)
    arguments = [x, np.zeros_like(x), blocks.by_row[0], scale]
    module = sparse.softmax(8, blocks.most, 4)
    agree(module, (2, 4), arguments, 1, expected, off=1e-3, roles=False)


@pytest.mark.parametrize(
    "module",
    (
        sparse.sdd(128, 64),
        sparse.sdd_rows(64, 64, 4),
        sparse.dsd(128, 256, 64),
        sparse.dds(128, 128, 64),
    ),
    ids=("sdd", "rows", "dsd", "dds"),
)
def test_assembled(module: object) -> None:
    assembles(module)


def test_a_place_before_the_matrix_is_an_error() -> None:
    """A tensor map would read zeros there."""
    blocks = Blocks(np.ones((1, 1), bool))
    module = run(
        sparse.dsd(SIZE, 64, 64),
        "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors,warp-specialize",
    ).module
    x, y = normal(1, SIZE, SIZE), normal(SIZE, SIZE)
    starts, columns = blocks.by_row
    with pytest.raises(InterpretError, match="TIR0514"):
        arguments = [x, y, np.zeros_like(y), blocks.longest[0], starts, columns - 1, SIZE]
        interpret(module, "dsd", (1, 1), arguments)
