"""What `lower-predicates` puts in the place of what a predicate leaves out: numbers that change
nothing, and operands that do not trap."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.sizes import for_each
from tileir.machine import Machine, Tensor
from tileir.op import all_ops
from tileir.ops.reduce import Combiner
from tileir.passes.lower_predicates import IDENTITIES
from tileir.types import I8, I32, I64, Tile
from tileir.values import Value

MACHINE = Machine()


@for_each("bits", [8, 16, 32, 64])
@for_each("name", [n for n, x in IDENTITIES.items() if callable(x)])
def test_numbers_that_change_no_integer(name: str, bits: int) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    x = np.array([low, low + 1, -2, -1, 0, 1, 2, high - 1, high], f"i{bits // 8}")
    identity: Any = IDENTITIES[name]
    other = np.full(x.shape, identity(bits), f"u{bits // 8}").view(x.dtype)
    for a, b in ((x, other), (other, x)):
        result = MACHINE.elementwise(name, Tensor(a), Tensor(b))
        assert (result.data == x).all() and result.undef is None


@for_each("dtype", [np.float32, np.float64])
@for_each("name", [n for n, x in IDENTITIES.items() if not callable(x)])
def test_numbers_that_change_no_float(name: str, dtype: Any) -> None:
    x = np.array([-np.inf, -1e30, -1.0, -0.0, 0.0, 1e-40, 1.0, np.inf, np.nan], dtype)
    other = np.full(x.shape, IDENTITIES[name], dtype)
    for a, b in ((x, other), (other, x)):
        result = MACHINE.elementwise(name, Tensor(a), Tensor(b)).data
        assert np.array_equal(result, x, equal_nan=True)
        assert (np.signbit(result) == np.signbit(x))[:-1].all()


def test_every_combiner_that_is_joined_in_any_order_has_one() -> None:
    assert {c.value for c in Combiner} == IDENTITIES.keys()


@for_each("element", [I8, I32, I64])
@for_each("kind", [x for x in all_ops() if x.harmless and x.mnemonic != "gather"])
def test_operands_that_do_not_trap(kind: Any, element: Any) -> None:
    operand, number = kind.harmless
    assert operand == "rhs"
    low, high = -(1 << element.bits - 1), (1 << element.bits - 1) - 1
    x = np.array([low, -1, 0, 1, high], f"i{element.bits // 8}")
    tile = Tile(element, (5,))
    op = kind(Value(tile), Value(tile))
    out = op.evaluate(MACHINE, Tensor(x), Tensor(np.full(5, number, x.dtype)))
    assert out.data.shape == (5,)
