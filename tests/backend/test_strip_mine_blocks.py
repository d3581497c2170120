"""Strip-mining where one tile is cut in two ways, and where blocks need what others compute."""

import numpy as np
import pytest

import tileir
from tileir.builder import I32, Builder, arg, pointer
from tileir.passmanager import run

from .test_strip_mine import equal
from .test_strip_mine_staging import numbers


def places(b, rows, columns):
    return b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]


@pytest.mark.parametrize("shape", [(31, 7), (7, 31)], ids=str)
def test_a_scan_is_read_along_its_axis_from_memory_and_recomputed_along_the_other(shape):
    """Of what is staged there are chunks along one dimension alone."""
    rows, columns = shape
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I32), z=pointer(I32)) as (x, y, z):
        scanned = b.scan(places(b, rows, columns), axis=0, combiner="smax")
        (z + b.arange(rows)).store(scanned.reduce(1, lambda a, c: a + c))
        (y + places(b, rows, columns)).store((x + places(b, rows, columns)).load() + scanned)
        (x + places(b, rows, columns)).store(scanned)
    count = rows * columns
    x = numbers(count, np.int32)
    equal(b.module(), 1, [x, np.zeros(count, np.int32), np.zeros(rows, np.int32)])


@pytest.mark.parametrize("limit", [1, 2])
def test_what_chunks_of_another_block_need_whole_is_computed(limit):
    """A loop in `body` computes chunks of `row` again, out of all of `column`, which no op of its
    block reads."""
    b = Builder()
    with b.kernel("k", y=pointer(I32), n=I32) as (y, n):
        column = b.arange(7)[:, None] * n
        row = (b.zeros((7, 31), I32) + column).reduce(0, lambda a, c: a ^ c)
        state = b.var(b.zeros((7, 31), I32))
        with b.for_(2):
            state.set((row[None, :].broadcast_to(7, 31) + state) & 31)
        (y + places(b, 7, 31)).store(state)
    module = b.module()
    options = f"strip-mine{{warps=1,limit={limit},chunk={limit}}}"
    results = []
    for program in (module, run(module, options).module):
        y = np.zeros(7 * 31, np.int32)
        tileir.interpret(program, "k", (1,), {"y": y, "n": 5})
        results.append(y)
    np.testing.assert_array_equal(*results)


def test_what_is_stored_in_another_block_than_it_is_computed_in_is_staged_there():
    b = Builder()
    kinds = {name: arg(pointer(I32)) for name in "xyz"}
    with b.kernel("k", **kinds, n=I32) as (x, y, z, n):
        value = b.maximum(places(b, 8, 16) & 7, b.zeros((8, 16), I32))
        with b.if_(n > 0):
            stored = (x + places(b, 8, 16)).load()
            (z + places(b, 8, 16)).store(value, (stored & 1) == 0)
            (y + b.arange(8)).store(value.sum(1) + stored.max(1))
            (z + 128 + (127 - places(b, 8, 16))).store(stored)
    arguments = [numbers(128, np.int32), np.zeros(8, np.int32), np.zeros(256, np.int32), 1]
    equal(b.module(), 1, arguments)


@pytest.mark.parametrize("options", ["limit=1,chunk=2", "limit=2,chunk=9", "limit=3"])
def test_chunks_are_no_larger_than_what_is_not_cut(options):
    b = Builder()
    with b.kernel("k", y=pointer(I32), n=I32) as (y, n):
        state = b.var(b.arange(320) & 15)
        with b.for_(n):
            state += 1
        (y + b.arange(320)).store(state)
    module = b.module()
    new = run(module, f"strip-mine{{warps=1,{options}}}").module
    y = np.zeros(320, np.int32)
    tileir.interpret(new, "k", (1,), {"y": y, "n": 3})
    np.testing.assert_array_equal(y, (np.arange(320) & 15) + 3)
