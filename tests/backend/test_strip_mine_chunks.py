"""Chunks of strip-mined tiles: how large they are, what is kept of them, and in which order."""

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.strip_mine.emit_loops import chunk_size
from tileir.builder import Builder
from tileir.executor import executor
from tileir.passmanager import run
from tileir.textual import print_module
from tileir.types import I32, I64, tile

from .test_strip_mine import SMALL, buffers, equal, softmax


@for_each("unit", [1, 2, 3, 64])
@for_each("most", [32, 100, 4096])
def test_chunks_fit_and_divide_where_they_can(unit, most):
    for extent in [*range(1, 70), 96, 100, 128, 192, 1000, 1024, 4096, 5000, 65536]:
        size = chunk_size(extent, unit, most)
        fits = max(1, min(most // unit, extent))
        assert fits // 2 < size <= fits
        power = 1 << (fits.bit_length() - 1)
        if extent % power == 0:
            assert size == power
        elif size != power:
            assert extent % size == 0
        else:
            assert not any(extent % n == 0 and n % 4 == 0 for n in range(power, fits + 1))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [31, 32, 33, 40, 48, 63, 64, 65, 95, 96, 97])
def test_sums_of_any_number_of_elements(count):
    """Nothing is after the last element that a mask would leave out."""
    b = Builder()
    with b.kernel("k", **buffers("x", "y")) as (x, y):
        value = (x + b.arange(count)).load()
        y.store(value.sum(axis=0))
        (y + 1 + b.arange(count)).store(value * 2.0)
    x = np.arange(count, dtype=np.float32)
    for keep in (0, 1, 2, 5):
        equal(b.module(), 1, [x, np.zeros(count + 1, np.float32)], keep=keep)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(2, 48), (48, 2), (5, 40)], ids=str)
def test_a_dimension_of_one_between_others(shape, axis):
    """Which dimension of the whole is cut is told through the dimension that is added."""
    rows, columns = shape
    b = Builder()
    with b.kernel("k", **buffers("x", "y", "z")) as (x, y, z):
        place = b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]
        value = b.expand_dims((x + place).load(), axis=axis)
        wide = b.expand_dims(place, axis=axis)
        (y + wide).store(value + 1.0)
        z.store((value * value).sum(axis=2).sum(axis=1).sum(axis=0))
    x = np.arange(rows * columns, dtype=np.float32)
    equal(b.module(), 1, [x, np.zeros_like(x), np.zeros(1, np.float32)], rtol=1e-6)


def test_pairs_are_cut_along_what_they_were_made_of():
    b = Builder()
    with b.kernel("k", **buffers("x", "y")) as (x, y):
        place = b.arange(160)
        value = (x + place).load()
        pairs = b.join(value, value * 3.0)
        at = b.join(place * 2, place * 2 + 1)
        (y + at).store(pairs)
    x = np.arange(160, dtype=np.float32)
    equal(b.module(), 1, [x, np.zeros(320, np.float32)], loops=1)


def two_softmaxes(first, second):
    b = Builder()
    with b.kernel("k", **buffers("x", "y", "u", "v")) as (x, y, u, v):
        for source, to, count in ((x, y, first), (u, v, second)):
            place = b.arange(count)
            value = (source + place).load()
            weight = (value - value.max(axis=0)).exp()
            (to + place).store(weight / weight.sum(axis=0))
    return b.module()


@pytest.mark.parametrize(("keep", "kept"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (100, 14)])
def test_what_is_kept_counts_for_all_tiles_together(keep, kept):
    """Each chunk that is kept is loaded on its own, and loops load the others, three times."""
    module = two_softmaxes(160, 288)
    text = print_module(run(module, SMALL.format(keep=keep)).module)
    chunks = sum(map(int, (160 / 32, 288 / 32)))
    loops = text.count("cond_br ")
    assert text.count(" = load ") - loops == min(kept, chunks)


def test_only_what_several_loops_read_is_kept():
    b = Builder()
    with b.kernel("k", **buffers("x", "w", "y")) as (x, w, y):
        place = b.arange(160)
        value = (x + place).load()
        (y + place).store((value - value.sum(axis=0)) * (w + place).load())
    module = b.module()
    x = np.arange(160, dtype=np.float32)
    equal(module, 1, [x, x + 3, np.zeros_like(x)], keep=2, rtol=1e-6)
    text = print_module(run(module, SMALL.format(keep=2)).module)
    assert text.count(" = load f32<32>") == 2 * 2 + 2 + 1 and text.count("cond_br ") == 2


