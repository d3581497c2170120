"""Where elements of tiles in shared memory are: whatever of a place is a thread's and what is
known, it is one byte offset, and no two elements share it."""

from itertools import product

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.codegen.emit.ldmatrix import load_matrices
from tileir.backend.codegen.emit.shared_addresses import (
    Addresses,
    SharedTileWindow,
    addresses,
    register_at,
)
from tileir.backend.executors import SimtExecutor
from tileir.backend.nvptx.thread import LlvmThread
from tileir.backend.shared_memory.bank_conflicts import conflicts
from tileir.backend.shared_memory.shared_tile import SharedTile, full_swizzle
from tileir.backend.simt.machine import ThreadValues
from tileir.layout import Repeat, layout
from tileir.textual import parse
from tileir.types import F16, F32, F64, I8, Tile

from ..test_coordinates import lowering_of

THREADS = 128
PLACES = [
    SharedTile(F16, (32, 64), 1, 3), SharedTile(F16, (64, 16), 0, 3),
    SharedTile(F32, (16, 32), 1, 2),
    SharedTile(I8, (16, 32), 1, 1), SharedTile(F64, (8, 4), 1, 0), SharedTile(F32, (16, 24), 1, 0),
    SharedTile(F16, (32, 128), 1, 3, panel=64), SharedTile(F16, (32, 64), 1, 2, panel=32),
    SharedTile(F32, (16, 40), 1, 1, base=1024),
]  # fmt: skip


def offset(place, row, column):
    """The byte of an element: chunks of 16 bytes of a row change places with those that the row's
    number among eight says."""
    byte = column * place.element.bytes
    panel, within = divmod(byte, place.pitch) if place.panel else (0, byte)
    phase = row >> (3 - place.swizzle) & (1 << place.swizzle) - 1
    return place.base + panel * place.panel_bytes + row * place.pitch + (within ^ phase * 16)


