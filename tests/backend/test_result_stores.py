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


def accumulated_dots(aligned: int, *, biased: bool = False) -> Any:
    """C, which is `aligned`, = the sum over i of Q B[i], and of what C was if `biased`."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qb"}
    with b.kernel("f", **kinds, c=arg(pointer(F32), aligned=aligned), n=arg(I32)) as (q, y, c, n):
        columns = b.arange(SIZE)[None, :]
        top, at = (b.arange(m)[:, None] * SIZE + columns for m in (ROWS, SIZE))
        queries, total = (q + top).load(), b.var(b.full((ROWS, SIZE), 0.0, F32))
        with b.for_(0, n, stages=2) as i:
            total.set(b.dot(queries, (y + (at + i * SIZE**2)).load(), total.get()))
        (c + top).store(total.get() + (c + top).load() if biased else total.get())
    return b.module()


def widths_of(module: Any) -> dict[str, int]:
    """The neighbours that a thread owns of tiles of the shape of C, by the accessing op."""
    done = run_pipeline(module, target("sm_80"), Options(num_warps=1), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    tiles: list[Any] = [(op.mnemonic, op.inputs[0].type) for op in ops if op.inputs]
    return {
        name: vector_run(tile.layout, 1)
        for name, tile in tiles
        if name in ("load", "store") and tile.shape == (ROWS, SIZE)
    }


@pytest.mark.parametrize("aligned", [16, 4])
def test_loads_stay_wide(aligned: int) -> None:
    """Elements of C at multiples of 4 bytes are stored one by one. Q is loaded 16 bytes at once."""
    done = run_pipeline(accumulated_dots(aligned), target("sm_80"), Options(num_warps=4), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    tiles: list[Any] = [op.inputs[0].type for op in ops if op.mnemonic == "load"]
    (pointers,) = (tile for tile in tiles if tile.shape == (ROWS, SIZE))
    assert vector_run(pointers.layout, 1) == 8


def test_a_result_is_stored_in_whole_sectors() -> None:
    """C has larger elements than Q, which a thread loads 8 at once. Stores of 8 words would be two
    instructions, each of which writes one half of each sector."""
    assert widths_of(accumulated_dots(16)) == {"load": 8, "store": 4}


def test_what_is_loaded_keeps_its_layout() -> None:
    """A store of a sum with a loaded tile has the layout of the load: no element of that moves."""
    module = accumulated_dots(16, biased=True)
    done = run_pipeline(module, target("sm_80"), Options(num_warps=1), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    tiles: list[Any] = [op.inputs[0].type for op in ops if op.mnemonic in ("load", "store")]
    assert len({tile.layout for tile in tiles if tile.element.pointee is F32}) == 1
