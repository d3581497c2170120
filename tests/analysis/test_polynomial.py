"""Polynomials in symbols of a kernel."""

from __future__ import annotations

from itertools import permutations

from tileir.analysis.polynomial import symbol
from tileir.types import I32
from tileir.values import Value


def test_the_order_of_multiplications_does_not_depend_on_where_objects_are() -> None:
    """It is the order of generated multiplications, and two compilations of one kernel generate the
    same code."""
    for names in permutations(("a", "b", "c")):
        values = {name: Value(I32, name) for name in names}  # usually at ascending addresses
        multiplied = symbol(values["c"]) * symbol(values["a"]) * symbol(values["b"])
        (monomial,) = multiplied.terms
        assert monomial == (values["a"], values["b"], values["c"])


def test_values_without_names_may_be_multiplied_in_any_order() -> None:
    x, y = symbol(Value(I32)), symbol(Value(I32))
    assert (x * y).terms == (y * x).terms
