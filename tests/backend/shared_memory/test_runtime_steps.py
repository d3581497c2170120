"""Steps that are known at run time: multiples of them, and the comparison with what is accessed."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np

from tests.sizes import for_each
from tileir.backend.shared_memory.runtime_steps import RuntimeStep, any_shorter
from tileir.machine import Machine, Tensor
from tileir.types import I32, I64
from tileir.values import Constant, Value

SCALARS = (Value(I32), Value(I64), Value(I32))


def step(choose: random.Random) -> RuntimeStep:
    """The sum of multiples of scalars, of two of them multiplied, and of 1."""
    monomials = [(a,) for a in SCALARS] + [(SCALARS[0], SCALARS[1]), ()]
    chosen = [SCALARS[:1], *choose.sample(monomials[1:], choose.randint(0, 3))]
    return RuntimeStep(tuple((m, choose.choice((1, 4, 8, 12, -4, -128, 256))) for m in chosen))


@for_each("seed", range(100))
def test_a_distance_is_a_number_of_steps_and_a_rest(seed: int) -> None:
    choose = random.Random(seed)
    one, times, rest = step(choose), choose.randint(-3, 3), choose.choice((0, 0, 4, -4, 1))
    distance = {monomial: times * by for monomial, by in one.monomials if times}
    distance[()] = distance.get((), 0) + rest
    assert one.multiple_in(distance) == (times, rest)
    assert one.multiple_in({**distance, (SCALARS[2], SCALARS[2]): 4}) is None


def evaluate(operand: Any, values: dict[Any, Any]) -> Any:
    if isinstance(operand, Constant):
        return Tensor(np.asarray(operand.value, np.int32))
    return values[operand]


@for_each("seed", range(100))
def test_steps_that_are_shorter_than_what_is_accessed(seed: int) -> None:
    """In either direction."""
    choose = random.Random(seed)
    steps = {step(choose): choose.choice((1, 4, 64, 512)) for _ in range(choose.randint(1, 2))}
    result = any_shorter(steps, lambda value: value in SCALARS, {})
    assert result is not None
    ops, condition = result
    for _ in range(20):
        numbers = {v: choose.choice((0, 0, 1, 2, -1, 16, 127, 128, -128)) for v in SCALARS}
        values = {
            v: Tensor(np.asarray(n, np.int64 if v.type is I64 else np.int32))
            for v, n in numbers.items()
        }
        for op in ops:
            computed: Any = op.evaluate(Machine(), *(evaluate(v, values) for v in op.inputs))
            several = computed if isinstance(computed, tuple) else (computed,)
            values.update(zip(op.results, several, strict=True))
        lengths = {
            one: abs(sum(by * prod(numbers[v] for v in m) for m, by in one.monomials))
            for one in steps
        }
        expected = any(lengths[one] < span for one, span in steps.items())
        assert bool(values[condition].data) == expected
