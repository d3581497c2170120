"""What scans cost: shuffles, joins and accesses, by where the elements of a tile are."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tests.backend.test_layout_scan import (
    AFFINE,
    JOINED,
    LAYOUTS,
    SHAPES,
    check_function,
    check_scan,
    ptx_instructions,
)
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.machine import SimtThread
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.layout import layout
from tileir.layout_tilings import blocked_layout
from tileir.textual import parse
from tileir.types import I64


def lanes_along_rows(bits, count):
    """A layout, and the shape of its tile: lanes of so many bits share a row, with `count` elements
    each."""
    registers = tuple((0, 1 << bit) for bit in range(count.bit_length() - 1))
    lanes = [(0, count << bit) for bit in range(bits)]
    lanes += [(1 << bit, 0) for bit in range(5 - bits)]
    return layout(2, registers, tuple(lanes), ()), (32 >> bits, count << bits)


@for_each(("bits", "registers", "element"), itertools.product(range(1, 6), range(3), (I32, I64)))
def test_lanes_exchange_as_little_as_possible(bits, registers, element):
    """Over at most two bits of the lane a butterfly needs one shuffle less than the scan of totals,
    which takes no more joins where each lane has one element."""
    count = 1 << registers
    thread = check_scan(*lanes_along_rows(bits, count), 1, False, element)
    if count == 1:
        expected = bits, bits
    elif bits <= 2:
        expected = bits, 2 * count + 2 * bits - 3
    else:
        expected = bits + 1, 2 * count + bits - 2
    assert (thread.counts["shuffles"], thread.additions) == expected


@pytest.mark.parametrize("name", ["odd", "three warps"])
def test_padding_after_the_elements_costs_nothing(name):
    """It is joined to what is before it, which no element depends on."""
    it = LAYOUTS[name]
    for axis in (0, 1):
        padded = check_scan(it, SHAPES[name], axis, False, I32)
        whole = check_scan(it, it.extents, axis, False, I32)
        assert (padded.additions, padded.selects) == (whole.additions, whole.selects)


@for_each(("bits", "registers"), itertools.product(range(1, 6), range(3)))
def test_lanes_call_a_function_once_for_each_bit(bits, registers):
    """And threads for each of their elements but one, twice."""
    JOINED.clear()
    check_function(*lanes_along_rows(bits, 1 << registers), 1, False)
    assert len(JOINED) == bits + 2 * ((1 << registers) - 1)


def test_a_scan_by_a_function_joins_once_per_bit_of_the_lane():
    """Of 8 elements per thread, in two runs of 4: 6 joins in the thread, 5 for the lanes of each
    run, one of the runs, and one for every element but the last of each run."""
    text = AFFINE.format(m=1, n=256, axis=1, reverse="")
    kernel = compile_kernel(parse(text), "sm_90", {"num_warps": 1})
    assert kernel.llvm.count(" call {i32, i32} @f.then(") == 6 + 2 * 5 + 1 + 2 * 3


@pytest.mark.parametrize(("element", "joins"), [(I32, 6 + 10 + 3 + 1 + 5), (I64, 6 + 10 + 1 + 6)])
def test_runs_are_joined_one_after_the_other_where_a_join_is_long(element, joins, monkeypatch):
    """Where it is one instruction, the shuffles of a run do not wait for those of another."""
    counted, own = [], SimtThread.binary

    def binary(thread, name, kind, *operands):
        counted.append((name, kind))
        return own(thread, name, kind, *operands)

    monkeypatch.setattr(SimtThread, "binary", binary)
    thread = check_scan(blocked_layout((256,), (0,), 4, 1), (256,), 0, False, element)
    assert counted.count(("add", element)) == joins
    if element is I64:  # the bits of the lane, the lane before, and the total of the first run
        assert thread.counts["shuffles"] == 2 * (5 + 1) + 1


def test_threads_own_neighbours_that_are_a_stride_apart():
    """No access finds neighbours for a vector in any thread: 16 per thread are scanned alone,
    and lanes and warps exchange totals alone."""
    b = Builder()
    buffers = {n: arg(pointer(F32), aligned=16) for n in "xy"}
    with b.kernel("k", **buffers, stride=I32) as (x, y, stride):
        place = b.arange(2048) * stride
        (y + place).store(b.scan((x + place).load(), axis=0, combiner="fadd"))
    module = b.module()
    counts = ptx_instructions(module, 4)
    assert counts == {"barriers": 1, "shuffles": 6, "stores": 1, "loads": 1}
    x = np.random.default_rng(0).integers(-9, 9, 6144).astype(np.float32)
    y = np.zeros_like(x)
    SimtExecutor().launch(module, "k", 1, [x, y, 3], num_warps=4)
    np.testing.assert_array_equal(y[::3], np.cumsum(x[::3]))


@pytest.mark.parametrize("scanned", [True, False])
def test_lanes_own_neighbours_of_a_strided_load_whatever_the_store_needs(scanned):
    """Neighbours a stride apart are in half as many lines where the lanes of an instruction load
    all of them as where they load every second one."""
    b = Builder()
    buffers = {"x": arg(pointer(F32), aligned=16), "y": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **buffers, stride=I32) as (x, y, stride):
        values = (x + b.arange(256) * stride).load()
        result = b.scan(values, axis=0, combiner="fadd") if scanned else values + 1.0
        (y + b.arange(256)).store(result)
    module = b.module()
    ptx = compile_kernel(module, "sm_90", {"num_warps": 4}).ptx
    assert len(re.findall(r"\bst\.global\.b32", ptx)) == 2 and "st.global.v2" not in ptx
    x = np.random.default_rng(0).integers(-9, 9, 768).astype(np.float32)
    y = np.zeros(256, np.float32)
    SimtExecutor().launch(module, "k", 1, [x, y, 3], num_warps=4)
    np.testing.assert_array_equal(y, np.cumsum(x[::3]) if scanned else x[::3] + 1)


def test_lanes_exchange_few_values_where_a_load_is_not_aligned():
    """Only the store is aligned to vectors. Lanes exchange 7 values for each of 16 runs of 2
    neighbours; single elements would be 32 runs."""
    b = Builder()
    buffers = {"x": arg(pointer(F32)), "y": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **buffers) as (x, y):
        place = b.arange(1024)
        (y + place).store(b.scan((x + place).load(), axis=0, combiner="fmaxnum"))
    module = b.module()
    ptx = compile_kernel(module, "sm_90", {"num_warps": 1}).ptx
    assert len(re.findall(r"\bst\.global\.v2\.b32", ptx)) == 16
    assert ptx.count("shfl.sync") <= 16 * 7
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=1024).astype(np.float32), np.zeros(1024, np.float32)
    SimtExecutor().launch(module, "k", 1, [x, y], num_warps=1)
    np.testing.assert_array_equal(y, np.maximum.accumulate(x))
