"""Strip-mining where stores may change what is loaded: chunks wait in private memory."""

import numpy as np
import pytest

from tileir.builder import F16, F32, F64, I1, I8, I32, Builder, arg, pointer
from tileir.passmanager import run
from tileir.textual import parse, print_module

from .test_strip_mine import SMALL, equal


def private_tiles(module):
    """Tiles that are kept, by the text of their buffers' types."""
    return [
        str(op.result.type)
        for function in module.functions.values()
        for op in function.ops
        if op.mnemonic == "gpu.private_alloc"
    ]


def numbers(count, kind=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-9, 9, count).astype(kind)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("count", [33, 64, 95, 96, 100, 160])
@pytest.mark.parametrize("shift", [0, 1, 31, 32, 40, -1, -40])
def test_what_is_stored_is_what_was_there_before(count, shift):
    """A store to the addresses of the load needs nothing kept; one next to them all of it."""
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        place = x + 40 + b.arange(count)
        (place + shift).store(place.load() * 2.0)
    new = equal(b.module(), 1, [numbers(count + 80)])
    assert [new.stage for _ in private_tiles(new)] == ["strip_mined"] * len(private_tiles(new))


@pytest.mark.parametrize("count", [64, 97])
def test_a_store_to_where_a_load_reads_keeps_nothing(count):
    """Places of different elements differ, and a chunk is stored once it has been loaded."""
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        place = x + (b.arange(count) + 3)
        place.store(place.load() * 2.0)
    new = equal(b.module(), 1, [numbers(count + 3)], loops=1)
    assert not private_tiles(new)


def softmax(rows, columns, *, shift=None, masked=False):
    """A softmax of x into y, or into x itself, `shift` elements on."""
    b = Builder()
    with b.kernel("softmax", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        place = b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]
        inside = (b.arange(columns) < n)[None, :].broadcast_to(rows, columns)
        value = (x + place).load(inside, float("-inf")) if masked else (x + place).load()
        weight = (value - value.max(axis=1)[:, None]).exp()
        target = y if shift is None else x + shift
        (target + place).store(weight / weight.sum(axis=1)[:, None], inside if masked else None)
    return b.module()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shift", [None, 0, 5])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 64), (1, 65), (4, 64), (3, 67), (70, 3), (5, 33)]
)
@pytest.mark.parametrize("keep", [0, 1, 2])
def test_a_softmax_without_a_promise(rows, columns, shift, masked, keep):
    count = rows * columns
    x = np.random.default_rng(1).normal(size=count + 5).astype(np.float32)
    arguments = [x, np.zeros_like(x), columns - 2]
    new = equal(
        softmax(rows, columns, shift=shift, masked=masked), 1, arguments, keep=keep, rtol=1e-6
    )
    assert all(f"f32<{rows}, {columns}>" not in line for line in print_module(new).splitlines())


def test_the_row_is_loaded_once_and_reduced_as_it_is():
    """Four loops with the load again in each would be three; here the first alone loads."""
    new = run(softmax(1, 320), SMALL.format(keep=0)).module
    text = print_module(new)
    assert text.count(" = load ") == 1 and text.count("cond_br ") == 3
    assert private_tiles(new) == ["private<f32<1, 32>, 10>"]


def test_a_chunk_that_is_smaller_stays_in_registers():
    new = run(softmax(1, 70), SMALL.format(keep=0)).module
    assert private_tiles(new) == ["private<f32<1, 32>, 2>"]
    assert print_module(new).count("private_load f32<1, 6>") == 0


def test_what_is_kept_in_registers_is_not_written():
    new = run(softmax(1, 320), SMALL.format(keep=4)).module
    assert private_tiles(new) == ["private<f32<1, 32>, 6>"]
    assert private_tiles(run(softmax(1, 320), SMALL.format(keep=10)).module) == []


def test_small_elements_are_kept_packed():
    """8 chunks of 32 bytes are 8 words of 32 threads: 2 registers of each."""
    b = Builder()
    with b.kernel("k", x=pointer(I8), y=pointer(I32)) as (x, y):
        place = b.arange(256)
        (y + place).store((x + place).load().to(I32))
    values = [numbers(256, np.int8), np.zeros(256, np.int32)]
    assert private_tiles(equal(b.module(), 1, values, keep=1)) == ["private<i8<32>, 4>"]
    assert private_tiles(equal(b.module(), 1, values, keep=2)) == []


