"""Ranges of loops that count: all numbers there are, and as few others as can be."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.analysis.kernels import kernel, value_named
from tileir.analysis.dataflow import forward_values
from tileir.analysis.predicates import predicates
from tileir.analysis.ranges import ranges
from tileir.ir import Function
from tileir.op import Op
from tileir.values import Operand, Value

LOOP = """  br head
head:
  %i = phi i32 [{start}, entry], [%j, body]
  %t, _ = icmp (i1, i1) %i, {bound} {{predicate = {relation}}}
  cond_br %t, body, out
body:
  %v = add i32 %i, 0
  %j = add i32 %i, {step} {{overflow = nsw}}
  br head
out:
"""
RELATIONS = {
    "slt": lambda i, n: i < n, "sle": lambda i, n: i <= n, "sgt": lambda i, n: i > n,
    "sge": lambda i, n: i >= n, "ne": lambda i, n: i != n,
}  # fmt: skip


def counter_values(start: int, step: int, relation: str, bound: int) -> list[int]:
    """What `%i` is, the last one ending the loop."""
    numbers = [start]
    while RELATIONS[relation](numbers[-1], bound) and len(numbers) < 1000:
        numbers.append(numbers[-1] + step)
    return numbers


def loop_ranges(**numbers: object) -> tuple[Function, tuple[int, int], tuple[int, int]]:
    """The function, and the ranges of the counter and of it inside the loop."""
    function = kernel(LOOP.format(**numbers))
    facts = ranges(function)
    return function, facts.of(value_named(function, "i")), facts.of(value_named(function, "v"))


@pytest.mark.parametrize("relation", ["slt", "sle", "sgt", "sge"])
def test_counting_by_one_gives_just_the_numbers_there_are(relation: str) -> None:
    step = 1 if relation[1] == "l" else -1
    for start, count in itertools.product((-50, -1, 0, 1, 7, 50), (1, 2, 3, 4, 5, 20, 90)):
        bound = start + step * count
        numbers = counter_values(start, step, relation, bound)
        _, whole, inside = loop_ranges(start=start, step=step, relation=relation, bound=bound)
        assert whole == (min(numbers), max(numbers)), (start, bound)
        assert inside == (min(numbers[:-1]), max(numbers[:-1])), (start, bound)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("step", [-7, -3, -2, 2, 5])
def test_every_number_that_a_loop_counts_is_in_the_range(relation: str, step: int) -> None:
    nontrivial = 0
    for start, bound in itertools.product((-40, 0, 3, 99), (-20, -1, 0, 4, 100)):
        numbers = counter_values(start, step, relation, bound)
        if len(numbers) == 1000:
            continue
        _, whole, inside = loop_ranges(start=start, step=step, relation=relation, bound=bound)
        assert whole[0] <= min(numbers) and max(numbers) <= whole[1], (start, bound)
        if len(numbers) > 1:
            assert inside[0] <= min(numbers[:-1]) and max(numbers[:-1]) <= inside[1]
        nontrivial += whole != (-(1 << 31), (1 << 31) - 1)
    assert nontrivial


TWO_BOUNDS = """  %start = smax i32 %m, 60
  %from = smin i32 %start, 90
  br head
head:
  %i = phi i32 [%from, entry], [%j, body]
  %t, _ = icmp (i1, i1) %i, {low} {{predicate = {relation}}}
  cond_br %t, body, out
body:
  %odd, _ = icmp (i1, i1) %i, {other} {{predicate = eq}}
  %less = zext i32 %odd
  %j = sub i32 %i, 1 {{overflow = nsw}}
  br head
out:
"""


@pytest.mark.parametrize("other", [3, 25, 58, 59, 60, 61, 75, 90, 91])
def test_numbers_that_comparisons_name_do_not_stop_a_counter(other: int) -> None:
    for relation, low, last in (("sgt", 10, 10), ("sge", 10, 9), ("sgt", 57, 57)):
        function = kernel(TWO_BOUNDS.format(relation=relation, low=low, other=other))
        assert ranges(function).of(value_named(function, "i")) == (last, 90), (relation, low)


PAUSING = """  br head
head:
  %i = phi i32 [{start}, entry], [%i, head], [%j, body]
  cond_br %c, head, test
