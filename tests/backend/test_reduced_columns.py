"""Matrix-vector kernels: columns of a tile are reduced after a vector is multiplied with each."""

import re
from collections import Counter

import numpy as np

import tileir
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, Builder, arg, pointer


def vector_times_matrix(rows, columns):
    """The vector `x` times a matrix `w`."""
    b = Builder()
    inputs = {name: arg(pointer(F16), aligned=16) for name in "xw"}
    with b.kernel("k", y=arg(pointer(F32), aligned=16), **inputs) as (y, x, w):
        along_column, along_row = b.arange(rows), b.arange(columns)
        weights = (w + along_column[:, None] * columns + along_row[None, :]).load().to(F32)
        (y + along_row).store(((x + along_column).load().to(F32)[:, None] * weights).sum(axis=0))
    return b.module()


def loads(module, warps):
    ptx = compile_kernel(module, "sm_90a", options={"num_warps": warps}).ptx
    return Counter(re.findall(r"ld\.global\S*", ptx))


@for_each(("warps", "rows", "columns"), [(1, 32, 64), (2, 64, 128), (4, 64, 64)])
def test_a_thread_loads_neighbours_of_the_vector_at_once(warps, rows, columns):
    """Threads own neighbours along a column. Rows take whole lines, so that lanes may as well load
    some that are far apart."""
    module, owned = vector_times_matrix(rows, columns), rows * columns // (32 * warps) // 8
    vectors = {4: "ld.global.v4.b16", 8: "ld.global.v4.b32"}
    expected = Counter({"ld.global.v4.b32": owned})
    expected[vectors[min(owned, 8)]] += max(1, owned // 8)
    assert loads(module, warps) == expected
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-8, 8, n).astype(np.float16) for n in (rows, rows * columns))
    y, expected = np.zeros((2, columns), np.float32)
    SimtExecutor().launch(module, None, 1, [y, x, w], num_warps=warps)
    tileir.interpret(module, "k", (1,), {"x": x, "w": w, "y": expected})
    np.testing.assert_array_equal(y, expected)
    assert expected.any()


def test_lanes_own_neighbours_along_columns_where_rows_are_short():
    """Four lanes load a row of 64 bytes, so that a warp loads 8 neighbours, which are whole lines:
    the rows of a thread, and its elements of the vector, are 8 apart."""
    assert loads(vector_times_matrix(32, 32), 1) == {"ld.global.v4.b32": 4, "ld.global.b16": 4}


@for_each("stored", [False, True])
def test_warps_share_no_columns_that_are_only_reduced(stored):
    """Each warp reduces its own columns, without a barrier. Of a tile that is stored, too,
    warps own rows: a thread then needs few addresses, and few values of each column."""
    b = Builder()
    inputs = {name: arg(pointer(F32), aligned=16) for name in "xyz"}
    with b.kernel("k", **inputs) as (x, y, z):
        along_row = b.arange(512)
        at = b.arange(16)[:, None] * 512 + along_row[None, :]
        tile = (x + at).load()
        (y + along_row).store(tile.sum(axis=0))
        if stored:
            (z + at).store(tile * tile)
    module = b.module()
    ptx = compile_kernel(module, "sm_90a", options={"num_warps": 4}).ptx
    assert ("bar" in ptx) == stored
    x = np.random.default_rng(0).integers(-8, 8, 16 * 512).astype(np.float32)
    y, z = np.zeros(512, np.float32), np.zeros_like(x)
    SimtExecutor().launch(module, None, 1, [x, y, z], num_warps=4)
    np.testing.assert_array_equal(y, x.reshape(16, 512).sum(axis=0))
    np.testing.assert_array_equal(z, x * x * stored)


def test_lanes_own_rows_of_tiles_that_are_reduced_along_both_axes():
    """A thread that owned neighbours along both axes would load more elements of each vector, and
    keep more partial sums."""
    b = Builder()
    inputs = {name: arg(pointer(F16), aligned=16) for name in "xyzv"}
    with b.kernel("k", **inputs) as (x, y, z, v):
        row, column = b.arange(64), b.arange(64)
        tile = (x + row[:, None] * 64 + column[None, :]).load() * (v + row).load()[:, None]
        (y + column).store(tile.sum(axis=0))
        (z + row).store(tile.sum(axis=1))
    assert loads(b.module(), 4) == {"ld.global.v4.b32": 4, "ld.global.b16": 4}
