"""Arms of selections that threads compute in branches: which they are, and that results stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.guarded_arms import GuardedSelections, guarded_selections
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, F64, Builder, Expr, pointer
from tileir.ir import Module
from tileir.types import tile

LOW = [0.5, -0.25, 0.125, 3.0, -1.0, 2.0, 0.75, 1.5, -2.0]
HIGH = [1.5, 0.25, -0.5, 1.0, 2.0, -3.0, 0.5, 0.25, 4.0]
SIZE = 256

Formula = Callable[[Builder, Expr], Expr]


def number(x: Expr, value: float) -> Expr:
    return x.builder.constant(x.type, value)


def polynomial(b: Builder, x: Expr, coefficients: list[float]) -> Expr:
    total = number(x, coefficients[0])
    for c in coefficients[1:]:
        total = b.fma(total, x, number(x, c))
    return total


def program(formula: Formula, element: Any = F32) -> Module:
    b = Builder()
    with b.kernel("k", x=pointer(element), y=pointer(element)) as (x, y):
        i = b.arange(SIZE)
        (y + i).store(formula(b, (x + i).load()))
    return b.module()


def selections(module: Module, **options: Any) -> GuardedSelections:
    stages = compile_kernel(module, "sm_90", {"num_warps": 1, **options}).stages
    return guarded_selections(stages["barriers"].functions["k"])


def two_ranges(b: Builder, x: Expr) -> Expr:
    low, high = polynomial(b, x, LOW), polynomial(b, x, HIGH)
    return b.select(x < number(x, 1.0), low, high)


def three_ranges(b: Builder, x: Expr) -> Expr:
    """A selection in an arm; conditions, and a part of the formulas, have a formula too."""
    size = polynomial(b, b.fabs(x), LOW)
    inner = b.select(size < number(x, 0.5), polynomial(b, size, LOW), polynomial(b, size * x, HIGH))
    return b.select(x < number(x, 0.0), polynomial(b, x, HIGH), inner) + size


def one_range(b: Builder, x: Expr) -> Expr:
    """The second arm is used elsewhere, so that only the first one is guarded."""
    usual = polynomial(b, x, HIGH)
    return b.select(x < number(x, -1.0), polynomial(b, x, LOW), usual) * usual


def other_range(b: Builder, x: Expr) -> Expr:
    usual = polynomial(b, x, HIGH)
    return b.select(x < number(x, -1.0), usual, polynomial(b, x, LOW)) * usual


def after_selection(b: Builder, x: Expr) -> Expr:
    """The second formula depends on the first one alone."""
    return two_ranges(b, two_ranges(b, x))


FORMULAS = (two_ranges, three_ranges, one_range, other_range, after_selection)


@pytest.mark.sampled(3, by="formula")
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("element", [F32, F64])
@pytest.mark.parametrize("warps", [1, 2, 8])
def test_results_stay(formula: Formula, element: Any, warps: int) -> None:
    module, dtype = program(formula, element), np.float32 if element is F32 else np.float64
    random = np.random.default_rng(3)
    mixed = random.uniform(-3, 3, SIZE)
    mixed[::17] = np.nan
    for values in (mixed, np.sort(mixed), np.full(SIZE, 0.5), np.full(SIZE, -2.0)):
        x = values.astype(dtype)
        expected, actual = np.zeros(SIZE, dtype), np.zeros(SIZE, dtype)
        tileir.interpret(module, "k", 1, [x, expected])
        SimtExecutor().launch(module, "k", 1, [x, actual], num_warps=warps)
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("formula", "arms", "branches"),
    [
        (two_ranges, [(8, 8)], 2), (three_ranges, [(8, 8), (8, 0)], 4),
        (one_range, [(8, 0)], 1), (other_range, [(0, 8)], 1),
        (after_selection, [(8, 8), (8, 8)], 4),
    ],
)  # fmt: skip
def test_each_arm_has_a_branch(
    formula: Formula, arms: list[tuple[int, int]], branches: int
) -> None:
    """8 ops of a polynomial each, those of an inner selection in its own arms. Threads with one
    element have a branch for each arm."""
    module = program(formula)
    guarded = selections(module).selections.values()
    assert [
        tuple(sum(op.mnemonic == "fma" for op in arm) for arm in s.arms) for s in guarded
    ] == arms
    ptx = compile_kernel(module, "sm_90", {"num_warps": 8}).ptx
    assert len(re.findall(r"^\s*@!?%p\d+ bra", ptx, re.MULTILINE)) == branches


def formula_without_branches(name: str) -> Formula:
    """A formula that fails one condition of `guarded_selections`."""

    def formula(b: Builder, x: Expr) -> Expr:
        low, high = polynomial(b, x, LOW), polynomial(b, x, HIGH)
        condition = x < number(x, 1.0)
        if name == "short arm":
            high = x * 2.0
        elif name == "shared arms":
            return b.select(condition, low, high) + low * high
        elif name == "mask of positions":
            condition = b.arange(SIZE) < 100
        elif name == "mask of both":
            condition = condition & (b.arange(SIZE) < 100)
        elif name == "both arms are one":
            return b.select(condition, low, low)
        elif name == "read by the condition":
            return b.select(low < high, low, high)
        return b.select(condition, low, high)

    return formula


@pytest.mark.parametrize(
    "name",
    [
        "short arm", "shared arms", "mask of positions", "mask of both", "both arms are one",
        "read by the condition",
    ],
)  # fmt: skip
def test_others_are_always_computed(name: str) -> None:
    guarded = selections(program(formula_without_branches(name)))
    assert not guarded.selections and not guarded.deferred


def test_narrow_floats_are_always_computed() -> None:
    assert not selections(program(two_ranges, F16)).selections


def test_kernels_with_matmuls_have_no_branches() -> None:
    b = Builder()
    with b.kernel("k", x=pointer(F16), y=pointer(F32)) as (x, y):
        rows, columns = b.arange(64).reshape(64, 1), b.arange(64).reshape(1, 64)
        offsets = rows * 64 + columns
        a = (x + offsets).load()
        total = b.dot(a, a, b.constant(tile(F32, (64, 64)), 0.0))
        (y + offsets).store(two_ranges(b, total))
    assert not selections(b.module()).selections


@pytest.mark.parametrize(("fast", "count"), [("none", 1), ("approx", 0)])
def test_a_function_is_worth_a_branch_and_an_approximate_instruction_is_not(
    fast: str, count: int
) -> None:
    def formula(b: Builder, x: Expr) -> Expr:
        value = polynomial(b, x, LOW)
        return b.select(x < number(x, 1.0), value - b.log2(x, fast=fast), value)

    assert len(selections(program(formula)).selections) == count
