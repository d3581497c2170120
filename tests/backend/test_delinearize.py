"""Delinearization against integer arithmetic: random addresses and masks, evaluated for every lane.

A block has the addresses of the tile. Where the starts that may be negative are not, it has a lane
exactly where the mask does. A dimension without extent has every lane.
"""

from __future__ import annotations

import random
from math import prod
from typing import Any, TypeAlias

import attrs
import numpy as np
import pytest

from tests.sizes import few_or_all, for_each
from tileir.analysis.affine import affine
from tileir.analysis.polynomial import Iteration, Lane, Polynomial, ProgramIndex
from tileir.analysis.ranges import ranges
from tileir.backend.tma.delinearize import (
    HostFacts,
    TensorAccess,
    TensorDimension,
    delinearize,
)
from tileir.backend.tma.host_expressions import host_values
from tileir.backend.tma.nonnegative_starts import (
    entry_values,
    is_negative_at_origin,
    kernel_checks,
    may_be_negative,
)
from tileir.machine import Machine, Tensor
from tileir.refusal import Refusal
from tileir.textual import parse

Array: TypeAlias = np.ndarray[Any, Any]

SHAPE = (4, 8)
LANES = np.indices(SHAPE)
"""The coordinate of each lane, by dimension."""
PARAMETERS = ("m", "n", "k", "s", "t")
"""Extents, an index, and strides."""
UNIFORM = ("p0", "p1", "i", "k", "one")
"""What starts are made of: two program indices, an iteration, a parameter, and 1."""
KINDS = {"tile": "i64<4, 8>", "flag": "i1<4, 8>"}
NSW = "{overflow = nsw}"


@attrs.define
class Writer:
    """Lines of a kernel, and what they compute as functions of numbers by name."""

    lines: list[str] = attrs.field(factory=list)

    def put(self, op: str) -> str:
        self.lines.append(f"  %v{len(self.lines)} = {op}")
        return f"%v{len(self.lines) - 1}"

    def scalar(self, terms: dict[str, int]) -> str:
        """The sum of multiples of scalars."""
        total = ""
        for name, coefficient in terms.items():
            one = f"i64 {coefficient}" if name == "one" else ""
            if not one:
                first, *others = name.split("*")
                one = self.put(f"mul i64 %{first}, {coefficient} {NSW}")
                for other in others:
                    one = self.put(f"mul i64 {one}, %{other} {NSW}")
            total = self.put(f"add i64 {total}, {one.removeprefix('i64 ')} {NSW}") if total else one
        return total or "i64 0"

    def spread(self, scalar: str) -> str:
        return self.put(f"splat {KINDS['tile']} {scalar}")

    def add(self, a: str, b: str, op: str = "add") -> str:
        return self.put(f"{op} {KINDS['tile']} {a}, {b} {NSW}")

    def compare(self, relation: str, a: str, b: str) -> str:
        flag = KINDS["flag"]
        self.lines.append(
            f"  %v{len(self.lines)}, _ = icmp ({flag}, {flag}) {a}, {b} {{predicate = {relation}}}"
        )
        return f"%v{len(self.lines) - 1}"


def total(terms: dict[str, int], numbers: dict[str, int]) -> int:
    return sum(
        coefficient * prod(numbers[part] for part in name.split("*"))
        for name, coefficient in terms.items()
    )


RELATIONS = {
    "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b, "ult": lambda a, b: (0 <= a) & (a < b),
}  # fmt: skip
MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}


@attrs.define
class Example:
    """A kernel, and its address and mask for numbers by name."""

    text: str
    starts: list[dict[str, int]]
    strides: list[dict[str, int]]
    more: dict[str, int]
    conditions: list[tuple[int, str, dict[str, int], dict[str, int]]]
    """Dimension, relation, what is added to the lane, and what it is compared with."""

    def addresses(self, numbers: dict[str, int]) -> Array:
        """The address of each lane."""
        places = zip(self.starts, self.strides, LANES, strict=True)
        return total(self.more, numbers) + sum(
            (total(start, numbers) + lanes) * total(stride, numbers)
            for start, stride, lanes in places
        )

    def mask(self, numbers: dict[str, int]) -> Array:
        """Whether each lane is loaded."""
        result = np.ones(SHAPE, bool)
        for dim, relation, left, right in self.conditions:
            result &= RELATIONS[relation](LANES[dim] + total(left, numbers), total(right, numbers))
        return result


