"""Integer accumulators that exceed the registers are folded along the axis they are reduced on."""

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.demand import max_tile_words, words
from tileir.backend.executors import SimtExecutor
from tileir.backend.legalize.link_inline import legalize
from tileir.backend.transforms.fold_accumulators import fold_accumulators
from tileir.builder import F32, I8, I16, I32, I64, Builder, pointer
from tileir.types import Tile

BINS, COLUMNS, THREADS = 8, 64, 2
"""A tile of 8 x 64 counters is large for 2 threads."""


def histogram(counter=I32, axis=1, start=0, combine="add", used_twice=False,
              read_inside=False):  # fmt: skip
    """Counts of the values 0 to 7 among `n` rows of 64: what a row adds is one per match."""
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(counter), n=I32) as (x, y, n):
        total = b.var(b.full((BINS, COLUMNS), start, counter), name="total")
        with b.for_(0, n) as row:
            key = (x + row * COLUMNS + b.arange(COLUMNS)).load()
            match = b.arange(BINS)[:, None] == key[None, :]
            term = match.to(counter, signed=False)
            total.set(total.get() + term if combine == "add" else total.get() | term)
            if read_inside:
                (y + BINS + b.arange(BINS)).store(total.get().sum(axis=1))
        result = total.get()
        counts = result.sum(axis=axis) if combine == "add" else result.reduce(axis, "or")
        (y + b.arange(counts.shape[0])).store(counts)
        if used_twice:
            (y + BINS + b.arange(BINS)).store(result.max(axis=1))
    return b.module()


def fold(module, threads=THREADS):
    function = legalize(module, "k").functions["k"]
    new = fold_accumulators(function, threads)
    return module if new is function else module.evolve(functions={"k": new})


def carried_types(module):
    """Types of the tiles that loops carry."""
    return [
        p.type
        for block in module.functions["k"].blocks.values()
        for p in block.parameters
        if isinstance(p.type, Tile)
    ]


@pytest.mark.parametrize("counter", [I32, I64])
@pytest.mark.parametrize("combine", ["add", "or"])
def test_counts_are_the_same_and_fit(counter, combine):
    module = histogram(counter, combine=combine)
    new = fold(module)
    (kind,) = carried_types(new)
    assert words(kind) * 4 <= max_tile_words(THREADS) < words(carried_types(module)[0])
    x = np.random.default_rng(0).integers(0, BINS, 5 * COLUMNS).astype(np.int32)
    dtype = np.int64 if counter is I64 else np.int32
    actual, expected = np.zeros((2, 2 * BINS), dtype)
    tileir.interpret(module, None, 1, [x, expected, 5])
    tileir.interpret(new, None, 1, [x, actual, 5])
    np.testing.assert_array_equal(actual, expected)
    assert expected[:BINS].any()


@pytest.mark.parametrize(
    "kernel",
    [{"counter": F32}, {"axis": 0}, {"start": 1}, {"used_twice": True}, {"read_inside": True}],
    ids=["rounded", "other axis", "start", "used twice", "read inside"],
)
def test_what_depends_on_single_counters_is_not_folded(kernel):
    module = histogram(**kernel)
    assert fold(module) is module


NEUTRAL = {"add": 0, "mul": 1, "and": -1, "or": 0, "xor": 0, "smin": "greatest",
           "smax": "least", "umin": -1, "umax": 0}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("combiner", NEUTRAL)
def test_any_combiner_and_extent(combiner):
    """Also extents that are no powers of two, until they are odd, of each width."""
    for element, columns in ((I8, 256), (I16, 192), (I32, 96), (I64, 80)):
        start = NEUTRAL[combiner]
        if isinstance(start, str):
            start = -(1 << element.bits - 1) if start == "least" else (1 << element.bits - 1) - 1
        b = Builder()
        with b.kernel("k", x=pointer(element), y=pointer(element), n=I32) as (x, y, n):
            at = b.arange(BINS)[:, None] * columns + b.arange(columns)[None, :]
            total = b.var(b.full((BINS, columns), start, element), name="total")
            with b.for_(0, n) as row:
                term = (x + (at + row * BINS * columns)).load()
                method = f"{combiner}_" if combiner in ("and", "or") else combiner
                total.set(getattr(b, method)(total.get(), term))
            (y + b.arange(BINS)).store(total.get().reduce(1, combiner))
        module = b.module()
        new = fold(module, threads=8)
        assert words(carried_types(new)[0]) < words(carried_types(module)[0])
        dtype = np.dtype(f"i{element.bytes}")
        x = np.random.default_rng(1).integers(-128, 128, 3 * BINS * columns).astype(dtype)
        for rows in (0, 3):
            actual, expected = np.zeros((2, BINS), dtype)
            tileir.interpret(module, None, 1, [x, expected, rows])
            tileir.interpret(new, None, 1, [x, actual, rows])
            np.testing.assert_array_equal(actual, expected)


def test_an_accumulator_that_fits_is_not_folded():
    module = histogram()
    assert fold(module, threads=32) is module


def test_a_histogram_of_a_block_needs_no_local_memory():
    """16 x 1024 counters of i64 are 256 registers of each of 128 threads."""
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I64), n=I32) as (x, y, n):
        total = b.var(b.full((16, 1024), 0, I64), name="total")
        with b.for_(0, n) as row:
            key = (x + row * 1024 + b.arange(1024)).load()
            match = b.arange(16)[:, None] == key[None, :]
            total.set(total.get() + match.to(I64, signed=False))
        (y + b.arange(16)).store(total.get().sum(axis=1))
    module = b.module()
    compiled = compile_kernel(module, "sm_90a", options={"num_warps": 4})
    assert "local" not in compiled.ptx
    x = np.random.default_rng(0).integers(0, 16, 2 * 1024).astype(np.int32)
    out = np.zeros(16, np.int64)
    SimtExecutor().launch(module, None, 1, [x, out, 2], num_warps=4)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=16))
