"""Bytes that are stored along another dimension than they are loaded, as quantised columns are:
threads own neighbours along both, so that words, and not bytes, pass through shared memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.launches import results
from tileir.backend import compile as compile_kernel
from tileir.backend.layouts.anchors import neighbours_first, vector_run
from tileir.builder import BF16, F16, F32, I8, I32, I64, Builder, arg, pointer

OPTIONS = {"num_warps": 4}
NUMPY = {BF16: bfloat16, F16: np.float16, F32: np.float32, I8: np.int8}


def copy(
    rows: int, columns: int, *, source: Any = BF16, stored: Any = I8, order: str = "columns"
) -> Any:
    """y has the numbers of x, a row-major matrix, as `stored`: column after column, row after row,
    or as a `transposed` tile."""
    b = Builder()
    kinds = {"x": arg(pointer(source), aligned=16), "y": arg(pointer(stored), aligned=16)}
    with b.kernel("k", **kinds) as (x, y):
        i, j = b.arange(rows)[:, None], b.arange(columns)[None, :]
        value = (x + (i * columns + j)).load().to(stored)
        if order == "transposed":
            i, j = b.arange(columns)[:, None], b.arange(rows)[None, :]
            (y + (i * rows + j)).store(b.trans(value, order=(1, 0)))
        else:
            (y + (j * rows + i if order == "columns" else i * columns + j)).store(value)
    return b.module()


def quantise(rows: int, columns: int, *, stored: Any = I8, order: str = "columns") -> Any:
    """y has the numbers of x, n matrices, divided by the largest of each column of all."""
    b = Builder()
    x, y = arg(pointer(BF16), aligned=16), arg(pointer(stored), aligned=16)
    with b.kernel("k", x=x, y=y, n=arg(I32)) as (x, y, n):
        i, j = (b.arange(n).to(I64) for n in (rows, columns))
        i, j = i[:, None], j[None, :]
        largest = b.var(b.full((columns,), 1.0, F32))
        with b.for_(0, n) as k:
            value = (x + ((i + k.to(I64) * rows) * columns + j)).load().to(F32)
            largest.set(b.maximum(largest.get(), value.max(axis=0)))
        scale = 99.0 / largest.get()
        with b.for_(0, n) as k:
            value = (x + ((i + k.to(I64) * rows) * columns + j)).load().to(F32)
            scaled = (value * scale[None, :]).to(stored)
            at = j * rows + i if order == "columns" else i * columns + j
            (y + (at + k.to(I64) * (rows * columns))).store(scaled)
    return b.module()


def loaded_rows(module: Any) -> int:
    """The neighbours along a column that a thread loads."""
    ops = compile_kernel(module, "sm_90a", OPTIONS).tir_at("barriers").functions["k"].ops
    (load,) = (op for op in ops if op.mnemonic == "load")
    return vector_run(neighbours_first(load.results[0].type.layout, 0), 0)


SHAPES = [(32, 64, 2), (64, 64, 4), (128, 128, 8)]


@pytest.mark.parametrize(("rows", "columns", "neighbours"), SHAPES)
def test_a_thread_loads_neighbours_along_both_dimensions(
    rows: int, columns: int, neighbours: int
) -> None:
    module = copy(rows, columns)
    assert loaded_rows(module) == neighbours
    ptx = compile_kernel(module, "sm_90a", OPTIONS).ptx
    accesses = set(re.findall(r"(?:ld|st)\.shared\.\S+", ptx))
    assert accesses and not any(access.endswith("8") for access in accesses)
    assert set(re.findall(r"ld\.global\.(\S+)", ptx)) == {"v4.b32"}


@pytest.mark.parametrize("more", [{"order": "rows"}, {"order": "transposed"}, {"stored": F16}])
def test_other_tiles_are_loaded_as_before(more: dict[str, Any]) -> None:
    """Bytes in the order in which they are loaded; tiles that are transposed, whose dimensions are
    others; elements that matrix instructions transpose."""
    assert loaded_rows(copy(64, 64, **more)) == 1


@pytest.mark.parametrize(("rows", "columns", "neighbours"), SHAPES)
@pytest.mark.parametrize("source", [BF16, F32])
def test_threads_agree(rows: int, columns: int, neighbours: int, source: Any) -> None:
    x = np.random.default_rng(rows).integers(-99, 99, rows * columns).astype(NUMPY[source])
    arrays = [x, np.zeros(rows * columns, np.int8)]
    before, after = results(copy(rows, columns, source=source), arrays, target="sm_90a", **OPTIONS)
    np.testing.assert_array_equal(after[1], before[1])
    np.testing.assert_array_equal(after[1], x.reshape(rows, columns).T.reshape(-1).astype(np.int8))


def rows_of_chunks(module: Any) -> set[int]:
    """The rows of the chunks that are stored."""
    ops = compile_kernel(module, "sm_90a", OPTIONS).tir_at("strip_mined").functions["k"].ops
    return {op.inputs[0].type.shape[0] for op in ops if op.mnemonic == "store"}


@pytest.mark.parametrize(
    ("more", "rows"), [({}, 128), ({"order": "rows"}, 32), ({"stored": F16}, 32)]
)
def test_a_thread_has_eight_neighbours_of_chunks_along_both_dimensions(
    more: dict[str, Any], rows: int
) -> None:
    """Chunks of bytes that change threads are larger than others: those of bytes that are stored in
    the order in which they are loaded, and of other elements."""
    assert rows_of_chunks(quantise(256, 64, **more)) == {rows}


def test_words_of_eight_bytes_are_exchanged() -> None:
    ptx = compile_kernel(quantise(256, 64), "sm_90a", OPTIONS).ptx
    _, after = ptx.split("div", 1)
    assert set(re.findall(r"st\.shared\.\S+", after)) == {"st.shared.v2.b32"}
    assert set(re.findall(r"ld\.shared\.\S+", after)) == {"ld.shared.v4.b32"}


def test_threads_agree_on_chunks() -> None:
    x = np.random.default_rng(0).integers(1, 100, 2 * 256 * 64).astype(bfloat16)
    arrays = [x, np.zeros(2 * 256 * 64, np.int8), 2]
    before, after = results(quantise(256, 64), arrays, target="sm_90a", **OPTIONS)
    np.testing.assert_array_equal(after[1], before[1])