def some_terms(chance: random.Random, names: tuple[str, ...], most: int) -> dict[str, int]:
    chosen = chance.sample(names, chance.randint(0, most))
    return {name: chance.choice((1, 1, 4, 8, -1, -4, 2)) for name in chosen}


def example(chance: random.Random) -> Example:
    starts = [some_terms(chance, UNIFORM, 2) for _ in SHAPE]
    strides = [chance.choice(({"s": 1}, {"one": 32}, {"s": 2}, {"one": -32}, {"t": 1})), {"one": 1}]
    if chance.random() < 0.2:
        strides = [{"one": 1}, chance.choice(({"s": 1}, {"one": 16}))]
    more = some_terms(chance, ("p1", "k", "one", "i"), 1)
    if chance.random() < 0.2:  # the batch and the head of a tensor of more dimensions
        more = some_terms(chance, ("k*p1", "k*i", "k*p0"), 3)
    conditions: list[tuple[int, str, dict[str, int], dict[str, int]]] = []
    for dim, start in enumerate(starts):
        form = chance.randrange(7) if chance.random() < 0.95 else 7
        extent = {("m", "n")[dim]: 1}
        off = extent | {"one": chance.choice((0, 1, -2))}
        if form == 0:
            continue
        if form == 5:  # what is left: lane < extent - start
            rest = {name: -coefficient for name, coefficient in start.items()}
            conditions.append((dim, "slt", {}, {**extent, **rest}))
            continue
        if form == 7:  # a bound from below alone, which no tensor has
            conditions.append((dim, chance.choice(("sge", "sgt")), start, {"one": 0}))
            continue
        relation = chance.choice(("slt", "sle", "ult"))
        conditions.append((dim, relation, start, off if form == 6 else extent))
        if form in (3, 4) and relation != "ult":
            low = chance.choice(("sge", "sgt"))
            conditions.append((dim, low, start, {"one": 0 if low == "sge" else -1}))
    return Example(
        kernel(chance, starts, strides, more, conditions), starts, strides, more, conditions
    )


def kernel(
    chance: random.Random, starts: Any, strides: Any, more: dict[str, int], conditions: Any
) -> str:
    w = Writer()
    lanes = []
    for dim, (short, axis) in enumerate((("i64<4, 1>", 1), ("i64<1, 8>", 0))):
        index = w.put(f"make_range i32<{SHAPE[dim]}>")
        wide = w.put(f"sext i64<{SHAPE[dim]}> {index}")
        lanes.append(
            w.put(
                f"broadcast {KINDS['tile']} "
                + w.put(f"expand_dims {short} {wide} {{axis = {axis}}}")
            )
        )
    place = w.spread(w.scalar(more))
    for lane, start, stride in zip(lanes, starts, strides, strict=True):
        at = w.add(w.spread(w.scalar(start)), lane)
        place = w.add(place, w.add(at, w.spread(w.scalar(stride)), "mul"))
    pointers = w.put("splat f32*<4, 8> %x")
    pointer = w.put(f"getelementptr f32*<4, 8> {pointers}, {place}")
    mask = ""
    for dim, relation, left, right in conditions:
        sides = [w.add(lanes[dim], w.spread(w.scalar(left))), w.spread(w.scalar(right))]
        if relation in MIRRORED and chance.random() < 0.4:
            relation = MIRRORED[relation]
            sides.reverse()
        one = w.compare(relation, *sides)
        mask = w.put(f"and {KINDS['flag']} {mask}, {one}") if mask else one
    w.lines.append(f"  %loaded = load f32<4, 8> {pointer}" + (f", {mask}, 0.0" if mask else ""))
    parameters = ", ".join(f"i64 %{name}" for name in PARAMETERS)
    body = "\n".join(w.lines)
    return f"""tir 1.0

define kernel void @f(f32* %x, {parameters}) {{
entry:
  %q0 = program_id i32
  %q1 = program_id i32 {{axis = 1}}
  %p0 = sext i64 %q0
  %p1 = sext i64 %q1
  br body
body:
  %i = phi i64 [0, entry], [%next, body]
{body}
  %next = add i64 %i, 1 {NSW}
  %more, _ = icmp (i1, i1) %next, 9 {{predicate = slt}}
  cond_br %more, body, out
out:
  ret
}}
"""


