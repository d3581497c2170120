"""Reductions of every element type and combiner in generated layouts, on the simulator's threads,
against numpy."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.backend.test_layout_scan import check, machine
from tests.backend.thread_coordinates import coordinates
from tests.sizes import few_or_all, for_each
from tileir.backend.codegen.emit.reduction import _warp_index, _writers, reduce_tile
from tileir.backend.layouts.reduction_plan import reduces_along, reduction_bytes
from tileir.backend.simt.machine import ThreadValues
from tileir.errors import CompileError
from tileir.layout import Layout, Repeat, layout
from tileir.machine import dtype_of
from tileir.ops.reduce import Combiner, Reduce
from tileir.types import I1, I8, I16, I32, I64, Element, Tile
from tileir.values import Value

NUMPY: dict[Combiner, Any] = {
    Combiner.ADD: np.add, Combiner.MUL: np.multiply, Combiner.AND: np.bitwise_and,
    Combiner.OR: np.bitwise_or, Combiner.XOR: np.bitwise_xor, Combiner.SMIN: np.minimum,
    Combiner.SMAX: np.maximum, Combiner.UMIN: np.minimum, Combiner.UMAX: np.maximum,
}  # fmt: skip
ELEMENTS = (I8, I16, I32, I64, I1)


def drawn_layout(choose: random.Random) -> Layout:
    """A layout of two dimensions: up to 16 registers, 32 lanes and 8 or 12 warps, each of whose
    bits moves along one of them or, seldom for lanes and warps, along none."""
    axes = ["register"] * choose.randint(0, 4) + ["lane"] * 5 + ["warp"] * choose.randint(0, 3)
    if choose.random() < 0.3:
        choose.shuffle(axes)
    vectors: dict[str, list[tuple[int, int]]] = {"register": [], "lane": [], "warp": []}
    second = {name: choose.choice((0.0, 0.5, 1.0)) for name in vectors}
    extents = [1, 1]
    for axis in axes:
        if axis != "register" and choose.random() < 0.1:
            vectors[axis].append((0, 0))
            continue
        dim = int(choose.random() < second[axis])
        vectors[axis].append((extents[0], 0) if dim == 0 else (0, extents[1]))
        extents[dim] *= 2
    if choose.random() < 0.3:
        choose.shuffle(vectors["lane"])
    repeats = ()
    if len(vectors["warp"]) < 3 and choose.random() < 0.3:
        repeats = (Repeat("warp", 3, choose.randrange(2)),)
    return layout(2, vectors["register"], vectors["lane"], vectors["warp"], repeats=repeats)


def values_of(it: Layout, numbers: Any, padding: Any) -> list[ThreadValues]:
    """`numbers` as threads hold them, with `padding` outside of the tile."""
    whole = np.full(it.extents, padding, numbers.dtype)
    whole[tuple(map(slice, numbers.shape))] = numbers
    return [
        ThreadValues(np.array([whole[v] for v in coordinates(it, register)], numbers.dtype))
        for register in range(it.size("register"))
    ]


def drawn_numbers(choose: random.Random, element: Element, shape: tuple[int, ...]) -> Any:
    kind, generator = dtype_of(element), np.random.default_rng(choose.randrange(1 << 30))
    if element is I1:
        return generator.random(shape) < choose.choice((0.1, 0.5, 0.9))
    ends = np.iinfo(kind)
    return generator.integers(ends.min, ends.max, shape, kind, endpoint=True)


def reference(numbers: Any, taking: Any, combiner: Combiner, axis: int) -> Any:
    """The reduction of the elements that take part, of none the identity."""
    kind = numbers.dtype
    if kind.kind == "b":  # a number of one bit, which is -1 if signed
        signed = combiner in (Combiner.SMIN, Combiner.SMAX)
        wide = -numbers.astype(np.int8) if signed else numbers.astype(np.int8)
        first = {Combiner.MUL: 1, Combiner.AND: 1, Combiner.UMIN: 1, Combiner.SMAX: -1}
        joined = NUMPY[combiner].reduce(
            np.where(taking, wide, first.get(combiner, 0)), axis, dtype=np.int8
        )
        return (joined & 1).astype(bool)
    if combiner.value.startswith("u"):
        numbers = numbers.view(f"u{kind}")
    ends = np.iinfo(numbers.dtype)
    neutral = {
        Combiner.MUL: 1, Combiner.AND: -1, Combiner.SMIN: ends.max, Combiner.UMIN: ends.max,
        Combiner.SMAX: ends.min,
    }.get(combiner, 0)  # fmt: skip
    filled = np.where(taking, numbers, np.array(neutral).astype(numbers.dtype))
    return NUMPY[combiner].reduce(filled, axis, dtype=filled.dtype).view(kind)


@pytest.mark.parametrize("count", few_or_all(60, 1500))
def test_reductions_of_generated_layouts(count: int) -> None:
    through_shared = 0
    for seed in range(count):
        choose = random.Random(seed)
        it, axis = drawn_layout(choose), choose.randrange(2)
        shape = tuple(
            n if n < 4 or choose.random() < 0.5 else choose.randint(n // 2 + 1, n)
            for n in it.extents
        )
        assert reduces_along(it, axis)
        element, combiner = choose.choice(ELEMENTS), choose.choice(list(NUMPY))
        numbers = drawn_numbers(choose, element, shape)
        value, predicate, taking = Value(Tile(element, shape, it)), None, np.ones(shape, bool)
        if choose.random() < 0.4:
            predicate = Value(Tile(I1, shape, it))
            taking = np.random.default_rng(seed).random(shape) < choose.choice((0.0, 0.1, 0.9))
        op = Reduce((value,), axis=axis, combiner=combiner, predicate=predicate)
        lowering = machine(reduction_bytes(op), it.size("warp"))
        lowering.scratch = {op: 0}
        lowering.values[value] = values_of(it, numbers, numbers.dtype.type(77))
        if predicate is not None:
            lowering.values[predicate] = values_of(it, taking, True)
        (result,) = reduce_tile(lowering, op)
        through_shared += reduction_bytes(op) > 0
        check(it.slice(axis), result, reference(numbers, taking, combiner, axis))
    assert through_shared > count // 5


def with_diagonals(it: Layout, choose: random.Random) -> Layout:
    """`it` with one to three changes of bits: a register, lane or warp also moves as another one
    does, which may be along the other dimension."""
    vectors = {name: list(getattr(it, name)) for name in ("lane", "warp")}
    vectors["register"] = list(it.atom("register"))
    places = [(name, i) for name, each in vectors.items() for i, v in enumerate(each) if any(v)]
    for _ in range(choose.randint(1, 3)):
        (name, i), (other, k) = choose.sample(places, 2)
        pair = zip(vectors[name][i], vectors[other][k], strict=True)
        vectors[name][i] = tuple(a ^ b for a, b in pair)
    return layout(2, vectors["register"], vectors["lane"], vectors["warp"])


@pytest.mark.parametrize("count", few_or_all(60, 3000))
def test_layouts_with_diagonal_bits_are_refused_or_reduced(count: int) -> None:
    """Some registers may be diagonal, no lanes and warps."""
    refused = reduced = 0
    for seed in range(count):
        choose = random.Random(seed)
        plain, axis = drawn_layout(choose), choose.randrange(2)
        if plain.repeats:
            continue
        it = with_diagonals(plain, choose)
        numbers, value = drawn_numbers(choose, I32, it.extents), Value(Tile(I32, it.extents, it))
        op = Reduce((value,), axis=axis, combiner=Combiner.ADD)
        lowering = machine(reduction_bytes(op), it.size("warp"))
        lowering.scratch = {op: 0}
        lowering.values[value] = values_of(it, numbers, 0)
        if not reduces_along(it, axis):
            refused += 1
            with pytest.raises(CompileError, match="TIR0706"):
                reduce_tile(lowering, op)
            continue
        reduced += any(v[0] and v[1] for v in it.atom("register"))
        (result,) = reduce_tile(lowering, op)
        everything = np.ones(it.extents, bool)
        check(it.slice(axis), result, reference(numbers, everything, Combiner.ADD, axis))
    assert min(refused, reduced) > count // 40


def test_layouts_that_repeat_lanes_are_refused() -> None:
    it = layout(1, repeats=(Repeat("register", 3, 0), Repeat("lane", 32, 0)))
    op = Reduce((Value(Tile(I32, it.extents, it)),), axis=0, combiner=Combiner.ADD)
    assert not reduces_along(it, 0)
    with pytest.raises(CompileError, match="TIR0706"):
        reduce_tile(machine(0, 1), op)


def add_and_keep_largest(name: str, operands: list[ThreadValues]) -> list[ThreadValues]:
    a, i, b, j = (x.array for x in operands)
    return [ThreadValues(a + b), ThreadValues(np.maximum(i, j))]


@pytest.mark.parametrize("count", few_or_all(30, 1500))
def test_functions_take_what_takes_part(count: int) -> None:
    """No padding, such as that of whole registers, and no elements that a predicate leaves out; of
    elements all of which are left out nothing is known."""
    whole_registers = 0
    for seed in range(count):
        choose = random.Random(seed)
        it, axis = drawn_layout(choose), choose.randrange(2)
        shape = tuple(choose.choice((n, choose.randint(1, n))) for n in it.extents)
        whole_registers += any(
            any(a >= n for a, n in zip(v, shape, strict=True)) for v in it.registers
        )
        taking, predicate = np.ones(shape, bool), None
        if choose.random() < 0.5:
            predicate = Value(Tile(I1, shape, it))
            taking = np.random.default_rng(seed).random(shape) < choose.choice((0.1, 0.9))
        values = [Value(Tile(element, shape, it)) for element in (I64, I8)]
        numbers = [drawn_numbers(choose, element, shape) for element in (I64, I8)]
        op = Reduce(tuple(values), axis=axis, combiner="f", predicate=predicate)
        lowering = machine(reduction_bytes(op), it.size("warp"))
        lowering.thread.call_function = add_and_keep_largest
        lowering.scratch = {op: 0}
        for value, each in zip(values, numbers, strict=True):
            lowering.values[value] = values_of(it, each, each.dtype.type(127))
        if predicate is not None:
            lowering.values[predicate] = values_of(it, taking, True)
        total, largest = reduce_tile(lowering, op)
        any_takes_part = taking.any(axis)
        expected = (
            np.where(taking, numbers[0], 0).sum(axis, dtype=np.int64),
            np.where(taking, numbers[1], -128).max(axis),
        )
        for fragment, each in zip((total, largest), expected, strict=True):
            check_where(it.slice(axis), fragment, each, any_takes_part)
    assert whole_registers > count // 10


def check_where(it: Layout, fragment: Any, expected: Any, where: Any) -> None:
    for register, value in enumerate(fragment):
        for t, v in enumerate(coordinates(it, register)):
            if all(a < n for a, n in zip(v, expected.shape, strict=True)) and where[v]:
                assert value.array[t] == expected[v], (register, t, v)


@for_each("seed", range(60))
def test_one_thread_writes_each_partial_result(seed: int) -> None:
    """Of all that have it, in layouts that replicate elements over lanes, warps or repeated warps,
    too."""
    choose = random.Random(seed)
    it, axis = drawn_layout(choose), choose.randrange(2)
    if not it.repeats and len(it.warp) < 3 and choose.random() < 0.5:
        it = layout(
            2, it.register, it.lane, it.warp, repeats=(Repeat("warp", 3, choose.choice((None, 0))),)
        )
    lowering = machine(16, it.size("warp"))
    first = lowering.first_owner(_writers(it, axis))
    threads = 32 * it.size("warp")
    writes = np.ones(threads, bool) if first is None else np.broadcast_to(first.array, threads)
    warps = coordinates(_warp_index(it, axis), 0)
    places = [(*v[:axis], *v[axis + 1 :], *warps[t]) for t, v in enumerate(coordinates(it, 0))]
    counts = Counter(place for place, writing in zip(places, writes, strict=True) if writing)
    assert counts == dict.fromkeys(places, 1), it


@pytest.mark.parametrize("count", few_or_all(80, 1500))
def test_registers_are_inside_a_tile_where_their_coordinates_are(count: int) -> None:
    """Of layouts with diagonal bits and repetitions, too."""
    registers: Counter[str] = Counter()
    for seed in range(count):
        choose = random.Random(seed)
        it = drawn_layout(choose)
        if not it.repeats and choose.random() < 0.7:
            it = with_diagonals(it, choose)
        shape = tuple(choose.choice((n, choose.randint(1, n))) for n in it.extents)
        lowering = machine(16, it.size("warp"))
        for register in range(it.size("register")):
            expected = np.array(
                [all(map(int.__lt__, map(int, v), shape)) for v in coordinates(it, register)]
            )
            condition: Any = lowering.inside(it, shape, register)
            if condition is None or condition == "false":
                assert (expected == (condition is None)).all()
                registers[str(condition)] += 1
                continue
            assert (condition.array == expected).all()
            registers["some"] += 1
    assert min(registers[name] for name in ("None", "false", "some")) > count // 20
