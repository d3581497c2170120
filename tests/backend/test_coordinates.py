"""Where the elements of a thread are, for layouts whose registers, lanes and warps share bits of a
coordinate, whose steps repeat, and of which threads hold the same."""

import random

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.codegen.lowering import Lowering, thread_span
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.nvptx.thread import LlvmThread
from tileir.backend.shared_memory.bank_conflicts import conflicts
from tileir.backend.shared_memory.conversion_plan import placement, register_permutation
from tileir.backend.simt.machine import SimtThread
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.target import target as target_named
from tileir.builder import Builder
from tileir.layout import Repeat, layout
from tileir.layout_tilings import blocked_layout
from tileir.types import F16, F32, F64, I8, Tile

from .test_layout_conversion import conversion_counts, numbers


def lowering_of(warps, thread=None):
    b = Builder()
    with b.kernel("k"):
        pass
    module = b.module()
    function = module.functions["k"]
    thread = thread or SimtThread(32 * warps, (0, 0, 0), (1, 1, 1), SimtMemory(0))
    return Lowering(module, function, target_named("sm_90"), thread, AccessWidths(function), {},
                    {}, warps)  # fmt: skip


def swizzled_layout(seed):
    """A layout of 32 lanes and 4 warps whose bits overlap, and that repeats."""
    chance = random.Random(seed)
    rows = chance.randrange(2, 6)
    units = [(1 << i, 0) for i in range(rows)] + [(0, 1 << i) for i in range(9 - rows)]
    chance.shuffle(units)
    for i in range(1, len(units)):
        if chance.random() < 0.5:
            a, b = units[i], units[chance.randrange(i)]
            units[i] = a[0] ^ b[0], a[1] ^ b[1]
    chance.shuffle(units)
    warps = tuple(units[5:7]) if chance.random() < 0.6 else ()
    steps = [] if warps else [Repeat("warp", 4, chance.choice((0, 1, None)))]
    steps += [Repeat("register", chance.choice((1, 2, 3)), d) for d in (0, 1)]
    own = tuple(units[7:]) if warps else tuple(units[5:])
    return layout(2, register=own, lane=tuple(units[:5]), warp=warps, repeats=tuple(steps))


