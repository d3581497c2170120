"""Conversions between layouts, executed by all threads of a block in numpy: every element arrives,
no thread reads what was not written, and shared memory is reached without bank conflicts."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.emit.conversion import convert
from tileir.backend.codegen.lowering import Lowering
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.warp_shuffles import ShufflePlan
from tileir.backend.shared_memory.bank_conflicts import conflicts, wavefronts
from tileir.backend.shared_memory.conversion_plan import conversion, conversion_bytes
from tileir.backend.shared_memory.conversion_staging import ConversionStaging, staging
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.target import target as target_named
from tileir.builder import Builder, arg, pointer
from tileir.layout import Layout, Repeat, layout
from tileir.layout_fragments import mma_operand, mma_result, wgmma_result
from tileir.layout_tilings import blocked_layout
from tileir.ops.gpu import ConvertLayout
from tileir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Tile
from tileir.values import Value

OF_SIZE = {1: I8, 2: I16, 4: I32, 8: I64}


COUNTED = ("shuffles", "loads", "stores", "conflicts", "wavefronts")


class Counting(SimtThread):
    """Threads that count shuffles, accesses to shared memory by warp 0, and their conflicts."""

    def __init__(self, threads, memory):
        super().__init__(threads, (0, 0, 0), (1, 1, 1), memory)
        self.counts = dict.fromkeys(COUNTED, 0)

    def shuffle_xor(self, element, a, mask):
        self.counts["shuffles"] += 1
        return super().shuffle_xor(element, a, mask)

    def shuffle_index(self, element, a, lane):
        self.counts["shuffles"] += 1
        return super().shuffle_index(element, a, lane)

    def load_shared(self, element, count, offset):
        self._access("loads", element.bytes * count, offset)
        return super().load_shared(element, count, offset)

    def store_shared(self, element, offset, values):
        self._access("stores", element.bytes * len(values), offset)
        return super().store_shared(element, offset, values)

    def _access(self, kind, size, offset):
        self.counts[kind] += 1
        for warp in range(0, self.threads, 32):
            at = [int(offset.array[t]) if self.active[t] else None for t in range(warp, warp + 32)]
            self.counts["conflicts"] += conflicts(at, size)
            self.counts["wavefronts"] += wavefronts(at, size)


def machine(shape, source, element, target):
    """A lowering of one conversion, and the conversion."""
    b = Builder()
    with b.kernel("k"):
        pass
    module = b.module()
    op = ConvertLayout(Value(Tile(element, shape, source)), layout=target)
    warps, need = source.size("warp"), conversion_bytes(op.source.type, target)
    thread = Counting(32 * warps, SimtMemory(need))
    function = module.functions["k"]
    it = Lowering(module, function, target_named("sm_90"), thread, AccessWidths(function),
                  {op: 0}, {}, warps)  # fmt: skip
    return it, op


def numbers(it: Layout, shape):
    """Per register, the row-major number of the element of every thread; -1 for padding."""
    threads = np.arange(32 * it.size("warp"))
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    for r in range(it.size("register")):
        total, inside = np.zeros(len(threads), np.int64), np.ones(len(threads), bool)
        for d, (n, stride) in enumerate(zip(shape, strides, strict=True)):
            low = np.full(len(threads), it.coordinate(r % (1 << len(it.register)))[d])
            high = np.full(len(threads), it.registers[r][d]) - low
            for axis, index in (("lane", threads % 32), ("warp", threads // 32)):
                for bit, v in enumerate(it.atom(axis)):
                    low ^= (index >> bit & 1) * v[d]
                for digit in it.digits(axis):
                    high += index // digit.weight % digit.count * digit.step[d]
            total += (low + high) * stride
            inside &= low + high < n
        yield np.where(inside, total, -1)


def numbered_tile(thread, it: Layout, shape, element):
    """A tile whose elements are bits made of their numbers."""
    bits = 1 if element is I1 else element.bits
    for values in numbers(it, shape):
        mixed = (values * 0x9E3779B97F4A7C1 >> 3) & ((1 << min(bits, 62)) - 1)
        whole = mixed.astype(f"u{element.bytes}")
        yield ThreadValues(
            whole.astype(bool) if element is I1 else whole.view(thread.dtype(element))
        )


def conversion_counts(shape, element, source, target):
    """Check one conversion; what it counted."""
    lowering, op = machine(shape, source, element, target)
    fragment = list(numbered_tile(lowering.thread, source, shape, element))
    converted = convert(lowering, op, fragment, op.source.type, target)
    expected = list(numbered_tile(lowering.thread, target, shape, element))
    assert len(converted) == len(expected)
    for x, y, number in zip(converted, expected, numbers(target, shape), strict=True):
        where = number >= 0
        assert x.array[where].tobytes() == y.array[where].tobytes()
    return lowering.thread.counts


def wide(shape, order, element, warps):
    return blocked_layout(shape, order, max(1, 16 // element.bytes), warps)


def test_coordinates_of_blocks_of_1024_threads_are_not_mixed_up():
    """Two layouts that differ only in threads in the middle of the block."""
    bits = [(1 << bit,) for bit in range(10)]
    straight = layout(1, ((1024,),), tuple(bits[:5]), tuple(bits[5:]))
    swapped = layout(1, ((1024,),), tuple(bits[:5]), (bits[6], bits[5], *bits[7:]))
    lowering, _ = machine((2048,), straight, I32, swapped)
    for it in (straight, swapped):
        arrays = [lowering.coordinate(it, register, 0).array for register in (0, 1)]
        assert np.array_equal(arrays, list(numbers(it, (2048,))))


# Power-of-two tiles: no conflicts --------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize("warps", [1, 4])
def test_a_transpose_has_no_conflicts(width, size, warps):
    shape, element = (32, width), OF_SIZE[size]
    rows, columns = (wide(shape, order, element, warps) for order in ((1, 0), (0, 1)))
    for source, target in ((rows, columns), (columns, rows)):
        counts = conversion_counts(shape, element, source, target)
        assert counts["conflicts"] == 0
        assert counts["shuffles"] == 0 or counts["stores"] == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_fragments_have_no_conflicts(width, size):
    shape, element = (64, width), OF_SIZE[size]
    rows = wide(shape, (1, 0), element, 4)
    kind = {1: I8, 2: F16, 4: F32, 8: F64}[size]
    others = [mma_operand("a", kind, shape, (2, 2)), mma_operand("b", kind, shape, (2, 2)),
              mma_result(shape, (2, 2)), mma_result(shape, (4, 1)),
              wgmma_result(shape, (4, 1))]  # fmt: skip
    for other in others:
        assert conversion_counts(shape, element, rows, other)["conflicts"] == 0
        assert conversion_counts(shape, element, other, rows)["conflicts"] == 0


def test_both_sides_are_wide_where_registers_are_side_by_side():
    """From fragments to rows of f16: two neighbours are common; four words make a row's access."""
    plan = staging(mma_result((64, 64), (4, 1)), wide((64, 64), (1, 0), F16, 4), (64, 64), 2)
    assert (plan.source.vector, plan.target.vector) == (2, 8)
    same = staging(
        blocked_layout((32, 32), (1, 0), 4, 4), blocked_layout((32, 32), (1, 0), 4, 1), (32, 32), 4
    )
    assert (same.source.vector, same.target.vector) == (4, 4)


