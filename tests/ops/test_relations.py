"""Comparisons by their definition, on all pairs of small integers and of special floats."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.sizes import for_each
from tileir.machine import Machine, Tensor, dtype_of
from tileir.op import lookup
from tileir.ops.arith import FloatPredicate, IntegerPredicate
from tileir.types import BF16, F16, F32, F64, I8, I64, Scalar, Tile
from tileir.values import Value

MACHINE = Machine()
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def comparison_results(
    name: str, element: Scalar, word: Any, a: Any, b: Any
) -> tuple[list[bool], list[bool]]:
    """What `name` gives, and its opposite."""
    kind: Any = lookup(name)
    values = [Value(Tile(element, x.shape)) for x in (a, b)]
    result = kind(*values, predicate_=word).evaluate(MACHINE, Tensor(a), Tensor(b))
    return result[0].data.tolist(), result[1].data.tolist()


@for_each("word", IntegerPredicate)
@for_each("element", [I8, I64])
def test_integers(element: Scalar, word: IntegerPredicate) -> None:
    half = 1 << (element.bits - 1)
    ends = (-half, 1 - half, 2 - half, half - 2, half - 1)
    numbers = sorted({*range(-20, 20), *ends})
    pairs = [(x, y) for x in numbers for y in numbers]
    a, b = (np.array(side, dtype_of(element)) for side in zip(*pairs, strict=True))
    wrap = 2 * half if word.value[0] == "u" else 0
    rule = ORDER[word.value if word.value in ORDER else word.value[1:]]
    expected = [rule(x % wrap, y % wrap) if wrap else rule(x, y) for x, y in pairs]
    assert comparison_results("icmp", element, word, a, b) == (expected, [not e for e in expected])


SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, math.inf, -math.inf, math.nan, -math.nan]


@for_each("word", FloatPredicate)
@for_each("element", [F16, BF16, F32, F64])
def test_floats(element: Scalar, word: FloatPredicate) -> None:
    pairs = [(x, y) for x in SPECIAL for y in SPECIAL]
    a, b = (np.array(side).astype(dtype_of(element)) for side in zip(*pairs, strict=True))
    expected = [is_true(word.value, x, y) for x, y in pairs]
    assert comparison_results("fcmp", element, word, a, b) == (expected, [not e for e in expected])


def is_true(word: str, x: float, y: float) -> bool:
    """`o` relations are false of a NaN, `u` relations true (IEEE 754-2019 5.11)."""
    unordered = math.isnan(x) or math.isnan(y)
    if word in ("true", "false"):
        return word == "true"
    if word in ("ord", "uno"):
        return unordered == (word == "uno")
    return word[0] == "u" if unordered else ORDER[word[1:]](x, y)
