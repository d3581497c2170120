"""Offsets of a tile that passes through shared memory: where each element is, which are certain
to be in a step, and that what is promised of additions holds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.backend.test_layout_conversion import Counting, numbered_tile, numbers
from tileir.backend.codegen.emit.conversion import (
    _Address,
    convert,
    exclusive_or,
    pass_through,
)
from tileir.backend.codegen.emit.packing import pack_elements, unpack_elements
from tileir.backend.codegen.lowering import Lowering
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.shared_memory.bank_conflicts import wavefronts
from tileir.backend.shared_memory.conversion_plan import conversion_bytes
from tileir.backend.shared_memory.conversion_staging import ConversionStaging, staging
from tileir.backend.simt.machine import ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.target import target as target_named
from tileir.builder import Builder
from tileir.layout import Layout, Repeat, layout
from tileir.layout_fragments import mma_operand, mma_result
from tileir.layout_tilings import blocked_layout
from tileir.op import Op
from tileir.ops.gpu import ConvertLayout
from tileir.types import BF16, F8E4M3, F16, F32, F64, I1, I8, I16, I32, Element, Tile
from tileir.values import Value


class Watched(Counting):
    """Threads that look at every addition and multiplication that is said not to wrap."""

    def binary(self, name: str, element: Any, a: Any, b: Any, flags: str = "") -> Any:
        exact = {"add": np.add, "sub": np.subtract, "mul": np.multiply}.get(name)
        if exact is not None and element is I32 and flags:
            for word, kind in (("nsw", np.int32), ("nuw", np.uint32)):
                if word in flags:
                    x, y = (v.array.astype(np.int32).view(kind).astype(np.int64) for v in (a, b))
                    result, ends = exact(x, y), np.iinfo(kind)
                    assert ((ends.min <= result) & (result <= ends.max)).all(), (name, flags)
        return super().binary(name, element, a, b, flags)


def machine(
    shape: Any, source: Layout, element: Element, target: Layout, need: int
) -> tuple[Lowering, Op]:
    """A lowering of one conversion, and that; `need` bytes of shared memory are the tile's."""
    b = Builder()
    with b.kernel("k"):
        pass
    module = b.module()
    op = ConvertLayout(Value(Tile(element, shape, source)), layout=target)
    warps = source.size("warp")
    thread = Watched(32 * warps, SimtMemory(need))
    function = module.functions["k"]
    lowering = Lowering(module, function, target_named("sm_90"), thread, AccessWidths(function),
                    {op: 0}, {}, warps)  # fmt: skip
    return lowering, op


def random_layouts(seed: int) -> tuple[tuple[int, int], Layout, Layout]:
    """Two layouts of a tile by bits in any order; of larger extents than the tile in turn."""
    r = random.Random(seed)
    rows, bits = r.randrange(3, 6), r.randrange(9, 12)
    units = [(1 << i, 0) for i in range(rows)] + [(0, 1 << i) for i in range(bits - rows)]
    layouts: list[Layout] = []
    for _ in range(2):
        order = r.sample(units, len(units))
        split = len(order) - 7
        own, lanes, warps = order[:split], order[split:-2], order[-2:]
        layouts.append(layout(2, register=tuple(own), lane=tuple(lanes), warp=tuple(warps)))
    less = r.randrange(3)
    return ((1 << rows) - (less == 1), (1 << bits - rows) - (less == 2)), *layouts


