"""Loops whose counter is halved: their iterations are counted by evaluation."""

import numpy as np
import pytest

from tileir.analysis.loops import loops
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.literal_loops import literal_iterations
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.executor import executor


def search(block, size, varying=False):
    """The number of elements of a sorted table of `size` that are below each of `block` numbers."""
    b = Builder()
    data, numbers = arg(pointer(F32), aligned=16), arg(pointer(I32), aligned=16)
    with b.kernel("search", x=data, table=data, out=numbers, n=I32) as (x, table, out, n):
        i = b.arange(block)
        value = (x + i).load()
        low, high = b.var(b.full((block,), 0, I32)), b.var(b.full((block,), size, I32))
        left = b.var(n if varying else b.constant(I32, size))
        with b.while_(lambda: left.get() > 0):
            middle = (low.get() + high.get()) >> 1
            inside = middle < size
            above = (value > (table + middle).load(mask=inside, other=0.0)) & inside
            low.set(b.select(above, middle + 1, low.get()))
            high.set(b.select(above, high.get(), middle))
            left.set(left.get() >> 1)
        (out + i).store(low.get())
    return b.module()


def iterations(module, most=16):
    (function,) = module.functions.values()
    (loop,) = loops(function).by_header.values()
    return literal_iterations(function, loop, most)


@pytest.mark.parametrize(
    ("size", "most", "expected"), [(200, 16, 8), (1, 16, 1), (200, 8, 8), (200, 7, 0)]
)
def test_iterations_are_counted_up_to_a_limit(size, most, expected):
    assert iterations(search(128, size), most) == expected
    assert iterations(search(128, size, varying=True), most) == 0


@pytest.mark.parametrize(
    ("block", "size", "varying", "loads"),
    [(128, 200, False, 9), (512, 200, True, 5), (128, 200, True, 2), (4096, 200, False, 40)],
)
def test_a_short_search_becomes_straight_code(block, size, varying, loads):
    """One load of the table for each iteration and element; in a loop, for each element."""
    module = search(block, size, varying)
    ptx = compile_kernel(module, "sm_90a", {"num_warps": 4}).ptx
    assert ("bra" in ptx) == (varying or block == 4096)
    assert ptx.count("ld.global") == loads


@pytest.mark.parametrize("on", ["simt", "interpreter"])
def test_numbers_are_counted(on):
    numbers = np.random.default_rng(0)
    x, table = numbers.standard_normal(128), np.sort(numbers.standard_normal(200))
    arrays = [v.astype(np.float32) for v in (x, table)]
    out = np.zeros(128, np.int32)
    executor(on).launch(search(128, 200), "search", 1, [*arrays, out, 0])
    np.testing.assert_array_equal(out, np.searchsorted(arrays[1], arrays[0]))