test:
  %t, _ = icmp (i1, i1) %i, {bound} {{predicate = {relation}}}
  cond_br %t, body, out
body:
  %j = add i32 %i, {step} {{overflow = nsw}}
  br head
out:
"""


@pytest.mark.parametrize("relation", ["slt", "sle", "sgt", "sge"])
def test_a_counter_that_may_pause_comes_to_rest_at_the_bound(relation: str) -> None:
    """What is carried by a loop unchanged keeps a range as wide as it ever was."""
    step = 1 if relation[1] == "l" else -1
    for start, count in itertools.product((-50, 0, 7), (1, 2, 3, 4, 5, 6, 20, 90)):
        bound = start + step * count
        function = kernel(PAUSING.format(start=start, step=step, relation=relation, bound=bound))
        numbers = counter_values(start, step, relation, bound)
        result = ranges(function).of(value_named(function, "i"))
        assert result == (min(numbers), max(numbers)), (start, bound)


def test_at_most_so_many_walks_are_sharper() -> None:
    function, _, _ = loop_ranges(start=0, step=1, relation="slt", bound=9)
    (counter,) = function.blocks["head"].parameters
    for most in (1, 2, 5):
        walks: list[int] = []

        def more(value: Value, old: int | None, seen: object, results: list[int] = walks) -> int:
            results.append((old or 0) + 1)
            return results[-1]

        facts = forward_values(
            function, facts={p.value: 0 for p in function.parameters}, literal=lambda _: 0,
            transfer=lambda op, read: [0] * len(op.results), merge=lambda *_: 0,
            sharpen=lambda: more, most=most,
        )  # fmt: skip
        assert len(walks) == most == facts[counter]


@pytest.mark.parametrize("bounded", ["", "i", "j"])
def test_loops_are_revisited_where_a_fact_changed(bounded: str) -> None:
    """Facts flow forward: only between the first loop and the last is an op looked at again, and
    there only if a fact that it reads is another one, or is refined."""
    text = LOOP.format(start=0, step=1, relation="slt", bound=9)
    text = text.replace(
        "%j = add i32 %i, 1", "%u = add i32 %m, 5\n  %w = add i32 %u, 0\n  %j = add i32 %v, 1"
    )
    function = kernel(text + "  %z = add i32 %m, 0\n")
    seen: dict[str, int] = {}

    def add_inputs(op: Op, read: Callable[[Operand], int]) -> list[int]:
        name = op.results[0].name or ""
        seen[name] = seen.get(name, 0) + 1
        return [min(2, sum(map(read, op.inputs)))] * len(op.results)

    more = itertools.count()
    forward_values(
        function, facts={p.value: 0 for p in function.parameters}, literal=lambda _: 0,
        transfer=add_inputs, merge=lambda value, old, facts: min(next(more), 3),
        refine=lambda value, fact, label, target: fact,
        refined=[value_named(function, bounded)] if bounded else [],
    )  # fmt: skip
    # The counter is 0, 1, 2 and 3, and then stays: %t and %v read it, and %j reads %v, which is 2
    # from the third walk on.
    visits = {"t": 4, "v": 4, "j": 3, "u": 1, "w": 1, "z": 1}
    if bounded == "i":
        visits |= {"t": 5, "v": 5}
    assert {name: seen[name] for name in visits} == visits


def test_a_condition_that_is_joined_with_itself_is_looked_at_once() -> None:
    """Depth is bounded, so that 2^60 paths are not followed."""
    joined = ["  %c0, _ = icmp (i1, i1) %m, 7 {predicate = slt}"]
    joined += [f"  %c{k} = and i1 %c{k - 1}, %c{k - 1}" for k in range(1, 60)]
    ending = "  cond_br %c59, then, out\nthen:\n  %v = add i32 %m, 0\n  br out\nout:\n  ret\n"
    function = kernel("\n".join(joined) + "\n", ending)
    assert ranges(function).of(value_named(function, "v"))[0] == -(1 << 31)
    facts = predicates(function)
    first, second = value_named(function, "c0"), value_named(function, "c5")
    assert facts.implies(first, second) and facts.implies(second, first)