def large(element: Element) -> list[tuple[Any, Layout, Layout]]:
    """Tiles that pass in several iterations, of which the last is shorter in the second."""
    wide = 131072 // element.bytes
    square = (256, wide // 256)
    return [
        (square, blocked_layout(square, (1, 0), 4, 4), blocked_layout(square, (0, 1), 4, 4)),
        ((192, square[1]), blocked_layout((192, square[1]), (1, 0), 1, 4),
         blocked_layout((192, square[1]), (0, 1), 2, 4)),
        ((wide,), blocked_layout((wide,), (0,), 4, 4), blocked_layout((wide,), (0,), 1, 4)),
    ]  # fmt: skip


REGULAR: list[tuple[Any, Layout, Layout, Element]] = [
    ((32, 32), mma_result((32, 32), (2, 2)), blocked_layout((32, 32), (1, 0), 4, 4), F32),
    (
        (32, 64),
        blocked_layout((32, 64), (1, 0), 8, 4),
        mma_operand("a", F16, (32, 64), (2, 2)),
        F16,
    ),
    ((5, 40), blocked_layout((5, 40), (1, 0), 4, 4), blocked_layout((5, 40), (0, 1), 1, 4), F32),
    (
        (12, 100),
        blocked_layout((12, 100), (1, 0), 4, 4),
        blocked_layout((12, 100), (0, 1), 2, 4),
        I8,
    ),
]


def repeating_layouts() -> list[tuple[Any, Layout, Layout]]:
    """Warps that follow three times sixteen registers, or that three registers follow."""
    lanes = ((0, 4), (0, 8), (0, 16), (1, 0), (2, 0))
    after = (Repeat("register", 48, 0), Repeat("warp", 2, 0))
    before = (Repeat("warp", 2, 0), Repeat("register", 48, 0))
    layouts = [layout(2, register=((0, 1), (0, 2)), lane=lanes, repeats=x) for x in (after, before)]
    columns = blocked_layout((384, 32), (0, 1), 4, 2)
    return [
        ((384, 32), layouts[0], columns),
        ((384, 32), columns, layouts[1]),
        ((384, 32), *layouts),
    ]


def cases() -> dict[str, tuple[Any, Layout, Layout, Element]]:
    by_name = {f"regular {i}": case for i, case in enumerate(REGULAR)}
    kinds = (I1, I8, F16, F32, F64)
    by_name |= {f"drawn {n}": (*random_layouts(n), kinds[n % 5]) for n in range(30)}
    by_name |= {f"f64 {i}": (*case, F64) for i, case in enumerate(repeating_layouts(), 3)}
    for kind in (I8, F16, F64):
        by_name |= {f"{kind} {i}": (*case, kind) for i, case in enumerate(large(kind))}
    return by_name


CASES = cases()


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", CASES)
def test_tiles_pass_through_shared_memory(name: str) -> None:
    """Whether or not another way is better: every element arrives."""
    shape, source, target, element = CASES[name]
    staged = staging(source, target, shape, element.bytes)
    if name.startswith(str(element)):
        assert staged.iterations > 1
    lowering, _ = machine(shape, source, element, target, staged.bytes_at_once)
    source_values = list(numbered_tile(lowering.thread, source, shape, element))
    actual = pass_through(lowering, source_values, element, staged, 0)
    expected = numbered_tile(lowering.thread, target, shape, element)
    for x, y, number in zip(actual, expected, numbers(target, shape), strict=True):
        where = number >= 0
        assert x.array[where].tobytes() == y.array[where].tobytes()


def test_one_owner_of_an_element_writes_it_without_a_branch(monkeypatch: Any) -> None:
    """LLVM would move what only later ops need, such as a dot, to a block after a branch."""
    shape, target = (16, 16), blocked_layout((16, 16), (1, 0), 4, 4)
    lanes = ((0, 1), (0, 2), (0, 4), (0, 8), (8, 0))
    source = layout(2, register=((1, 0), (2, 0), (4, 0)), lane=lanes, warp=((0, 0), (0, 0)))
    staged = staging(source, target, shape, F32.bytes)
    lowering, _ = machine(shape, source, F32, target, staged.bytes_at_once)
    monkeypatch.setattr(type(lowering.thread), "when", None)
    writing: list[Any] = []
    own = type(lowering.thread).store_shared_if
    monkeypatch.setattr(
        type(lowering.thread), "store_shared_if",
        lambda thread, condition, *rest: writing.append(condition) or own(thread, condition, *rest),
    )  # fmt: skip
    values = list(numbered_tile(lowering.thread, source, shape, F32))
    actual = pass_through(lowering, values, F32, staged, 0)
    expected = numbered_tile(lowering.thread, target, shape, F32)
    for x, y, number in zip(actual, expected, numbers(target, shape), strict=True):
        assert x.array[number >= 0].tobytes() == y.array[number >= 0].tobytes()
    first = [True] * 32 + [False] * 96
    assert writing and all(x.array.astype(bool).tolist() == first for x in writing), "one warp"


def parts(staged: ConversionStaging, it: Layout, register: int) -> Any:
    """Where each thread's element is, by the coordinates: within its box, and that box."""
    lanes, warps = it.size("lane"), it.size("warp")
    at = [it.coordinate(register, lane, warp) for warp in range(warps) for lane in range(lanes)]
    return np.array([staged.low(v) for v in at]), np.array([staged.high(v) for v in at])


def reaches(low: Any, high: Any) -> bool:
    """Whether one thread has all that threads add to where a register is."""
    moving = np.bitwise_or.reduce(low ^ low[0])
    return bool(((low == low[0] | moving) & (high == high.max())).any())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_placement_of_registers_and_their_predicates(name: str) -> None:
    """In each step a register is there for certain, never, or as its threads say; nothing is asked
    where all are there, as far as the last byte that the parts of a thread add up to tells."""
    shape, source, target, element = CASES[name]
    staged, base = staging(source, target, shape, element.bytes), 4096
    for it in (source, target):
        lowering, _ = machine(shape, source, element, target, staged.bytes_at_once + base)
        place = _Address(lowering, staged, it)
        few = range(0, it.size("register"), max(1, it.size("register") // 8))
        for register in {*few, it.size("register") - 1}:
            low, high = parts(staged, it, register)
            at = low + high
            for number in range(staged.iterations):
                first = number * staged.bytes_at_once
                inside = (first <= at) & (at < first + staged.bytes_at_once)
                if staged.iterations == 1:
                    inside = np.ones(len(at), bool)
                result, holds = place.of(register, base, number)
                if reaches(low, high) and not place._has_overlap() and inside.all():
                    assert holds is None
                if holds == "false":
                    assert not inside.any()
                    continue
                stated: Any = inside if holds is None else getattr(holds, "array", None)
                assert (stated == inside).all() and (holds is not None or inside.all())
                where = np.broadcast_to(np.asarray(getattr(result, "array", result)), at.shape)
                assert (where[stated].astype(np.int64) == (at - first + base)[stated]).all()


@pytest.mark.parametrize("seed", range(12))
def test_conversions_do_not_wrap(seed: int) -> None:
    shape, source, target = random_layouts(seed)
    element = (I8, F16, F32, F64)[seed % 4]
    tile = Tile(element, shape, source)
    lowering, op = machine(shape, source, element, target, conversion_bytes(tile, target))
    source_values = list(numbered_tile(lowering.thread, source, shape, element))
    converted = convert(lowering, op, source_values, tile, target)
    expected = numbered_tile(lowering.thread, target, shape, element)
    for x, y, number in zip(converted, expected, numbers(target, shape), strict=True):
        where = number >= 0
        assert x.array[where].tobytes() == y.array[where].tobytes()


@pytest.mark.parametrize(
    "columns", [[], [0, 0], [1, 2, 4], [4, 2, 1, 0, 3], [5, 6, 8, 1, 0, 16, 9]]
)
def test_exclusive_or_of_columns(columns: list[int]) -> None:
    it = blocked_layout((256,), (0,), 1, 4)
    lowering, _ = machine((256,), it, I32, it, 0)
    total: Any = exclusive_or(lowering, columns)
    if not any(columns):
        assert total is None
        return
    expected = np.zeros(128, np.int64)
    for bit, column in enumerate(columns):
        expected ^= (np.arange(128) >> bit & 1) * column
    assert (total.array == expected).all()


@pytest.mark.parametrize("element", [I1, I8, F8E4M3, I16, F16, BF16, F32])
def test_small_elements_share_a_word(element: Element) -> None:
    it = blocked_layout((256,), (0,), 1, 4)
    lowering, _ = machine((256,), it, I32, it, 0)
    each = {1: 4, 8: 4, 16: 2}.get(element.bits, 1)
    for count in {1, each}:
        own = blocked_layout((128 * count,), (0,), count, 4)
        values: Any = list(numbered_tile(lowering.thread, own, (128 * count,), element))
        word: Any = pack_elements(lowering, element, values)
        assert count == 1 or isinstance(word, ThreadValues)
        elements: Any = unpack_elements(lowering, element, word, count)
        for x, y in zip(elements, values, strict=True):
            assert x.array.tobytes() == y.array.tobytes()


# Swizzles -----------------------------------------------------------------------------------------

VECTORS = [
    # Layouts that write and read, an element, and the elements of one access on either side.
    (blocked_layout((32, 32), (1, 0), 4, 4), blocked_layout((32, 32), (1, 0), 4, 1), F32, (4, 4)),
    (blocked_layout((32, 64), (1, 0), 8, 4), blocked_layout((32, 64), (0, 1), 8, 4), F16, (1, 8)),
    (mma_result((32, 32), (2, 2)), blocked_layout((32, 32), (1, 0), 4, 4), F32, (2, 4)),
    (blocked_layout((32, 32), (1, 0), 4, 4), mma_result((32, 32), (2, 2)), F32, (2, 4)),
    (blocked_layout((64, 64), (1, 0), 1, 4), blocked_layout((64, 64), (0, 1), 1, 4), F64, (2, 2)),
    (blocked_layout((16, 128), (1, 0), 1, 4), blocked_layout((16, 128), (0, 1), 4, 4), F16, (8, 4)),
    (blocked_layout((32, 32), (1, 0), 4, 4), blocked_layout((32, 32), (1, 0), 1, 4), F32, (4, 2)),
    (blocked_layout((64, 64), (1, 0), 16, 4), mma_result((64, 64), (2, 2)), I8, (4, 16)),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("source", "target", "element", "widths"), VECTORS)
def test_accesses_are_as_wide_as_neighbours_allow(
    source: Layout, target: Layout, element: Element, widths: tuple[int, int]
) -> None:
    """Of reads rather than writes where only one may be; and lanes conflict in no bank."""
    shape = source.extents
    staged = staging(source, target, shape, element.bytes)
    assert (staged.source.vector, staged.target.vector) == widths
    for side in (staged.source, staged.target):
        assert sorted(r for group in side.groups for r in group) == list(
            range(side.layout.size("register"))
        )
        for group in side.groups:
            at = np.array([sum(parts(staged, side.layout, r)) for r in group])
            steps = np.arange(len(group))[:, None] * element.bytes
            assert (at == at[0] + steps).all()
            assert (at[0] % (element.bytes * len(group)) == 0).all()
            ideal = -(-32 * element.bytes * len(group) // 128)
            lanes = [int(x) for x in at[0][:32]]
            if len(set(lanes)) == 32:
                assert wavefronts(lanes, element.bytes * len(group)) == ideal


def test_the_side_that_holds_neighbours_alone_takes_wide_accesses() -> None:
    """One access of four elements and two of one, not four of one and one of two."""
    lanes = ((0, 4), (0, 8), (0, 16), (0, 32), (0, 64))
    many = layout(2, register=((0, 1), (0, 2)), lane=lanes, warp=((0, 0),))
    lanes = ((0, 1), (0, 2), (0, 4), (0, 8), (0, 32))
    few = layout(2, register=((0, 16),), lane=lanes, warp=((0, 64),))
    for one, other in ((many, few), (few, many)):
        plan = staging(one, other, (1, 128), 4)
        wide, narrow = (plan.source, plan.target)[:: 1 if one is many else -1]
        assert (wide.vector, len(wide.groups)) == (4, 1)
        assert (narrow.vector, len(narrow.groups)) == (1, 2)


@pytest.mark.parametrize("rest", [Repeat("register", 3, 0), Repeat("warp", 5, 0)])
def test_a_tile_of_one_dimension_has_rows_without_padding(rest: Repeat) -> None:
    """Of lanes that repeat, which no swizzle knows, as many bytes as elements."""
    lanes = Repeat("lane", 32, 0)
    one, other = layout(1, repeats=(lanes, rest)), layout(1, repeats=(rest, lanes))
    for size, n in ((1, 32 * rest.count), (4, 32 * rest.count), (4, 32 * rest.count - 1)):
        plan = staging(one, other, (n,), size)
        assert plan.bytes == n * size
        assert [plan.offset((x,)) for x in range(n)] == list(range(0, n * size, size))


def test_rows_are_accessed_as_widely_as_neighbours_allow() -> None:
    """Of one dimension; of more by fewer where padding leaves rows at other offsets, though not
    all of them."""
    lanes = (Repeat("lane", 8, 0), Repeat("lane", 4, 0))
    four = layout(1, register=((1,), (2,)), repeats=lanes)
    plan = staging(four, four, (128,), 4)
    assert (plan.source.vector, plan.target.vector) == (4, 4)
    of_rows = layout(3, register=((0, 1, 0), (0, 2, 0), (0, 0, 8), (0, 0, 16)),
                     lane=((1, 0, 0), (2, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 4)))  # fmt: skip
    neighbours = layout(3, register=((0, 0, 1), (0, 0, 2)),
                        lane=((0, 0, 4), (0, 0, 8), (0, 0, 16), (0, 1, 0), (0, 2, 0)),
                        repeats=(Repeat("register", 3, 0),))  # fmt: skip
    plan = staging(of_rows, neighbours, (3, 4, 32), 4)
    for group in plan.target.groups:
        for lane in range(32):
            at = plan.offset(neighbours.coordinate(group[0], lane))
            assert at % (4 * len(group)) == 0