def test_a_reduction_is_kept_where_its_operand_would_be_larger():
    b = Builder()
    with b.kernel("k", x=pointer(F32), w=pointer(F32), y=pointer(F32)) as (x, w, y):
        place = b.arange(96)
        (y + place).store((x + place).load() + (w + place).load())
    new = equal(b.module(), 1, [numbers(96), numbers(96, seed=1), numbers(96)], loops=2)
    assert private_tiles(new) == ["private<f32<32>, 3>"]


def test_one_load_is_kept_for_several_stores():
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        place = b.arange(96)
        value = (x + place).load()
        (y + place).store(value + 1.0)
        (y + 96 + place).store(value * 2.0)
        (x + 1 + place).store(value * 3.0)
    new = equal(b.module(), 1, [numbers(97), numbers(192)])
    assert private_tiles(new) == ["private<f32<32>, 3>"]


def test_loads_and_stores_of_one_array_keep_their_order():
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), z=pointer(F32)) as (x, y, z):
        place = b.arange(100)
        value = (x + place).load()
        (y + place).store(value - value.sum(axis=0))
        other = (y + (99 - place)).load()
        (z + place).store(other * other.max(axis=0) + value)
        (x + place).store((z + (99 - place)).load() + other)
        y.store(value.max(axis=0))
    for arguments in ([numbers(100), numbers(100), numbers(100)],):
        equal(b.module(), 1, arguments, rtol=1e-6)
        equal(b.module(), 1, arguments, keep=1, rtol=1e-6)


def test_addresses_and_masks_that_are_loaded_are_kept():
    b = Builder()
    with b.kernel("k", at=pointer(I32), x=pointer(F32), on=pointer(I1)) as (at, x, on):
        place = b.arange(96)
        where = (at + place).load()
        (x + where).store((x + 95 - where).load() + 1.0, (on + place).load())
        (at + place).store(where + 1)
    order = np.random.default_rng(3).permutation(96).astype(np.int32)
    new = equal(b.module(), 1, [order, numbers(96), numbers(96, bool)])
    assert private_tiles(new)


@pytest.mark.parametrize("element", [F16, F64, I8, I1, I32], ids=str)
def test_elements_of_any_size(element):
    b = Builder()
    with b.kernel("k", x=pointer(element), y=pointer(element)) as (x, y):
        place = b.arange(200)
        (y + place).store((x + (199 - place)).load())
    kind = {F16: np.float16, F64: np.float64, I8: np.int8, I1: np.bool_, I32: np.int32}[element]
    new = equal(b.module(), 1, [numbers(200, kind), numbers(200, kind)])
    assert all(f"private<{element}<" in t for t in private_tiles(new))


def test_pointers_are_kept():
    b = Builder()
    with b.kernel("k", p=pointer(pointer(F32)), y=pointer(F32)) as (p, y):
        place = b.arange(64)
        target = (p + place).load()
        target.store((y + place).load() + 1.0)
    module = run(b.module(), SMALL.format(keep=0)).module
    assert "cond_br" in print_module(module)


def test_a_store_in_a_loop_begins_with_empty_buffers():
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I32) as (x, n), b.for_(0, n) as i:
        place = x + i + b.arange(96)
        (place + 1).store(place.load() + 1.0)
    equal(b.module(), 1, [numbers(110), 5], loops=3)


def test_values_that_nothing_defines_stay_so():
    """Lanes outside of the mask have no value, and are not stored."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        place = b.arange(96)
        (y + place).store((x + place).load(place < n) * 2.0, place < n)
    equal(b.module(), 1, [numbers(96), numbers(96), 50])


def test_nothing_changes_where_promises_order_everything():
    b = Builder()
    names = {name: arg(pointer(F32), noalias=True) for name in "xy"}
    with b.kernel("k", **names) as (x, y):
        place = b.arange(96)
        value = (x + place).load()
        (y + place).store(value / value.sum(axis=0))
    assert private_tiles(run(b.module(), SMALL.format(keep=0)).module) == []


def test_the_cut_program_reads_and_prints_the_same():
    new = run(softmax(3, 67), SMALL.format(keep=1)).module
    text = print_module(new)
    assert 'stage "strip_mined"' in text
    assert print_module(parse(text)) == text