def access_of(text: str) -> TensorAccess | Refusal:
    function = parse(text).functions["f"]
    load: Any = next(op for op in function.ops if op.mnemonic == "load")
    facts = HostFacts(
        affine(function),
        ranges(function),
        host_values(function).__contains__,
        entry_values(function).__contains__,
    )
    return delinearize(facts, load.pointer, load.mask, 2)


def value_of(form: Polynomial, numbers: dict[str, int]) -> int:
    def of(which: Any) -> int:
        if isinstance(which, Iteration):
            return numbers["i"]
        if isinstance(which, ProgramIndex):
            return numbers[f"p{which.axis}"]
        assert not isinstance(which, Lane)
        return numbers[{"q0": "p0", "q1": "p1"}.get(which.name, which.name)]

    return form.evaluate(of)


def check(one: Example, access: TensorAccess, numbers: dict[str, int]) -> None:
    """Compare what `access` and `one` say of every lane."""
    place: Any = value_of(access.offset, numbers)
    has = np.ones(SHAPE, bool)
    for dimension in access.dimensions:
        index = value_of(dimension.start, numbers)
        index += 0 if dimension.tile_dim is None else LANES[dimension.tile_dim]
        place += index * value_of(dimension.stride, numbers)
        has &= index >= 0
        if dimension.extent is not None:
            has &= index < value_of(dimension.extent, numbers)
    assert np.array_equal(np.broadcast_to(place, SHAPE), one.addresses(numbers)), one.text
    if all(value_of(d.maybe_negative, numbers) >= 0 for d in access.dimensions):
        assert np.array_equal(has, one.mask(numbers)), (numbers, one.text)


def some_numbers(chance: random.Random) -> dict[str, int]:
    numbers = {name: chance.randint(-9, 12) for name in ("k", "s", "t")}
    numbers |= {name: chance.randint(1, 20) for name in ("m", "n")}
    return {**numbers, **{name: chance.randint(0, 4) for name in ("p0", "p1", "i")}, "one": 1}


@pytest.mark.parametrize("count", few_or_all(120, 3000))
def test_a_block_has_the_addresses_and_the_mask_of_the_tile(count: int) -> None:
    chance, refused = random.Random(7), 0
    for _ in range(count):
        one = example(chance)
        access = access_of(one.text)
        if isinstance(access, Refusal):
            is_bounded_below = "only from below" in access.reason
            assert is_bounded_below or access.reason == "the host cannot compute an extent"
            refused += not is_bounded_below
            continue
        for _ in range(6):
            check(one, access, some_numbers(chance))
    assert 400 * refused <= count, "extents are of parameters in nearly all of them"


@pytest.mark.parametrize("first", [2, 3, -4, 6, 9])
@pytest.mark.parametrize("second", [1, 4, -6, 9, 10])
def test_an_additional_dimension_takes_steps_of_all_its_terms(first: int, second: int) -> None:
    """Whether one coefficient divides the other one or not."""
    more = {"k*p1": first, "k*i": second}
    starts, strides = [dict[str, int](), dict[str, int]()], [{"s": 1}, {"one": 1}]
    text = kernel(random.Random(1), starts, strides, more, [])
    one, access = Example(text, starts, strides, more, []), access_of(text)
    assert not isinstance(access, Refusal), access
    chance = random.Random(first)
    for _ in range(10):
        check(one, access, some_numbers(chance))


@for_each("stride", ("s*s", "s*t", "s*s*t", "t"))
@for_each("seed", range(6))
def test_a_composite_stride_divides_its_multiples_alone(stride: str, seed: int) -> None:
    """As of a tensor [n, n, n], whose first dimension has the stride n * n."""
    chance = random.Random(seed)
    monomials = ("s*i", "s*p0", "s*s*p1", "t*p0", "s*t*i", "t*t*p1", "s*s*t*p0", "p1", "i")
    more = {x: chance.choice((1, 2, -4)) for x in chance.sample(monomials, chance.randint(1, 3))}
    starts, strides = [dict[str, int](), dict[str, int]()], [{stride: 1}, {"one": 1}]
    text = kernel(random.Random(1), starts, strides, more, [])
    one, access = Example(text, starts, strides, more, []), access_of(text)
    assert not isinstance(access, Refusal), access
    for _ in range(10):
        check(one, access, some_numbers(chance))


