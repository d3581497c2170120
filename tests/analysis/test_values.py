"""Alignment, ranges, affine forms and bounds hold of what random programs compute."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.analysis.index_programs import program
from tests.analysis.tracing import Event, Trace, trace
from tests.sizes import for_each
from tileir.analysis.affine import AffineForm, affine
from tileir.analysis.alignment import Alignment, alignment
from tileir.analysis.polynomial import Iteration, Lane, ProgramIndex, Symbol
from tileir.analysis.ranges import ranges, ranges_of
from tileir.ir import Function, Module
from tileir.ops.program import GRID_LIMITS
from tileir.types import I1, Pointer, element_of, shape_of
from tileir.values import Value
from tileir.verify import verify

SEEDS = range(400)


def runs(seed: int) -> tuple[Function, list[Trace]]:
    """A program, and traces of it on a few arguments that keep the promises made."""
    function = program(seed)
    verify(Module({"f": function}))
    chosen = random.Random(seed)
    return function, [trace(function, *_arguments(function, chosen)) for _ in range(3)]


def _arguments(function: Function, r: random.Random) -> tuple[list[int], list[int]]:
    arguments: list[int] = []
    for parameter in function.parameters:
        element: Any = parameter.type
        promise = parameter.attributes
        if isinstance(element, Pointer):
            unit = promise.aligned or 1
            arguments.append((1 << 40) // unit * unit + unit * r.randrange(9))
            continue
        unit = promise.multiple_of or 1
        half = 1 << (element.bits - 1)
        number = r.choice((0, 1, 5, 7, 48, 100, half - 1, -half, -3, r.randrange(-half, half)))
        arguments.append(min(max(number // unit * unit, -half // unit * unit + unit), half - 1))
    return arguments, [r.choice((0, 1, 3, 1000, limit - 1)) for limit in GRID_LIMITS]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("seed", SEEDS)
def test_facts_hold(seed: int) -> None:
    function, traces = runs(seed)
    for run in traces:
        for event in run.events:
            check_alignment(alignment(function).of(event.value), event)
            check_range(function, event)
            check_affine(function, run, event)


@for_each("seed", SEEDS)
def test_ranges_of_some_values_are_those_of_all(seed: int) -> None:
    function = program(seed)
    facts, chosen = ranges(function), random.Random(seed)
    for value in chosen.sample(sorted(facts.facts, key=str), min(4, len(facts.facts))):
        result = ranges_of(function, value)
        assert result.of(value) == facts.of(value)
        assert all(result.at(value, n) == facts.at(value, n) for n in function.blocks)
        assert result.exact <= facts.exact


def check_alignment(fact: Alignment, event: Event) -> None:
    shape = shape_of(event.value.type) or (1,)
    data, defined = event.data.reshape(shape), event.defined.reshape(shape)
    for axis in range(len(shape)):
        lines = np.moveaxis(data, axis, -1).reshape(-1, shape[axis])
        defined_rows = np.moveaxis(defined, axis, -1).reshape(-1, shape[axis])
        for line, there in zip(lines, defined_rows, strict=True):
            _check_line(fact, axis, line, there, event)


def _check_line(fact: Alignment, axis: int, line: Any, there: Any, event: Event) -> None:
    wrap = 1 << 64 if isinstance(element_of(event.value.type), Pointer) else None
    where = (event.value, event.label, fact, list(line))
    run, equal = fact.contiguity[axis], fact.constancy[axis]
    assert run <= len(line) and equal <= len(line), where
    for index, number in enumerate(line):
        first = index - index % run
        if not there[index]:
            continue
        if index == first:
            assert number % fact.multiple[axis] == 0, where
        elif there[first]:
            expected = line[first] + fact.step * (index - first)
            assert number == (expected if wrap is None else expected % wrap), where
        leader = index - index % equal
        if there[leader]:
            assert number == line[leader], where


def check_range(function: Function, event: Event) -> None:
    if isinstance(element_of(event.value.type), Pointer):
        return
    for low, high in (
        ranges(function).of(event.value),
        ranges(function).at(event.value, event.label),
    ):
        numbers = event.data[event.defined]
        assert all(low <= n <= high for n in numbers.ravel()), (event.value, low, high, numbers)


def check_affine(function: Function, run: Trace, event: Event) -> None:
    forms = affine(function)
    if element_of(event.value.type) is I1:
        bounds = forms.bounds(event.value)
        if bounds is None or any(_may_wrap(b.left, run) or _may_wrap(b.right, run) for b in bounds):
            return
        for index in np.ndindex(event.data.shape):
            holds = all(
                _is_true(_number(b.left, event, index), b.relation, _number(b.right, event, index))
                for b in bounds
            )
            assert not event.defined[index] or bool(event.data[index]) == holds, event
        return
    form = forms.of(event.value)
    if form is None or _may_wrap(form, run):
        return
    for index in np.ndindex(event.data.shape):
        if event.defined[index]:
            assert _number(form, event, index) == event.data[index], (event, form)


def _may_wrap(form: AffineForm, run: Trace) -> bool:
    return not form.assuming.isdisjoint(run.wrapped)


def _number(form: AffineForm, event: Event, index: Sequence[int]) -> int:
    def of(symbol: Symbol) -> int:
        if isinstance(symbol, Lane):
            return index[symbol.dimension]
        if isinstance(symbol, Iteration):
            return event.iterations[symbol.header]
        if isinstance(symbol, ProgramIndex):
            return event.pid[symbol.axis]
        return event.scalars[symbol]

    offset = form.offset.evaluate(of)
    if form.base is None:
        return offset
    return (event.scalars[form.base] + 4 * offset) % (1 << 64)


def _is_true(left: int, relation: str, right: int) -> bool:
    if relation[0] == "u":
        left, right = left % (1 << 64), right % (1 << 64)
    return {
        "eq": left == right, "ne": left != right, "lt": left < right, "le": left <= right,
        "gt": left > right, "ge": left >= right,
    }[relation if relation in ("eq", "ne") else relation[1:]]  # fmt: skip


def test_the_programs_reach_what_matters() -> None:
    """The facts checked above are not all trivial."""
    fromkeys: dict[str, int] = dict.fromkeys(
        ("runs", "multiples", "constant", "forms", "bounds"), 0
    )
    for seed in SEEDS:
        function = program(seed)
        facts, forms = alignment(function), affine(function)
        for value in (v for op in function.ops for v in op.results):
            _tally(fromkeys, facts.of(value), forms.of(value), forms.bounds(value), value)
    assert min(fromkeys.values()) > 100, fromkeys


def _tally(counts: dict[str, int], fact: Alignment, form: Any, bounds: Any, value: Value) -> None:
    counts["runs"] += max(fact.contiguity) > 1
    counts["multiples"] += 1 < max(fact.multiple) < 1 << 60
    counts["constant"] += any(
        1 < k < n for k, n in zip(fact.constancy, shape_of(value.type), strict=False)
    )
    counts["forms"] += form is not None and len(form.offset.terms) > 1
    counts["bounds"] += bool(bounds)
