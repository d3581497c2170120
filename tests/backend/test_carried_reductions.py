"""Layouts of tiles that a loop carries and reduces: threads against the interpreter, and the
exchanges between lanes that remain."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tileir import interpret
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.carried_reductions import layout_of_columns, reduced_bytes
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.layout_tilings import blocked_layout

SIZE = 16


def substitution(form: str = "plain") -> Any:
    """Forward substitution: each iteration reduces the rows of a tile, and replaces one of them."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, rows=I32) as (x, y, rows):
        i = b.arange(SIZE)
        at = i[:, None] * SIZE + i[None, :]
        tile = b.var((x + at).load())

        def total(row: Any) -> Any:
            vector = (x + row * SIZE + i).load()
            return (vector[:, None] * tile.get()).sum(0)

        if form == "once":
            tile.set(tile.get() + total(3)[None, :])
        else:
            with b.for_(1, rows) as row:
                if form == "turned":
                    tile.set(tile.get() + total(row)[:, None])
                else:
                    chosen = (i == row)[:, None].broadcast_to(SIZE, SIZE)
                    sums = total(row)[None, :].broadcast_to(SIZE, SIZE)
                    tile.set(b.where(chosen, sums, tile.get()))
        (y + at).store(tile.get())
    return b.module()


@pytest.mark.parametrize("warps", [1, 2, 4])
@pytest.mark.parametrize("form", ["plain", "turned", "once"])
def test_threads_agree_with_the_interpreter(form, warps):
    x = np.random.default_rng(1).integers(-2, 3, (SIZE, SIZE)).astype(np.float32)
    expected, actual = (np.zeros((SIZE, SIZE), np.float32) for _ in range(2))
    module, rows = substitution(form), 4 if form == "turned" else SIZE
    interpret(module, "k", (1,), [x, expected, rows])
    SimtExecutor().launch(module, "k", 1, [x, actual, rows], num_warps=warps)
    np.testing.assert_array_equal(actual, expected)


def totals(shape: tuple[int, ...], axis: int) -> Any:
    """A loop that adds twice the sums of a tile along `axis` to the tile."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    kept = tuple(1 if d == axis else extent for d, extent in enumerate(shape))
    with b.kernel("k", x=kind, y=kind, n=I32) as (x, y, n):
        at = b.arange(int(np.prod(shape))).reshape(*shape)
        tile = b.var((x + at).load())
        with b.for_(0, n):
            sums = tile.get().sum(axis)
            tile.set(tile.get() + (sums + sums).reshape(*kept).broadcast_to(*shape))
        (y + at).store(tile.get())
    return b.module()


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((8, 4), 0), ((8, 4), 1), *(((2, 4, 8), d) for d in range(3)), ((2, 2, 4, 4), 3)],
)
def test_tiles_of_any_rank_are_carried_and_reduced(shape, axis):
    x = np.random.default_rng(1).integers(-8, 9, shape).astype(np.float32)
    expected, actual = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    interpret(totals(shape, axis), "k", (1,), [x, expected, 3])
    SimtExecutor().launch(totals(shape, axis), "k", 1, [x, actual, 3], num_warps=2)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("warps", [1, 4])
def test_threads_own_columns(warps):
    """Two lanes share a column, so a reduction is one exchange. A result that is turned moves
    between lanes anyway, and a reduction outside of loops runs once: their tiles stay in rows."""

    def exchanges(form: str) -> int:
        kernel = compile_kernel(substitution(form), "sm_90", Options(num_warps=warps))
        return len(re.findall(r"shfl\.", kernel.ptx))

    assert exchanges("plain") == 1 < min(exchanges("turned"), exchanges("once"))


def test_the_layout_of_columns():
    """Lanes, then warps, move along columns; what is left of the lanes divides the columns, and
    what is left of the warps has the same elements."""
    small = layout_of_columns((16, 16), 0, 4)
    assert small is not None and small.size("register") == 8
    assert small.lane == ((0, 1), (0, 2), (0, 4), (0, 8), (8, 0)) and not any(map(any, small.warp))
    wide = layout_of_columns((8, 256), 0, 4)
    assert wide is not None and wide.size("register") == 16
    assert wide.warp == ((0, 32), (0, 64)) and not any(v[0] for v in wide.lane)
    rows = layout_of_columns((64, 16), 1, 2)
    assert rows is not None and rows.warp == ((32, 0),) and not any(v[1] for v in rows.lane)
    assert layout_of_columns((16, 24), 0, 4) is None, "an extent that is no power of two"
    assert layout_of_columns((16,), 0, 4) is None, "a vector"


def test_what_a_reduction_costs():
    """Words that a thread adds, and words that it exchanges: eight rows by one exchange; eight
    columns by halves, four, two and one, of which it needs all in the end; and warps."""
    word = 4 * 32
    columns = layout_of_columns((16, 16), 0, 1)
    assert reduced_bytes(columns, 0, 1) == (8 + 4 * 1) * word
    rows = blocked_layout((16, 16), (1, 0), 8, 1)
    assert reduced_bytes(rows, 0, 1) == (8 + 4 * (2 * (4 + 2 + 1) + 1)) * word
    warps = blocked_layout((64, 16), (1, 0), 8, 4)
    assert reduced_bytes(warps, 0, 4) == 4 * (8 + 4 * (2 * (4 + 2 + 1) + 1 + 8)) * word


def recurrence(accesses: bool) -> Any:
    """A state that decays. Each iteration adds up its columns, and their squares. With `accesses`,
    it also loads a tile, which it adds to the state, and stores the state."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, z=kind, n=I32) as (x, y, z, n):
        at = b.arange(32)[:, None] * 64 + b.arange(64)[None, :]
        state, totals, squares = b.var((x + at).load()), b.var(b.zeros(64)), b.var(b.zeros(64))
        with b.for_(0, n) as i:
            added = (x + i * 2048 + at).load() if accesses else state.get()
            state.set(state.get() * 0.5 + added)
            totals.set(totals.get() + state.get().sum(0))
            squares.set(squares.get() + (state.get() * state.get()).sum(0))
            if accesses:
                (y + i * 2048 + at).store(state.get())
        if not accesses:
            (y + at).store(state.get())
        (z + b.arange(64)).store(totals.get() + squares.get())
    return b.module()


@pytest.mark.parametrize("accesses", [False, True])
def test_conversions_in_the_loop_wait_as_well(accesses):
    """A tile that the loop loads and stores stays in rows: as many conversions as accesses would
    wait for other warps, in place of two reductions. Otherwise threads own columns."""
    kernel = compile_kernel(recurrence(accesses), "sm_90", Options(num_warps=4))
    layouts = str(kernel.tir_at("layouts"))
    body = layouts[layouts.index("phi") : layouts.rindex("reduce")]
    assert "convert_layout" not in body
    assert bool(re.search(r"shfl\.", kernel.ptx)) == accesses
    x = np.random.default_rng(1).integers(-1, 2, 4 * 2048).astype(np.float32)
    sizes = ((4 * 2048 if accesses else 2048), 64)
    expected, actual = ([np.zeros(n, np.float32) for n in sizes] for _ in range(2))
    interpret(recurrence(accesses), "k", (1,), [x, *expected, 4])
    SimtExecutor().launch(recurrence(accesses), "k", 1, [x, *actual, 4], num_warps=4)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)