@pytest.mark.parametrize("seed", range(40))
def test_dimensions_are_merged_until_a_tensor_map_has_them(seed: int) -> None:
    """A dimension whose stride is a multiple of that of another one is a part of it."""
    chance = random.Random(seed)
    monomials = ("k*p1", "k*s*p0", "k*s*t*i", "s*i", "s*t*p1", "t*p0", "k*p0", "k*s*p1", "s*t*i")
    more = {
        x: chance.choice((1, 2, 3, -4, 6)) for x in chance.sample(monomials, chance.randint(3, 6))
    }
    starts, strides = [{"p0": 4}, dict[str, int]()], [{"m": 1}, {"one": 1}]
    text = kernel(random.Random(1), starts, strides, more, [])
    one, access = Example(text, starts, strides, more, []), access_of(text)
    assert not isinstance(access, Refusal), access
    for _ in range(10):
        check(one, access, some_numbers(chance))
    strides_of_host = {"".join(sorted(set(x.split("*")) & {"k", "s", "t"})) for x in more}
    assert len(access.dimensions) == min(5, 2 + len(strides_of_host))


STEPS = [
    ({"s": 1}, {"m*s": 1}, {"m": 1}), ({"s": 2}, {"m*s": 5}, {"m": 2}),
    ({"one": 8}, {"m": 8}, {"m": 1}), ({"one": 8}, {"m": 27}, {"m": 3}),
    ({"s": 1}, {"m*s": 3, "k": 1}, {"m": 3}),
    ({"one": -8}, {"m": -8}, {}), ({"s": 2}, {"m*s": 1}, {}), ({"s": 1}, {"m": 4}, {}),
]  # fmt: skip
"""A stride, what is added to the address, and how many of its steps along the stride are part of
the index that may be negative."""


@pytest.mark.parametrize("start", [{"i": -1}, {"p0": -4}, {"i": -2, "p1": -1}], ids=str)
@pytest.mark.parametrize(("stride", "more", "steps"), STEPS, ids=str)
def test_an_index_that_decreases_from_a_number_of_steps(
    stride: dict[str, int], more: dict[str, int], steps: dict[str, int], start: dict[str, int]
) -> None:
    """It is negative only if it exceeds that number."""
    chance, starts, strides = random.Random(3), [start, {}], [stride, {"one": 1}]
    one = Example(kernel(chance, starts, strides, more, []), starts, strides, more, [])
    access = access_of(one.text)
    assert not isinstance(access, Refusal), access
    for _ in range(40):
        numbers = some_numbers(chance)
        check(one, access, numbers)
        lowest = min(value_of(d.maybe_negative, numbers) for d in access.dimensions)
        assert lowest == min(total({**steps, **start}, numbers), 0)


EXTENTS = [
    ({"k": 1}, {}, ("slt", {"k": 1}, {"m": 1}), {"k": 1}, {"m": 1}),
    ({"k": 1}, {}, ("sle", {}, {"m": 1, "k": -1}), {"k": 1}, {"m": 1, "one": 1}),
    ({"p0": 4}, {}, ("slt", {}, {"m": 1, "p0": -4}), {"p0": 4}, {"m": 1}),
    ({}, {"m*s": -1}, ("slt", {}, {"m": 1}), {}, {"m": 1}),
    ({}, {"k*s": 1}, ("slt", {}, {"m": 1, "k": 1}), {}, {"m": 1, "k": 1}),
    ({"one": 3}, {}, ("slt", {}, {"m": 1}), {"one": 3}, {"m": 1, "one": 3}),
    ({"one": -3}, {}, ("slt", {"one": -3}, {"m": 1}), {"one": -3}, {"m": 1}),
    ({"p0": 4, "one": 1}, {}, ("slt", {"p0": 4}, {"m": 1}), {"p0": 4, "one": 1},
     {"m": 1, "one": 1}),
]  # fmt: skip
"""Rows `start + lane` of a stride that is a parameter, what is added to the address, a comparison
(what is added to the lane, with what it is compared), and the start and the extent."""


