"""Tiles that exceed the limit of strip-mining, and that threads compute whole all the same."""

import re

import numpy as np
from ml_dtypes import bfloat16

import tileir
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.strip_mine.whole_tiles import fit_element_by_element, fits_whole
from tileir.builder import BF16, F32, I8, I32, Builder, arg, pointer
from tileir.types import F8E4M3

THREADS, COUNT = 128, 128 * 128
"""A tile of f32 takes 128 registers of a thread, and is large: more than 64."""


def elementwise(*kinds, count=COUNT):
    """The sum of tiles of `kinds`, as f32."""
    b = Builder()
    inputs = {f"x{n}": arg(pointer(kind), aligned=16) for n, kind in enumerate(kinds)}
    with b.kernel("k", y=arg(pointer(F32), aligned=16), **inputs) as (y, *xs):
        at = b.arange(count)
        total = (xs[0] + at).load().to(F32)
        for x in xs[1:]:
            total = total + (x + at).load().to(F32)
        (y + at).store(total)
    return b.module()


def quotients(kind, reused):
    """Elements over the largest one; if `again`, both are needed with the sum of the latter."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(kind), aligned=16), y=arg(pointer(F32), aligned=16)) as (x, y):
        at = b.arange(COUNT)
        value = (x + at).load().to(F32)
        weight = value / value.max(axis=0)
        if reused:
            weight = value * weight.sum(axis=0) + weight
        (y + at).store(weight)
    return b.module()


def centring_kernel(*kinds, reused):
    """The sum of tiles of `kinds`, less its largest element; if not `reused`, that alone."""
    b = Builder()
    inputs = {f"x{n}": arg(pointer(kind), aligned=16) for n, kind in enumerate(kinds)}
    with b.kernel("k", y=arg(pointer(BF16), aligned=16), **inputs) as (y, *xs):
        at = b.arange(COUNT)
        tiles = [(x + at).load() for x in xs]
        largest = (tiles[0] + tiles[1]).max(axis=0)
        (y + at).store(tiles[0] * tiles[1] - largest if reused else tiles[0] * 0.0 + largest)
    return b.module()


@for_each(("module", "whole"), [
        (centring_kernel(BF16, BF16, reused=True), True),
        (centring_kernel(BF16, BF16, reused=False), False),
        (centring_kernel(F32, F32, reused=True), False),
        (elementwise(F8E4M3), True), (elementwise(BF16), True), (elementwise(F8E4M3, I8), True),
        (elementwise(F32), False), (elementwise(BF16, BF16), False),
        (elementwise(I8, count=2 * COUNT), False),
        (quotients(BF16, reused=False), True), (quotients(BF16, reused=True), False),
    ])  # fmt: skip
def test_narrow_loads_stay_in_registers_and_casts_of_them_do_not(module, whole):
    """Loads may take 64 registers of a thread, and values that are live across a reduction 128;
    loads of small elements that are, 128 as well."""
    (function,) = module.functions.values()
    assert fits_whole(function, THREADS) == whole


def reduction_kernel(*kinds, count=COUNT, squares=False):
    """The sum over rows of tiles of `kinds` multiplied elementwise; with `squares`, also that
    of their squares."""
    b = Builder()
    inputs = {f"x{n}": arg(pointer(kind), aligned=16) for n, kind in enumerate(kinds)}
    with b.kernel("k", y=arg(pointer(F32), aligned=16), **inputs) as (y, *xs):
        rows = b.arange(count // 128)
        at = rows[:, None] * 128 + b.arange(128)[None, :]
        total = (xs[0] + at).load().to(F32)
        for x in xs[1:]:
            total = total * (x + at).load().to(F32)
        result = total.sum(axis=1)
        (y + rows).store(result + (total * total).sum(axis=1) if squares else result)
    return b.module()


@for_each(("module", "whole"), [
        (reduction_kernel(BF16, BF16), True), (reduction_kernel(F32), True),
        (reduction_kernel(F32, F32), True),
        (reduction_kernel(F32, F32, BF16), False), (reduction_kernel(I8, count=2 * COUNT), True),
        (reduction_kernel(I8, count=4 * COUNT), False),
        (reduction_kernel(F32, squares=True), True),
    ])  # fmt: skip
def test_loads_that_are_only_reduced_may_take_more_registers_than_a_thread_has(module, whole):
    """256 for a thread: each is added to a sum when it arrives. A single tile may take 128, also
    where a second reduction needs it."""
    (function,) = module.functions.values()
    assert fits_whole(function, THREADS) == whole


def test_whole_rows_are_loaded_where_they_are_only_reduced():
    """A loop over chunks of the columns would load 16 registers of each tile at a time."""
    module = reduction_kernel(BF16, BF16)
    ptx = compile_kernel(module, "sm_90a", options={"num_warps": 4}).ptx
    assert "bra" not in ptx
    assert len(re.findall(r"ld\.global\.v4", ptx)) == 2 * COUNT // THREADS // 8
    x = np.random.default_rng(0).integers(-8, 8, (2, COUNT)).astype(bfloat16)
    y, expected = np.zeros((2, COUNT // 128), np.float32)
    SimtExecutor().launch(module, None, 1, [y, *x], num_warps=4)
    tileir.interpret(module, None, 1, [expected, *x])
    np.testing.assert_array_equal(y, expected)


def test_blocks_of_many_threads_have_no_more_registers():
    """A thread of 512 has 128 registers: as with 128 threads, half of them are 64."""
    (function,) = elementwise(I8, count=4 * COUNT).functions.values()
    assert fits_whole(function, THREADS) is fits_whole(function, 4 * THREADS) is False


def decaying_state(count=COUNT, reduced=False):
    """A loop that stores what it carries where it loads what it adds to that."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), n=I32) as (x, n):
        at = b.arange(count)
        total = b.var((x + at).load())
        with b.for_(0, n) as row:
            place = x + (at + row * count)
            value = place.load()
            place.store(total.get())
            total.set(total.get() * 0.5 + (value - value.max(axis=0) if reduced else value))
        (x + at).store(total.get())
    return b.module()