# Shuffles ---------------------------------------------------------------------------------------


def test_a_small_transpose_is_shuffled():
    shape = (8, 8)
    rows, columns = (blocked_layout(shape, order, 2, 1) for order in ((1, 0), (0, 1)))
    counts = conversion_counts(shape, F32, rows, columns)
    assert counts["stores"] == 0 and counts["shuffles"] == 2
    assert conversion_counts((16, 16), F32, *(blocked_layout((16, 16), order, 4, 1) for order in
                                  ((1, 0), (0, 1))))["shuffles"] == 0  # fmt: skip


def test_small_elements_travel_by_words():
    source, target = mma_result((16, 16), (1, 1)), blocked_layout((16, 16), (1, 0), 4, 1)
    assert conversion_counts((16, 16), F16, source, target)["shuffles"] == 4
    assert conversion_counts((16, 16), BF16, target, source)["shuffles"] == 4


def test_many_selections_take_longer_than_shared_memory():
    """A fragment of 32-bit words by shuffles takes 64 selects and 12 shuffles; `stmatrix` writes
    one of 16-bit words in one instruction."""
    rows = blocked_layout((16, 32), (1, 0), 8, 1)
    fragment = mma_operand("a", F32, (16, 32), (1, 1))
    assert isinstance(conversion(Tile(F32, (16, 32), rows), fragment), ConversionStaging)
    result, wide = mma_result((16, 16), (1, 1)), blocked_layout((16, 16), (1, 0), 8, 1)
    assert isinstance(conversion(Tile(F16, (16, 16), result), wide), ConversionStaging)


def test_the_result_of_a_dot_is_an_operand_of_the_next():
    """D of m16n8 in f16 is A of m16n8k16: registers are renamed."""
    source, target = mma_result((64, 32), (4, 1)), mma_operand("a", F16, (64, 32), (4, 1))
    counts = conversion_counts((64, 32), F16, source, target)
    assert not any(counts.values())


def test_lanes_read_one_register_of_a_lane_in_one_step():
    """A row owned by single lanes goes to lanes that own half of it: no lane chooses."""
    single = layout(1, (), ((0,), (1,), (2,), (4,), (8,)))
    halves = layout(1, ((1,), (2,), (4,)), ((8,), (0,), (0,), (0,), (0,)))
    plan = conversion(Tile(F32, (16,), single), halves)
    assert (plan.shuffles, plan.selects) == (8, 0)
    assert conversion_counts((16,), F32, single, halves)["shuffles"] == 8


