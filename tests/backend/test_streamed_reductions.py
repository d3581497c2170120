"""Small tiles that a loop loads and that are reduced after it: all threads load other elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.builder import F32, I8, I32, Builder, arg, pointer
from tileir.layout_algebra import replication
from tileir.types import Tile

OPTIONS = {"num_warps": 2}
COLUMNS = 512


def row_sums(inside: bool) -> Any:
    """The sums of the rows of a matrix of `n` x 512 bytes: of all rows, or of each one (`inside`
    the loop)."""
    b = Builder()
    source, result = arg(pointer(I8), aligned=16), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=source, z=result, n=arg(I32)) as (x, z, n):
        column = b.arange(COLUMNS)[None, :]
        total = b.var(b.full((1, COLUMNS), 0.0, F32))
        with b.for_(0, n) as i:
            row = (x + (i * COLUMNS + column)).load().to(F32)
            if inside:
                (z + i).store(row.reduce(1, "fadd").reduce(0, "fadd"))
            total.set(total.get() + row)
        (z + n).store(total.get().reduce(1, "fadd").reduce(0, "fadd"))
    return b.module()


def owners_of_loads(module: Any) -> int:
    """The number of threads that own each element that is loaded."""
    function = compile_kernel(module, "sm_90a", OPTIONS).tir_at("barriers").functions["k"]
    (kind,) = (
        op.results[0].type for op in function.ops
        if op.mnemonic == "load" and isinstance(op.results[0].type, Tile)
    )  # fmt: skip
    assert isinstance(kind, Tile) and kind.layout is not None
    return replication(kind.layout)


def test_all_threads_load_what_is_reduced_after_the_loop() -> None:
    assert owners_of_loads(row_sums(inside=False)) == 1


def test_one_warp_has_what_is_reduced_in_the_loop() -> None:
    """A reduction in a warp needs no barrier."""
    assert owners_of_loads(row_sums(inside=True)) == OPTIONS["num_warps"]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_agree(n: int, inside: bool) -> None:
    x = np.random.default_rng(n).integers(-99, 99, n * COLUMNS).astype(np.int8)
    z = np.full(n + 1, 77, np.float32)
    results = assert_equal_results(row_sums(inside), [x, z, n], target="sm_90a", **OPTIONS)
    sums = x.reshape(n, COLUMNS).sum(axis=1, dtype=np.float32)
    rows = sums if inside else np.full(n, 77)
    np.testing.assert_array_equal(results[1], [*rows, sums.sum()])