def coordinates(it, warps):
    """Per register and dimension, that of every thread, as the layout says."""
    threads = np.arange(32 * warps)
    for r in range(it.size("register")):
        for d in range(it.rank):
            low = np.full(len(threads), it.coordinate(r % (1 << len(it.register)))[d])
            high = np.full(len(threads), it.registers[r][d]) - low
            for axis, index in (("lane", threads % 32), ("warp", threads // 32)):
                for bit, v in enumerate(it.atom(axis)):
                    low ^= (index >> bit & 1) * v[d]
                for digit in it.digits(axis):
                    high += index // digit.weight % digit.count * digit.step[d]
            yield r, d, low + high


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(40))
def test_coordinates_whose_bits_overlap(seed):
    it, lowering = swizzled_layout(seed), lowering_of(4)
    for register, dim, expected in coordinates(it, 4):
        assert (lowering.coordinate(it, register, dim).array == expected).all()


@for_each("seed", range(8))
def test_a_tile_as_large_as_its_layout_is_stored_without_padding(seed):
    """Which is known, however bits overlap; of one that is smaller somewhere it is asked."""
    it, lowering = swizzled_layout(seed), lowering_of(4)
    for register in range(it.size("register")):
        assert lowering.inside(it, it.extents, register) is None
    smaller = (it.extents[0] - 1, it.extents[1])
    assert any(lowering.inside(it, smaller, r) is not None for r in range(it.size("register")))


@pytest.mark.parametrize("shape", [(64, 32), (8, 128)])
def test_coordinates_whose_bits_are_disjoint_are_added(shape):
    """Few instructions: none of which puts single bits together."""
    it, thread = blocked_layout(shape, (1, 0), 4, 4), LlvmThread()
    lowering = lowering_of(4, thread)
    for register in range(it.size("register")):
        for dim in range(2):
            lowering.coordinate(it, register, dim)
    text = "\n".join([*thread.at_entry, *thread.lines])
    assert "add nsw nuw" in text and "xor" not in text and "mul" not in text


@pytest.mark.parametrize("width", [1, 4])
def test_lanes_and_warps_along_one_dimension_are_one_field(width):
    """No instruction takes the lane or the warp out of the index of the thread."""
    row, thread = blocked_layout((width * 128,), (0,), width, 4), LlvmThread()
    lowering_of(4, thread).coordinate(row, 0, 0)
    text = "\n".join([*thread.at_entry, *thread.lines])
    assert "and i32" in text and ", 127" in text
    assert ", 31" not in text and "lshr" not in text and "add" not in text
    numbers = lowering_of(4).coordinate(row, 0, 0).array
    assert (numbers == width * np.arange(128)).all()


@pytest.mark.parametrize("shape", [(4, 32), (8, 16), (1, 64)])
def test_warps_that_do_not_continue_the_lanes_are_another_field(shape):
    """Each along a dimension of its own, or with a gap between them."""
    rows = blocked_layout(shape, (1, 0), 1, 4)
    disjoint = layout(1, ((32,),), tuple((1 << i,) for i in range(5)), ((64,), (128,)))
    for it in (rows, disjoint):
        lowering = lowering_of(4)
        for register, dim, expected in coordinates(it, 4):
            assert (lowering.coordinate(it, register, dim).array == expected).all()
    thread = LlvmThread()
    lowering_of(4, thread).coordinate(disjoint, 0, 0)
    assert ", 31" in "\n".join([*thread.at_entry, *thread.lines])


@pytest.mark.parametrize("seed", range(20))
def test_coordinates_of_tiles_that_are_cut_in_any_order(seed):
    chance = random.Random(seed)
    shape = chance.choice(((48, 20), (7, 64), (12, 100)))
    it = blocked_layout(shape, chance.choice(((0, 1), (1, 0))), chance.choice((1, 2, 4)), 3)
    lowering = lowering_of(3)
    most = [0, 0]
    for register, dim, expected in coordinates(it, 3):
        assert (lowering.coordinate(it, register, dim).array == expected).all()
        most[dim] = max(most[dim], int(expected.max()) - it.registers[register][dim])
    assert [thread_span(it, d) for d in (0, 1)] == most


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(40))
def test_between_bits_that_overlap_and_tiles_in_rows(seed):
    source = swizzled_layout(seed)
    shape = source.extents
    element = (I8, F16, F32, F64)[seed % 4]
    rows = blocked_layout(shape, ((1, 0), (0, 1))[seed // 4 % 2], 1 << seed % 3, 4)
    conversion_counts(shape, element, source, rows)
    conversion_counts(shape, element, rows, source)


def test_registers_that_hold_nothing_come_from_any():
    """Of a source of one register there is no other."""
    lanes = tuple((1 << i,) for i in range(5))
    source, target = layout(1, (), lanes), layout(1, ((32,),), lanes)
    assert register_permutation(source, target, (20,)) == [0, 0]
    assert not any(conversion_counts((20,), F32, source, target).values())


@pytest.mark.parametrize("bit", range(5))
def test_what_lanes_hold_goes_to_registers(bit):
    """Two lanes tell each other what they have: one shuffle, and no other lane's number."""
    lanes = [(1 << i,) for i in range(5)]
    both = [(0,) if i == bit else v for i, v in enumerate(lanes)]
    source = layout(1, (), tuple(lanes))
    target = layout(1, (lanes[bit],), tuple(both))
    counts = conversion_counts((32,), F32, source, target)
    assert counts["shuffles"] == 1 and counts["stores"] == 0


@for_each("size", [(32, 32), (8, 64), (16, 128), (32, 30), (64, 4)])
@for_each("element", [I8, F16, F32, F64])
def test_columns_in_shared_memory_conflict_in_few_banks(size, element):
    """Rows of a multiple of all banks are disjoint by 16 bytes more."""
    place = placement(Tile(element, size, blocked_layout(size, (1, 0), 1, 1)))
    row = size[1] * element.bytes
    assert place.strides == (row + 16 * (row % 128 == 0), element.bytes)
    assert place.bytes == size[0] * place.strides[0]
    column = [place.strides[0] * i if i < size[0] else None for i in range(32)]
    assert conflicts(column, element.bytes) <= 7 or row % 128


def test_numbers_are_those_of_the_layout():
    it = blocked_layout((4, 8), (1, 0), 1, 1)
    assert sorted(int(x) for values in numbers(it, (4, 8)) for x in values) == list(range(32))