def test_a_row_is_not_kept_where_a_matrix_would_be_peeled_for_it():
    """Two loops over columns read one number per column: a copy of the code for each column would
    save that load only."""
    b = Builder()
    with b.kernel("k", **buffers("x", "w", "y")) as (x, w, y):
        rows = b.arange(64)
        value = (x + rows).load()[:, None] * (w + b.arange(512)).load()[None, :]
        weight = (value - value.max(axis=1)[:, None]).exp()
        (y + rows).store(weight.sum(axis=1))
    transformed = run(b.module(), "strip-mine{warps=1,limit=2,chunk=2,keep=4}").module
    multiplications = [op for op in transformed.functions["k"].ops if op.mnemonic == "fmul"]
    assert len(multiplications) == 2
    x, w = np.linspace(0, 1, 64, dtype=np.float32), np.linspace(-1, 1, 512, dtype=np.float32)
    y = np.zeros_like(x)
    executor("interpreter").launch(transformed, "k", 1, [x, w, y])
    scores = x[:, None] * w
    expected = np.exp(scores - scores.max(axis=1, keepdims=True)).sum(axis=1)
    np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.parametrize("keep", [0, 1, 5])
def test_loops_are_counted(keep):
    for module in (softmax(1, 160), softmax(4, 64), two_softmaxes(160, 288)):
        result = run(module, SMALL.format(keep=keep))
        (step,) = result.records
        assert step.statistics["loops"] == print_module(result.module).count("cond_br ")


def streaming_softmax(columns):
    """A softmax of a row that is not needed again."""
    b = Builder()
    with b.kernel("k", **buffers("x", "y")) as (x, y):
        place = b.arange(columns)
        value = (x + place).load(eviction="first")
        weight = (value - value.max(axis=0)).exp()
        (y + place).store(weight / weight.sum(axis=0))
    return b.module()


@pytest.mark.parametrize("keep", [0, 1, 2, 5])
def test_what_is_read_for_the_last_time_is_evicted_first(keep):
    """Chunks that are kept are read once; of others, the last loop's."""
    text = print_module(run(streaming_softmax(160), SMALL.format(keep=keep)).module)
    assert text.count("eviction = first") == keep + (keep < 5)


def test_a_result_of_a_result_takes_its_own_loop():
    """Three sums, each of what the one before is needed for, and a store: four loops."""
    b = Builder()
    with b.kernel("k", **buffers("x", "y")) as (x, y):
        place = b.arange(160)
        value = (x + place).load()
        for _ in range(3):
            value = value - value.sum(axis=0) / 160.0
        (y + place).store(value)
    x = np.arange(160, dtype=np.float32)
    equal(b.module(), 1, [x, np.zeros_like(x)], loops=4, rtol=1e-5)


def test_stores_that_may_alias_keep_their_order():
    """Every loop that reads what another stores comes after it, and no later than it must."""
    b = Builder()
    with b.kernel("k", **buffers("x", "y", "z")) as (x, y, z):
        place = b.arange(96)
        value = (x + place).load()
        (y + place).store(value - value.sum(axis=0))
        other = (y + (95 - place)).load()
        (z + place).store(other * other.max(axis=0))
        (x + place).store((z + (95 - place)).load() + 1.0)
    x = np.arange(96, dtype=np.float32)
    equal(b.module(), 1, [x, np.zeros_like(x), np.zeros_like(x)], loops=5, rtol=1e-6)


@pytest.mark.parametrize(("warps", "chunk"), [(1, 512), (4, 2048), (8, 4096), (16, 8192)])
def test_chunks_are_an_eighth_of_the_registers(warps, chunk):
    """Of the 128 that a thread of 16 warps has: 16 words."""
    text = print_module(
        run(streaming_softmax(1 << 17), f"strip-mine{{warps={warps},keep=0}}").module
    )
    assert f"f32<{chunk}>" in text


def test_tiles_that_registers_hold_stay_whole():
    """Up to half of the registers: 64 words a thread, of 4 warps and of 16."""
    small, large = streaming_softmax(8192), streaming_softmax(8193)
    assert run(small, "strip-mine{warps=4}").module is small
    assert "cond_br" in print_module(run(large, "strip-mine{warps=4}").module)
    text = print_module(run(streaming_softmax(1 << 17), "strip-mine").module)
    assert "num_warps = 16" in text and "f32<8192>" in text
    assert run(streaming_softmax(1 << 15), "strip-mine").records[0].changed is False


@pytest.mark.parametrize("index", [I32, I64], ids=str)
def test_indices_of_64_bits_do_not_halve_the_chunks(index):
    """A chunk has an eighth of the registers of its threads."""
    b = Builder()
    with b.kernel("k", **buffers("x", "y")) as (x, y):
        n = b.sext(b.arange(64), tile(I64, (64,))) if index is I64 else b.arange(64)
        value = (x + (n[:, None] * 64 + n[None, :])).load()
        (y + n).store(value.sum(axis=0))
    text = print_module(run(b.module(), "strip-mine{warps=1}").module)
    assert "load f32<8, 64>" in text
    x = np.arange(4096, dtype=np.float32)
    equal(b.module(), 1, [x, np.zeros(64, np.float32)], rtol=1e-6)