@for_each(("module", "whole"), [
        (decaying_state(), True), (decaying_state(reduced=True), False),
        (decaying_state(count=2 * COUNT), False),
    ])  # fmt: skip
def test_elements_that_would_pass_through_private_memory_stay_in_registers(module, whole):
    """Up to 128 registers of a thread, unless a reduction needs them all."""
    (function,) = module.functions.values()
    assert fit_element_by_element(function, THREADS) == whole


def test_no_private_memory_where_a_loop_stores_to_what_it_loads():
    """The elements are loaded 16 bytes at a time, not one by one in chunks."""
    module, rows = decaying_state(), 3
    ptx = compile_kernel(module, "sm_90a", options={"num_warps": 4}).ptx
    assert ".local" not in ptx
    assert len(re.findall(r"ld\.global\.v4", ptx)) == 2 * COUNT // THREADS // 4
    x = np.random.default_rng(0).standard_normal((rows, COUNT)).astype(np.float32)
    y, expected = x.copy(), x.copy()
    SimtExecutor().launch(module, None, 1, [y, rows], num_warps=4)
    tileir.interpret(module, None, 1, [expected, rows])
    np.testing.assert_array_equal(y, expected)


def test_a_tile_that_a_loop_carries_is_not_computed_element_by_element():
    b = Builder()
    with b.kernel("k", x=pointer(I8), y=pointer(F32), n=I32) as (x, y, n):
        at = b.arange(COUNT)
        total = b.var(b.full((COUNT,), 0.0, F32))
        with b.for_(0, n) as row:
            total.set(total.get() + (x + (at + row * COUNT)).load().to(F32))
        (y + at).store(total.get())
    (function,) = b.module().functions.values()
    assert not fits_whole(function, THREADS)


def test_a_kernel_of_narrow_loads_is_one_block():
    """Without a promise of noalias, chunks would be staged in local memory, which each thread
    writes and reads again."""
    module = elementwise(I8)
    compiled = compile_kernel(module, "sm_90a", options={"num_warps": 4})
    assert "ld.local" not in compiled.ptx and "bra" not in compiled.ptx
    loads = re.findall(r"ld\.global\.(?:v(\d)\.)?b(\d+)", compiled.ptx)
    assert sum(int(n or 1) * int(bits) // 8 for n, bits in loads) == COUNT // THREADS
    x = np.random.default_rng(0).integers(-128, 128, COUNT).astype(np.int8)
    y, expected = np.zeros((2, COUNT), np.float32)
    SimtExecutor().launch(module, None, 1, [y, x], num_warps=4)
    tileir.interpret(module, None, 1, [expected, x])
    np.testing.assert_array_equal(y, expected)