@pytest.mark.parametrize(("start", "more", "condition", "first", "extent"), EXTENTS, ids=str)
def test_an_extent_is_what_an_index_is_compared_with(
    start: dict[str, int], more: dict[str, int], condition: Any, first: Any, extent: Any
) -> None:
    starts, strides = [start, {}], [{"s": 1}, {"one": 1}]
    conditions = [(0, *condition)]
    text = kernel(random.Random(5), starts, strides, more, conditions)
    one, access = Example(text, starts, strides, more, conditions), access_of(text)
    assert not isinstance(access, Refusal), access
    rows = next(d for d in access.dimensions if d.tile_dim == 0)
    chance = random.Random(3)
    for _ in range(20):
        numbers = some_numbers(chance)
        check(one, access, numbers)
        assert rows.extent is not None
        assert value_of(rows.start, numbers) == total(first, numbers)
        assert value_of(rows.extent, numbers) == total(extent, numbers)


def test_a_term_belongs_to_the_longest_stride_that_divides_it() -> None:
    """Whatever the sign of the stride: the index along the other one stays small."""
    for size in (32, -32):
        starts: list[dict[str, int]] = [{"i": 1}, {}]
        strides = [{"one": size}, {"one": 1}]
        text = kernel(random.Random(1), starts, strides, {}, [])
        access = access_of(text)
        assert not isinstance(access, Refusal)
        by_tile = {d.tile_dim: d.start for d in access.dimensions}
        assert len(by_tile[0].terms) == 1 and not by_tile[1].terms


LOADED_IN_BODY = """tir 1.0

define kernel void @f(f32* %x, i64* %rows, i64 %k) {
entry:
  %c = mul i64 %k, 2
  br body
body:
  %v = load i64 %rows
  %w = load i64 %rows
  store %x, 1.0
  ret
}
"""


def access_from(start: Polynomial, offset: Polynomial) -> tuple[Any, TensorAccess]:
    function = parse(LOADED_IN_BODY).functions["f"]
    named = {v.name: v for op in function.ops for v in op.results}
    named |= {p.name: p.value for p in function.parameters}

    def rename_symbols(form: Polynomial) -> Polynomial:
        return Polynomial({tuple(named[s] for s in m): c for m, c in form.terms.items()})  # type: ignore[index]

    dimension = TensorDimension(
        rename_symbols(start), Polynomial({(): 1}), None, 0, maybe_negative=rename_symbols(start)
    )
    return function, TensorAccess(named["x"], rename_symbols(offset), (dimension,))


def form_of(**terms: int) -> Any:
    return Polynomial({(name,): coefficient for name, coefficient in terms.items()})  # type: ignore[misc]


@pytest.mark.parametrize("coefficient", [1, -1, 3])
def test_the_kernel_checks_that_a_start_from_memory_is_not_negative(coefficient: int) -> None:
    function, access = access_from(form_of(v=coefficient), form_of())
    *computed, asserted = kernel_checks(function, access)
    machine, values = Machine(), dict[Any, Any]()
    for number in range(-2, 3):
        (start,) = {s for d in access.dimensions for m in d.maybe_negative.terms for s in m}
        values[start] = Tensor(np.asarray(number, np.int64))
        for op in computed:
            operands = [
                values[v] if v in values else Tensor(np.asarray(v.value, np.int64))  # type: ignore[union-attr]
                for v in op.inputs
            ]
            result = op.evaluate(machine, *operands)
            values.update(zip(op.results, result if isinstance(result, tuple) else (result,)))  # noqa: B905
        (condition,) = asserted.operands
        assert bool(values[condition].data) == (coefficient * number >= 0)


def test_starts_that_the_entry_block_computes_are_checked_there() -> None:
    function, access = access_from(form_of(k=1, c=-1), form_of())
    assert kernel_checks(function, access) == []