@for_each("number", range(len(PLACES)))
def test_elements_do_not_overlap(number):
    place = PLACES[number]
    rows, columns = place.shape[place.slow], place.shape[place.fast]
    places = list(product(range(rows), range(columns)))
    offsets = [offset(place, r, c) for r, c in places]
    assert len(set(offsets)) == rows * columns
    elements = [(r, c) if place.fast else (c, r) for r, c in places]
    assert [place.base + place.offset(element) for element in elements] == offsets
    assert max(offsets) + place.element.bytes <= place.base + place.bytes
    assert SharedTile(F32, (8, 8), 1, 0).base == 0


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("rows_known", "columns_known"), list(product((False, True), repeat=2)))
@pytest.mark.parametrize("number", range(len(PLACES)))
def test_of_threads_and_constants(number, rows_known, columns_known):
    """`at` adds what is known while compiling to what threads have."""
    place, lowering = PLACES[number], lowering_of(4)
    rows, columns = place.shape[place.slow], place.shape[place.fast]
    random, size = np.random.default_rng(number), place.element.bytes
    for step in (1,) if columns_known else (1, 2, max(1, 16 // size), columns // 2):
        mine = [np.zeros(THREADS, np.int32), np.zeros(THREADS, np.int32)]
        if not rows_known:
            mine[0] = random.integers(0, rows // 8, THREADS).astype(np.int32) * 8
        if not columns_known:
            mine[1] = random.integers(0, columns // step, THREADS).astype(np.int32) * step
        bits = 0
        for c in mine[1]:
            bits |= int(c) * size
        addresses = Addresses(lowering, place, None if rows_known else ThreadValues(mine[0]),
                         None if columns_known else ThreadValues(mine[1]), None, bits)  # fmt: skip
        for row in (0, 1, 6, rows - 1) if rows_known else (0, 3, 7):
            for column in range(0, columns - int(mine[1].max()), 1 + columns // 24):
                handle, constant = addresses.at(row, column)
                positions = handle.array.astype(np.int64) + constant
                expected = [offset(place, int(r) + row, int(c) + column)
                          for r, c in zip(*mine, strict=True)]  # fmt: skip
                assert positions.tolist() == expected


@pytest.mark.parametrize(("axis", "dim"), [("warp", 0), ("warp", 1), ("lane", 1)])
@pytest.mark.parametrize("swizzle", [0, 1, 2])
def test_of_layouts_whose_threads_step_by_no_bits(axis, dim, swizzle):
    """A third step sets bits that the first has not."""
    step = Repeat(axis, 4 if axis == "lane" else 3, dim)
    lanes = ((0, 1), (0, 2), (0, 4)) if axis == "lane" else ((0, 1), (0, 2), (0, 4), (1, 0), (2, 0))
    warps = 1 if axis == "lane" else 3
    it = layout(2, lane=lanes, repeats=(step, Repeat("register", 4, 1)))
    place, lowering = SharedTile(F16, it.extents, 1, swizzle), lowering_of(warps)
    window = SharedTileWindow(place)
    forms = addresses(lowering, window, it)
    for register, vector in enumerate(it.registers):
        handle, constant = register_at(window, forms, vector)
        places = [it.coordinate(register, t % 32, t // 32) for t in range(32 * warps)]
        assert (handle.array + constant).tolist() == [offset(place, *v) for v in places]


ROWS_OF_LANES = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
COLUMNS_OF_LANES = ((2, 0), (4, 0), (0, 1), (0, 2), (0, 4))


@for_each(("element", "lanes", "registers", "suffix"), [
        (F16, ROWS_OF_LANES, ((0, 1),), "x1."), (F16, COLUMNS_OF_LANES, ((1, 0),), "x1.trans."),
        (F16, ROWS_OF_LANES, ((0, 1), (8, 0)), "x2."), (F16, ROWS_OF_LANES[::-1], ((0, 1),), None),
        (F16, COLUMNS_OF_LANES, ((8, 0), (1, 0)), None), (F16, ROWS_OF_LANES, ((1, 0),), None),
        (F16, COLUMNS_OF_LANES[::-1], ((1, 0),), None), (F32, COLUMNS_OF_LANES, ((1, 0),), None),
        (F32, ((0, 1), (0, 2), *ROWS_OF_LANES[2:]), ((8, 0),), "x2."),
    ])  # fmt: skip
def test_matrices_are_loaded_where_lanes_hold_their_rows(element, lanes, registers, suffix):
    """Or, of elements of two bytes, their columns."""
    thread, it = LlvmThread(), layout(2, lane=lanes, register=registers)
    window = SharedTileWindow(SharedTile(element, it.extents, 1, 0))
    loaded = load_matrices(lowering_of(1, thread), window, Tile(element, it.extents, it))
    assert (loaded is not None) == (suffix is not None)
    assert suffix is None or any(f"ldmatrix.sync.aligned.m8n8.{suffix}" in x for x in thread.lines)


@for_each("element", [I8, F16, F32, F64])
@for_each("columns", [16, 32, 64, 128, 24, 40])
def test_eight_rows_at_one_column_conflict_in_no_bank(element, columns):
    swizzle = full_swizzle(element, (64, columns), 1)
    place = SharedTile(element, (64, columns), 1, swizzle)
    units = place.pitch // 16
    assert swizzle == min(3, (units & -units).bit_length() - 1)
    at = [offset(place, r, 0) if r < 8 else None for r in range(32)]
    assert conflicts(at, 16) == 0 or units < 8


@pytest.mark.sampled(7)
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("shape", [(4, 64), (3, 48), (5, 40)], ids=str)
@pytest.mark.parametrize(("first", "count"), [(0, 16), (5, 20), (13, 1), (3, 37)])
def test_some_columns_of_a_tile(shape, first, count, warps):
    """They alone are written, whatever of them a thread holds, and padding nowhere."""
    rows, columns = shape
    text = f"""tir 1.0
stage "pipelined"
define kernel void @k(i32* %x) {{
entry:
  %b = gpu.shared_alloc i32 addrspace(3)* {{shape = [1, {rows}, {count}]}}
  %after = gpu.shared_alloc i32 addrspace(3)* {{shape = [1, 8, {count}]}}
  gpu.local_store i32<8, {count}> -1, %after, 0
  %n = make_range i32<{rows * columns}>
  %all = reshape i32<{rows}, {columns}> %n
  gpu.local_store %all, %b, 0 {{columns = [{first}, {count}]}}
  gpu.barrier
  %some = gpu.local_load i32<{rows}, {count}> %b, 0
  %rest = gpu.local_load i32<8, {count}> %after, 0
  %i = make_range i32<{rows * count}>
  %at = reshape i32<{rows}, {count}> %i
  %xs = splat i32*<{rows}, {count}> %x
  %p = getelementptr i32*<{rows}, {count}> %xs, %at
  store %p, %some
  %j = make_range i32<{8 * count}> {{start = {rows * count}}}
  %second = reshape i32<8, {count}> %j
  %ys = splat i32*<8, {count}> %x
  %q = getelementptr i32*<8, {count}> %ys, %second
  store %q, %rest
  ret
}}
"""
    out = np.zeros((rows + 8, count), np.int32)
    SimtExecutor().launch(parse(text), None, 1, [out], num_warps=warps)
    every = np.arange(rows * columns).reshape(shape)
    np.testing.assert_array_equal(out[:rows], every[:, first : first + count])
    assert (out[rows:] == -1).all()
