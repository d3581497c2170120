"""Reductions by every combiner of every type, over padding and under predicates, by all threads of
a block, against numpy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backend.test_layout_scan import ACROSS_WARPS, LAYOUTS, machine, thread_values
from tests.backend.thread_coordinates import coordinates
from tests.sizes import for_each
from tileir.backend.codegen.combiners import combine_named
from tileir.backend.codegen.emit.reduction import _across_lanes, _splits, reduce_tile
from tileir.backend.layouts.reduction_plan import divided_result, reduction_bytes
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.layout import Layout, Repeat, layout
from tileir.layout_tilings import blocked_layout
from tileir.machine import dtype_of
from tileir.ops.reduce import Combiner, Reduce
from tileir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Tile
from tileir.values import Value

LANES = tuple((1 << n,) for n in range(1, 6))
TILES: dict[str, tuple[Layout, tuple[int, ...]]] = {
    "padding within threads": (LAYOUTS["odd"], (5, 100)),
    "padding of threads": (blocked_layout((3, 40), (0, 1), 1, 4), (3, 40)),
    "warps along rows": (blocked_layout((2, 512), (1, 0), 2, 4), (2, 500)),
    "warps along columns": (ACROSS_WARPS, (7, 64)),
    "no padding": (ACROSS_WARPS, (8, 64)),
    "three warps": (LAYOUTS["three warps"], (1, 150)),
    "eight warps": (layout(1, ((1,),), LANES, ((64,), (128,), (256,))), (500,)),
    "twelve warps": (
        layout(1, ((1,),), LANES, ((64,), (128,)), repeats=(Repeat("warp", 3, 0),)), (700,),
    ),
    "lanes along both": (
        layout(2, ((1, 0), (2, 0)), ((0, 1), (0, 2), (0, 4), (0, 8), (4, 0))), (8, 13),
    ),
    "registers of padding": (layout(1, ((64,), (128,)), (*LANES[1:], (1,)), ((2,),)), (60,)),
    "rows of padding": (
        layout(2, ((4, 0), (8, 0), (1, 0)), tuple((0, n) for n in (1, 2, 4, 8, 16)), ((2, 0),)),
        (4, 30),
    ),
    "more rows than lanes": (
        layout(2, tuple((n, 0) for n in (1, 2, 4)), ((8, 0), (16, 0), (0, 1), (32, 0), (64, 0))),
        (100, 2),
    ),
    "six warps": (
        layout(2, ((1, 0),), tuple((0, n) for n in (1, 2, 4, 8, 16)), ((2, 0),),
               repeats=(Repeat("warp", 3, 1),)), (4, 90),
    ),
    "six warps, three of a column": (
        layout(2, ((1, 0),), tuple((0, n) for n in (1, 2, 4, 8, 16)), ((0, 32),),
               repeats=(Repeat("warp", 3, 0),)), (6, 60),
    ),
}  # fmt: skip
"""Layouts of tiles, and their shapes."""

INTEGERS, FLOATS = (I1, I8, I16, I32, I64), (F16, BF16, F32, F64)
KINDS: list[tuple[str, Any]] = [
    (c.value, element) for c in Combiner for element in (FLOATS if c.of_floats else INTEGERS)
]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "smin": np.minimum, "smax": np.maximum, "umin": np.minimum,
    "umax": np.maximum, "fadd": np.add, "fmul": np.multiply, "fminimum": np.minimum,
    "fmaximum": np.maximum, "fminnum": np.fmin, "fmaxnum": np.fmax,
}  # fmt: skip
OF_BITS: dict[str, Callable[..., Any]] = FUNCTIONS | {
    "add": np.bitwise_xor, "mul": np.bitwise_and, "smin": np.bitwise_or, "smax": np.bitwise_and,
}  # fmt: skip
"""What combiners do to numbers of one bit. With a sign, 1 is -1."""


def numbers(rng: np.random.Generator, name: str, element: Any, shape: tuple[int, ...]) -> Any:
    """Random numbers whose results are exact; of integers, those of a few bits, next to
    the ends of the type, or any."""
    dtype = dtype_of(element)
    if element is I1:
        return rng.random(shape) < rng.choice((0.03, 0.97))
    if element in INTEGERS:
        few = int(rng.choice((0, 1, 60)))
        values = rng.integers(-(1 << few), 1 << few, shape)
        values ^= int(rng.choice((0, np.iinfo(dtype).min, np.iinfo(dtype).max)))
        return (values | (name == "mul")).astype(dtype)
    if name == "fmul":
        return rng.choice([-1.0, 1.0], shape).astype(dtype)
    values = rng.choice([-2.0, -1.0, 1.0], shape) * (rng.random(shape) < 0.05)
    if name == "fadd":
        values = np.where(rng.random() < 0.5, -0.0, values)
    else:
        values += rng.choice((-np.inf, -3.0, 0.0, 3.0, np.inf))
        values[rng.random(shape) < rng.choice((0.0, 0.02))] = np.nan
    return values.astype(dtype)


def combine_rows(name: str, element: Any, values: Any, takes_part: Any) -> Any:
    """The rows of `values` that take part, combined one after the other."""
    combine: Any = (OF_BITS if element is I1 else FUNCTIONS)[name]
    unsigned = name[0] == "u" and element is not I1
    rows = values.view(f"u{values.dtype.itemsize}") if unsigned else values
    result = np.zeros_like(rows[0])
    for place in np.ndindex(result.shape):
        column = rows[(slice(None), *place)][takes_part[(slice(None), *place)]]
        with np.errstate(invalid="ignore"):
            for n, x in enumerate(column):
                result[place] = combine(result[place], x) if n else x
    return result.view(values.dtype)


def largest(name: str, operands: list[ThreadValues]) -> list[ThreadValues]:
    """The larger of two numbers and its index; of equal ones the lower index."""
    a, i, b, j = (x.array for x in operands)
    first = (a > b) | ((a == b) & (i < j))
    return [ThreadValues(np.where(first, a, b)), ThreadValues(np.where(first, i, j))]


def reduce_on_threads(
    op: Any, it: Layout, operands: list[Any], takes_part: Any, loads: list[int]
) -> list[Any]:
    """The results of `op` on the threads of a block, which append to `loads` the bytes of each load
    of shared memory. Bytes before and after those that are allocated for it keep what they hold."""
    offset, size = 64, reduction_bytes(op)
    lowering = machine(offset + size + 64, it.size("warp"))
    thread: Any = lowering.thread
    thread.call_function = largest
    load = thread.load_shared

    def load_shared(element: Any, count: int, at: Any) -> Any:
        loads.append(element.bytes * count)
        return load(element, count, at)

    thread.load_shared = load_shared
    before = thread.memory.shared.copy()
    lowering.scratch = {op: offset}
    for value, array in zip(op.values, operands, strict=True):
        lowering.values[value] = list(thread_values(it, array))
    if op.predicate is not None:
        lowering.values[op.predicate] = list(thread_values(it, takes_part))
    results = reduce_tile(lowering, op)
    for part in (slice(None, offset), slice(offset + size, None)):
        assert (thread.memory.shared[part] == before[part]).all()
    assert set(loads) <= {1, 2, 4, 8, 16}  # the bytes that a load may have
    return results


def check_defined(
    it: Layout, fragment: Any, expected: Any, is_defined: Any, *, signed: bool = False
) -> None:
    """Check the results where `is_defined` holds. NaN equals NaN; if `signed`, -0.0 is not
    0.0."""
    for register, values in enumerate(fragment):
        for x, v in zip(values.array, coordinates(it, register), strict=True):
            if all(a < n for a, n in zip(v, is_defined.shape, strict=True)) and is_defined[v]:
                same = x == expected[v] or (x != x and expected[v] != expected[v])
                assert same, (register, v, x, expected[v])
                assert not signed or np.signbit(x) == np.signbit(expected[v])


def check_reduction(tile: str, name: str, elements: list[Any], seed: int) -> None:
    """A reduction along any axis, with or without a predicate, whose result may be divided among
    lanes."""
    choose, rng, (it, shape) = random.Random(seed), np.random.default_rng(seed), TILES[tile]
    axis = choose.randrange(len(shape))
    predicate, takes_part = None, np.ones(shape, np.bool_)
    if choose.random() < 0.6:
        predicate = Value(Tile(I1, shape, it))
        takes_part = rng.random(shape) < choose.choice((0.1, 0.9))
    op: Any = Reduce(
        tuple(Value(Tile(e, shape, it)) for e in elements),
        axis=axis, combiner=name if name == "largest" else Combiner(name), predicate=predicate,
    )  # fmt: skip
    target, divided = it.slice(axis), divided_result(op, it)
    if divided is not None and choose.random() < 0.5:
        target, rest = divided, shape[:axis] + shape[axis + 1 :]
        op = op.evolve(results=tuple(Value(Tile(e, rest, target)) for e in elements))
    rows = np.moveaxis(takes_part, axis, 0)
    if name == "largest":
        first, second = map(dtype_of, elements)
        index = np.indices(shape)[axis]
        operands = [rng.integers(-4, -1, shape).astype(first), index.astype(second)]
        of_rows = np.where(rows, np.moveaxis(operands[0], axis, 0), -100)
        expected = [of_rows.max(0), of_rows.argmax(0)]
    else:
        operands = [numbers(rng, name, elements[0], shape)]
        expected = [combine_rows(name, elements[0], np.moveaxis(operands[0], axis, 0), rows)]
    results = reduce_on_threads(op, it, operands, takes_part, [])
    for fragment, values in zip(results, expected, strict=True):
        check_defined(target, fragment, values, rows.any(0), signed=name == "fadd")


@pytest.mark.parametrize("tile", TILES)
def test_every_combiner_of_every_type(tile: str) -> None:
    first = list(TILES).index(tile)
    for number, (name, element) in enumerate(KINDS):
        check_reduction(tile, name, [element], first + number * len(TILES))


@pytest.mark.parametrize("tile", TILES)
@for_each("seed", range(16))
def test_functions_of_two_numbers_of_different_sizes(tile: str, seed: int) -> None:
    """In shared memory they are one after the other, and then whether there is an item."""
    choose = random.Random(seed)
    check_reduction(tile, "largest", [choose.choice((I8, I32)), choose.choice((I16, I64))], seed)


@for_each("name", FUNCTIONS)
def test_only_sums_may_be_fused_with_multiplications(name: str) -> None:
    """The flag of a multiplication would let it be fused with an addition of the program."""
    flags: list[str] = []

    class Thread:
        def binary(self, name: str, element: Any, a: Any, b: Any, flags_of: str = "") -> Any:
            flags.append(flags_of)

        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

    thread: Any = Thread()
    combine_named(thread, name, F32 if name[0] == "f" else I32, None, None)
    assert set(flags) <= {""} if name != "fadd" else flags == ["contract"]


class CostThread(SimtThread):
    """A warp whose shuffles and selects are counted: a shuffle costs as much as two selects."""

    cost = 0.0

    def shuffle_xor(self, element: Any, a: Any, mask: int) -> Any:
        self.cost += 2
        return super().shuffle_xor(element, a, mask)

    def select(self, element: Any, condition: Any, a: Any, b: Any) -> Any:
        self.cost += 1
        return super().select(element, condition, a, b)


@for_each("count", (1, 2, 3, 4, 6, 8, 12, 16, 32))
@for_each("masks", range(6))
@for_each("join_cost", (1.0, 4.0))
def test_lanes_share_items_in_as_many_steps_as_cost_least(
    count: int, masks: int, join_cost: float
) -> None:
    """Of all that are possible, by what they execute."""
    costs = []
    steps = min(masks, (count & -count).bit_length() - 1)
    for splits in range(steps + 1):
        lowering = machine(0, 1)
        lowering.thread = thread = CostThread(32, (0, 0, 0), (1, 1, 1), SimtMemory(0))

        def join(a: Any, b: Any, thread: Any = thread) -> Any:
            thread.cost += join_cost
            return (ThreadValues(a[0].array + b[0].array),)

        lanes = np.arange(32, dtype=np.int32)
        items: Any = [(ThreadValues(lanes + 100 * n),) for n in range(count)]
        bits = [1 << bit for bit in range(masks)]
        results = _across_lanes(lowering, [I32], items, bits, join, splits)
        groups = lanes >> masks
        for n, (result,) in enumerate(results):
            sums = np.bincount(groups, lanes + 100 * n)
            assert (result.array == sums[groups]).all()
        costs.append(thread.cost)
    assert costs[_splits(count, masks, join_cost)] == min(costs)


COLUMNS = layout(
    2, ((0, 1), (0, 2)), tuple((0, n) for n in (4, 8, 16, 32, 64)), ((1, 0), (2, 0))
)  # fmt: skip


@for_each(
    ("it", "element", "expected"),
    [
        (TILES["three warps"][0], I32, [4] * 3),
        (TILES["twelve warps"][0], I8, [4] * 3),
        (TILES["twelve warps"][0], I32, [16] * 3),
        (TILES["twelve warps"][0], I64, [16] * 6),
        (TILES["eight warps"][0], I64, [8]),
        (COLUMNS, I8, [4] * 4),
        (COLUMNS, I32, [16] * 4),
        (COLUMNS, I64, [16] * 8),
        (COLUMNS, I1, [1] * 16),
    ],
)  # fmt: skip
def test_what_warps_combined_is_loaded_in_wide_vectors(
    it: Layout, element: Any, expected: list[int]
) -> None:
    """One number of each warp; each lane one of them where there are many and a single result."""
    shape, loads = it.extents, []
    axis = 1 if shape[0] == 1 else 0
    values = np.ones(shape, dtype_of(element))
    op = Reduce((Value(Tile(element, shape, it)),), axis=axis, combiner=Combiner.XOR)
    (result,) = reduce_on_threads(op, it, [values], np.ones(shape, np.bool_), loads)
    assert loads == expected
    assert all((x.array == shape[axis] % 2).all() for x in result)