def test_starts_from_memory_that_decrease_are_no_blocks() -> None:
    for start, offset, expected in (
        (form_of(v=1), form_of(), False), (form_of(v=1, w=2), form_of(), False),
        (form_of(v=-1), form_of(), True), (form_of(v=1, w=-1), form_of(), True),
        (form_of(v=1), form_of(k=1), True), (form_of(k=-1), form_of(k=1), False),
    ):  # fmt: skip
        function, access = access_from(start, offset)
        assert may_be_negative(function, access) == expected


@pytest.mark.parametrize(("terms", "constant", "expected"), [
    ({"v": 1}, -4, True), ({"v": 1, "k": 1}, -4, True), ({"v": 1, "k": 3}, -1, True),
    ({"k": 1}, -4, False), ({"k": 1, "c": 2}, -4, False), ({"v": 1, "k": -1}, -4, False),
    ({"v": -1}, -4, False), ({"v": 1}, 0, False), ({"v": 1}, 4, False), ({}, -4, True),
])  # fmt: skip
def test_starts_below_0_that_only_the_host_can_raise(
    terms: dict[str, int], constant: int, expected: bool
) -> None:
    """A start that increases from a negative number is negative at first, unless the host knows all
    that it depends on."""
    function, access = access_from(form_of(**terms), form_of())
    form = access.dimensions[0].start + Polynomial({(): constant})
    facts = HostFacts(
        affine(function), ranges(function), host_values(function).__contains__,
        entry_values(function).__contains__,
    )  # fmt: skip
    assert is_negative_at_origin(facts, form) == expected


PARTLY_KNOWN = """tir 1.0
define void @f(i64* %at, i64 %n) {
entry:
  %e = load i64 %at
  %pos = and i64 %e, 15
  br body
body:
  %v = load i64 %at
  %w = and i64 %v, 7
  ret
}
"""
"""Numbers of the entry block and of a later one, of each one that is not negative: %pos and %w."""


@for_each(("terms", "expected"), [
    ({"pos": 1, "w": 2}, {}), ({"p": 1, "i": 4, "": 3}, {}), ({"e": 1}, {"e": 1}),
    ({"n": 1, "w": 1}, {"n": 1}), ({"e": 1, "w": 1}, {"e": 1}), ({"e": 1, "i": 8}, {"e": 1}),
    ({"p": -1, "w": 1}, {"p": -1}), ({"p": -1, "n": 1}, {"p": -1, "n": 1}),
    ({"": -4, "w": 1}, {"": -4}), ({"": -4, "p": 16}, {"": -4, "p": 16}),
    ({"e": 1, "pos": 1}, {"e": 1, "pos": 1}), ({"v": 1, "w": 1}, {"v": 1, "w": 1}),
    ({"v": 1, "pos": 1}, {"v": 1, "pos": 1}), ({"e": 1, "w": -1}, {"e": 1, "w": -1}),
    ({"i": -1, "w": 1}, {"i": -1, "w": 1}), ({"e*w": 1}, {"e*w": 1}), ({"pos*w": 1}, {}),
    ({"e*n": 1, "pos*w": 3}, {"e*n": 1}), ({"pos*w": -1}, {"pos*w": -1}),
])  # fmt: skip
def test_what_is_not_negative_need_not_be_computed_for_a_check(
    terms: dict[str, int], expected: dict[str, int]
) -> None:
    """A start without negative terms needs no check. What only a later block knows, and is not
    negative, is left out of the check if the entry block then can compute it."""
    function = parse(PARTLY_KNOWN).functions["f"]
    symbols: dict[Any, Any] = {v.name: v for op in function.ops for v in op.results}
    symbols |= {p.name: p.value for p in function.parameters}
    symbols |= {"p": ProgramIndex(0), "i": Iteration("body")}
    facts = HostFacts(
        affine(function), ranges(function), host_values(function).__contains__,
        entry_values(function).__contains__,
    )  # fmt: skip

    def polynomial(terms: dict[str, int]) -> Polynomial:
        result = Polynomial({})
        for name, coefficient in terms.items():
            monomial = Polynomial({(): coefficient})
            for part in name.split("*") if name else ():
                monomial = monomial * Polynomial({(symbols[part],): 1})
            result = result + monomial
        return result

    assert facts.maybe_negative_part(polynomial(terms)) == polynomial(expected)