@st.composite
def warp_layouts(draw):
    """Two layouts of 32 lanes and up to 8 registers over the same coordinates, replicas too."""
    bits = 5 + draw(st.integers(0, 3))
    layouts = []
    for _ in range(2):
        order = draw(st.permutations([1 << i for i in range(bits)]))
        lanes = list(order[:5])
        registers = list(order[5:])
        for i in range(draw(st.integers(0, 2))):
            registers.append(lanes[i])
            lanes[i] = 0
        for i in range(1, len(registers)):
            if draw(st.booleans()):
                registers[i] ^= registers[i - 1]
        layouts.append(layout(1, tuple((x,) for x in registers), tuple((x,) for x in lanes)))
    return bits, *layouts


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(warp_layouts(), st.sampled_from([I1, I8, F16, F32, F64]))
def test_any_exchange_within_a_warp(layouts, element):
    bits, source, target = layouts
    conversion_counts((1 << bits,), element, source, target)


# Any shapes -------------------------------------------------------------------------------------

SHAPES = [(7,), (48,), (192,), (931,), (3, 5), (12, 100), (16, 176), (5, 3, 17), (2, 3, 4, 5, 6)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("warps", "element"), [(1, F32), (3, I8), (4, F16)], ids=str)
def test_odd_shapes_in_any_order(shape, warps, element):
    order = tuple(range(len(shape)))
    rows, narrow = (blocked_layout(shape, order[::-1], vector, warps) for vector in (4, 1))
    columns = blocked_layout(shape, order, 4, warps)
    for source, target in ((rows, columns), (columns, rows), (narrow, rows), (columns, narrow)):
        conversion_counts(shape, element, source, target)


def test_rows_that_bits_do_not_cover():
    shape = (48, 200)
    rows, columns = (wide(shape, order, I8, 4) for order in ((1, 0), (0, 1)))
    assert conversion_counts(shape, I8, rows, columns)["wavefronts"] < 2000


@st.composite
def tilings(draw, rank, shape, warps):
    """Layouts that cover `shape` by steps in any order."""
    left, steps = list(shape), []
    lanes, warps_left = 32, warps
    axes = draw(st.lists(st.sampled_from(["lane", "warp", "register"]), min_size=2, max_size=8))
    for axis in axes:
        d = draw(st.integers(0, rank - 1))
        count = draw(st.sampled_from([2, 4, 8] if axis == "lane" else [2, 3, 4]))
        if axis == "lane" and lanes % count == 0:
            lanes //= count
        elif axis == "warp" and warps_left % count == 0:
            warps_left //= count
        elif axis != "register":
            continue
        steps.append(Repeat(axis, count, d))
        left[d] = -(-left[d] // count)
    steps += [Repeat("lane", lanes, None), Repeat("warp", warps_left, None)]
    steps += [Repeat("register", n, d) for d, n in enumerate(left)]
    return layout(rank, repeats=tuple(steps))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_two_tilings(data):
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.sampled_from([1, 2, 3, 4, 6, 8, 16])) for _ in range(rank))
    warps = data.draw(st.sampled_from([1, 2, 6]))
    source, target = (data.draw(tilings(rank, shape, warps)) for _ in range(2))
    conversion_counts(shape, data.draw(st.sampled_from([I1, I8, F16, F32, F64])), source, target)


# Steps ------------------------------------------------------------------------------------------


def test_a_large_tile_is_converted_in_several_steps():
    shape = (128, 256)
    rows, columns = (blocked_layout(shape, order, 4, 4) for order in ((1, 0), (0, 1)))
    plan = conversion(Tile(F32, shape, rows), columns)
    assert isinstance(plan, ConversionStaging) and plan.iterations == 2
    assert conversion_bytes(Tile(F32, shape, rows), columns) == 65536
    assert conversion_counts(shape, F32, rows, columns)["conflicts"] == 0


def test_what_many_hold_is_written_once():
    """A row that every warp and half the lanes hold is stored by one of them."""
    source = layout(1, ((1,),), ((2,), (4,), (8,), (16,), (0,)), ((0,), (0,)))
    target = layout(1, (), ((1,), (2,), (4,), (8,), (16,)), ((0,), (0,)))
    staged = staging(source, target, (32,), 4)
    assert staged.bytes == 128
    assert isinstance(conversion(Tile(F32, (32,), source), target), ShufflePlan)


@pytest.mark.parametrize("shape", [(8, 8), (64, 64), (48, 200)], ids=str)
def test_conversions_assemble(shape):
    """A transposed copy: what is emitted for shuffles and for shared memory is what LLVM takes."""
    b = Builder()
    buffers = {name: arg(pointer(F32), aligned=16) for name in "xy"}
    with b.kernel("k", **buffers) as (x, y):
        rows, columns = (b.arange(n) for n in shape)
        row_major = rows[:, None] * shape[1] + columns[None, :]
        down = rows[:, None] + columns[None, :] * shape[0]
        (y + down).store((x + row_major).load())
    compiled = compile_kernel(b.module(), "sm_90", {"num_warps": 1 if shape == (8, 8) else 4})
    assert compiled.cubin and compiled.metadata.spills == 0
    used = "shfl.sync" if shape == (8, 8) else "st.shared"
    assert used in compiled.ptx
