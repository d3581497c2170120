"""Stores of what dots compute: their width is no reason for narrow loads of the same shape."""

from __future__ import annotations

from typing import Any

import pytest

from tileir.backend import Options
from tileir.backend.compile import run_pipeline
from tileir.backend.layouts.anchors import vector_run
from tileir.backend.target import target
from tileir.builder import F16, F32, I32, Builder, arg, pointer

ROWS, SIZE = 16, 64


def accumulated_dots(aligned: int) -> Any:
    """C, which is `aligned`, = the sum over i of Q B[i]."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qb"}
    with b.kernel("f", **kinds, c=arg(pointer(F32), aligned=aligned), n=arg(I32)) as (q, y, c, n):
        columns = b.arange(SIZE)[None, :]
        top, at = (b.arange(m)[:, None] * SIZE + columns for m in (ROWS, SIZE))
        queries, total = (q + top).load(), b.var(b.full((ROWS, SIZE), 0.0, F32))
        with b.for_(0, n, stages=2) as i:
            total.set(b.dot(queries, (y + (at + i * SIZE**2)).load(), total.get()))
        (c + top).store(total.get())
    return b.module()


@pytest.mark.parametrize("aligned", [16, 4])
def test_loads_stay_wide(aligned: int) -> None:
    """Elements of C at multiples of 4 bytes are stored one by one. Q is loaded 16 bytes at once."""
    done = run_pipeline(accumulated_dots(aligned), target("sm_80"), Options(num_warps=4), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    tiles: list[Any] = [op.inputs[0].type for op in ops if op.mnemonic == "load"]
    (pointers,) = (tile for tile in tiles if tile.shape == (ROWS, SIZE))
    assert vector_run(pointers.layout, 1) == 8
