"""Reductions, scans and histograms: bounds, order, predicates, undefined lanes, functions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.machine import Machine, Tensor, dtype_of
from tileir.op import Op, lookup
from tileir.ops.matrix import SHAPES, cells
from tileir.ops.reduce import Combiner
from tileir.types import element_of, shape_of

from .ops_casts import width
from .ops_inputs import tensor

MACHINE = Machine()
WITH_AXES = [s for s in SHAPES if s]


def wrap(rule: Callable[[int, int], int], signed: bool) -> Callable[..., Any]:
    """An integer rule on unbounded numbers, wrapped at the end."""

    def combine(items: list[Any], like: Any) -> Any:
        bits = width(like)
        mask = (1 << bits) - 1
        numbers = [int(x) & mask for x in items]
        if signed:
            numbers = [n - (1 << bits) if n >> (bits - 1) else n for n in numbers]
        total = reduce(rule, numbers) & mask
        return total - (1 << bits) if total >> (bits - 1) and bits > 1 else total

    return combine


INTEGER = {
    "add": wrap(lambda a, b: a + b, False), "mul": wrap(lambda a, b: a * b, False),
    "and": wrap(lambda a, b: a & b, False), "or": wrap(lambda a, b: a | b, False),
    "xor": wrap(lambda a, b: a ^ b, False), "smin": wrap(min, True),
    "smax": wrap(max, True), "umin": wrap(min, False), "umax": wrap(max, False),
}  # fmt: skip


def lines(data: Any, axis: int) -> list[tuple[tuple[int, ...], Any]]:
    """Every line along `axis` with its place in the reduced tile."""
    rows = np.moveaxis(data, axis, -1)
    return [(place, rows[place]) for place in np.ndindex(rows.shape[:-1])]


def finite(op: Op, seed: int) -> Tensor:
    operand = tensor(op.inputs[0].type, seed)
    data = operand.data.astype(np.float64)
    tame = np.where(np.isfinite(data) & (np.abs(data) < 1e3), data, 1.5)
    return Tensor(tame.astype(operand.data.dtype))


def check(op: Any, got: Any, items: Any) -> None:
    name = op.combiner.value
    if name in INTEGER:
        assert int(got) == INTEGER[name](list(items), items), name
    elif name in ("fadd", "fmul"):
        within_bound(name, float(got), [Fraction(float(x)) for x in items], items.dtype)
    else:
        np.testing.assert_equal(float(got), extreme(name, items.astype(np.float64).tolist()))


def extreme(name: str, items: list[float]) -> float:
    """Minimum or maximum, -0.0 below 0.0."""
    numbers = sorted((x, np.copysign(1, x)) for x in items if x == x)
    if not numbers or ("imum" in name and len(numbers) < len(items)):
        return float("nan")
    return numbers[0 if "min" in name else -1][0]


def within_bound(name: str, got: float, items: list[Fraction], dtype: Any) -> None:
    halves = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24}
    half = Fraction(halves.get(dtype.name, 2**-53))
    if name == "fadd":
        real, size = sum(items, Fraction(0)), sum(map(abs, items), Fraction(0))
        bound = size * half * max(1, len(items) - 1)
    else:
        real = reduce(lambda a, b: a * b, items)
        if abs(real) > 1000 or abs(real) < Fraction(1, 1000):
            return
        bound = abs(real) * ((1 + half) ** len(items) - 1)
    assert abs(Fraction(got) - real) <= bound, (name, got, float(real))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["reduce", "scan"])
@pytest.mark.parametrize("shape", WITH_AXES, ids=str)
def test_named_combiners(name: str, shape: tuple[int, ...]) -> None:
    kind: Any = lookup(name)
    for number, op in enumerate(cells(kind, shape)):
        special = op.combiner not in (Combiner.FADD, Combiner.FMUL)  # type: ignore[attr-defined]
        value = tensor(op.inputs[0].type, number) if special else finite(op, number)
        got = op.evaluate(MACHINE, (value,))
        assert got.undef is None and got.data.dtype == value.data.dtype
        assert got.data.shape == shape_of(op.result.type)
        for place, items in lines(value.data, op.axis)[:3]:  # type: ignore[attr-defined]
            if name == "reduce":
                check(op, got.data[place], items)
            else:
                check_scan(op, np.moveaxis(got.data, op.axis, -1)[place], items)  # type: ignore[attr-defined]


def check_scan(op: Any, got: Any, items: Any) -> None:
    for place in {0, len(items) // 2, len(items) - 1}:
        check(op, got[place], items[place:] if op.reverse else items[: place + 1])


@for_each("extent", [1, 2, 3, 7, 16, 48, 100, 128, 1000, 4096])
@for_each("axis", [0, 1])
def test_the_order_of_a_float_sum_is_as_documented(extent: int, axis: int) -> None:
    rng = np.random.default_rng(extent)
    data = rng.standard_normal((extent, 3)).astype(np.float32)
    lanes = 1
    while lanes * lanes < extent:
        lanes *= 2
    columns = []
    for lane in range(min(lanes, extent)):
        total = data[lane]
        for row in data[lane + lanes :: lanes]:
            total = total + row
        columns.append(total)
    while len(columns) > 1:
        half = (len(columns) + 1) // 2
        upper = columns[half:]
        columns = [a + b for a, b in zip(columns, upper, strict=False)] + columns[len(upper) : half]
    shaped = data if axis == 0 else np.asfortranarray(data).T
    got = MACHINE.reduce((Tensor(shaped),), axis, "fadd", None).data  # type: ignore[arg-type]
    np.testing.assert_array_equal(got, columns[0])


def test_only_lanes_of_the_predicate_take_part() -> None:
    data = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
    machine = Machine()
    machine.active = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    got = machine.reduce((Tensor(data),), 1, "mul", None)  # type: ignore[arg-type]
    assert got.data[[0, 2]].tolist() == [3, 9 * 10 * 11 * 12]
    assert got.undef is not None and got.undef.tolist() == [False, True, False]
    got = machine.scan((Tensor(data),), 1, "add", False, None)  # type: ignore[arg-type]
    assert got.data[0][[0, 2]].tolist() == [1, 4] and got.data[2].tolist() == [9, 19, 30, 42]
    assert got.undef is not None and (got.undef == ~machine.active).all()


@pytest.mark.parametrize("name", ["fadd", "fmul"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_sum_under_a_predicate_has_the_order_of_one_of_what_it_leaves(name, dtype) -> None:
    """`lower-predicates` gives the other lanes the identity: not a bit may change."""
    random = np.random.default_rng(3)
    data = random.normal(1, 0.5, (8, 24)).astype(dtype)
    active = random.integers(0, 4, data.shape) > 0
    active[2] = False
    filled = np.where(active, data, dtype(-0.0 if name == "fadd" else 1.0))
    expected = MACHINE.reduce((Tensor(filled),), 1, name, None)  # type: ignore[arg-type]
    machine = Machine()
    machine.active = active
    got = machine.reduce((Tensor(data),), 1, name, None)  # type: ignore[arg-type]
    assert got.undef is not None and got.undef.nonzero()[0].tolist() == [2]
    np.testing.assert_array_equal(got.data[~got.undef], expected.data[~got.undef])
    spoilt = machine.reduce((Tensor(data, ~active),), 1, name, None)  # type: ignore[arg-type]
    assert spoilt.undef.tolist() == got.undef.tolist()


def test_undefined_elements_spoil_their_line() -> None:
    data = np.ones((3, 8), np.float32)
    holes = np.zeros((3, 8), bool)
    holes[1, 5] = True
    got = MACHINE.reduce((Tensor(data, holes),), 1, "fadd", None)  # type: ignore[arg-type]
    assert got.undef is not None and got.undef.tolist() == [False, True, False]
    got = MACHINE.scan((Tensor(data, holes),), 1, "fadd", False, None)  # type: ignore[arg-type]
    assert got.undef is not None and got.undef[1].tolist() == [False] * 5 + [True] * 3


class Calling(Machine):
    """A machine whose functions are Python's."""

    def call(self, symbol: str, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if symbol == "larger":
            a, b = arguments
            return (a,) if a.data > b.data else (b,)
        assert symbol == "argmax"
        a, i, b, j = arguments
        left = a.data > b.data or (a.data == b.data and i.data < j.data)
        return (a, i) if left else (b, j)


@pytest.mark.parametrize("extent", [1, 5, 16, 33])
def test_functions_combine_several_values(extent: int) -> None:
    rng = np.random.default_rng(extent)
    data = rng.integers(0, 9, (4, extent)).astype(np.float32)
    index = np.broadcast_to(np.arange(extent, dtype=np.int32), (4, extent))
    values = (Tensor(data), Tensor(index))
    top, where = Calling().reduce(values, 1, "@argmax", None)  # type: ignore[arg-type]
    np.testing.assert_array_equal(where.data, data.argmax(1))
    np.testing.assert_array_equal(top.data, data.max(1))
    _, running = Calling().scan(values, 1, "@argmax", True, None)  # type: ignore[arg-type]
    for i in range(extent):
        np.testing.assert_array_equal(running.data[:, i], i + data[:, i:].argmax(1))


@pytest.mark.parametrize("shape", [(1, 1), (4, 5), (5, 4), (2, 3, 7)])
def test_functions_combine_one_value(shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    for axis in range(len(shape)):
        top = Calling().reduce((Tensor(data),), axis, "@larger", None)  # type: ignore[arg-type]
        np.testing.assert_array_equal(top.data, data.max(axis))
        running = Calling().scan((Tensor(data),), axis, "@larger", False, None)  # type: ignore[arg-type]
        np.testing.assert_array_equal(running.data, np.maximum.accumulate(data, axis))


def test_histograms_skip_what_is_masked_or_outside() -> None:
    op: Any = next(iter(cells(lookup("histogram"), (48,))))  # type: ignore[arg-type]
    data = np.tile(np.arange(-4, 20), 2).astype(dtype_of(element_of(op.inputs[0].type)))
    mask = np.arange(48) < 24
    got = MACHINE.histogram(Tensor(data), Tensor(mask), op.to)
    assert got.data.tolist() == [1] * 16 and got.undef is None
    holes = np.arange(48) == 30
    assert MACHINE.histogram(Tensor(data, holes), Tensor(mask), op.to).undef is None
    lost = MACHINE.histogram(Tensor(data, holes), None, op.to).undef
    assert lost is not None and lost.all()
