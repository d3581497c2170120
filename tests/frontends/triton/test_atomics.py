"""Atomic functions of memory and of tensor descriptors, by the type of the elements."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir.frontends.triton import CompilationError
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor

from .sources import kernel_of

INTEGERS = ("int32", "uint32", "int64", "uint64")
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "xchg": lambda x, y: y,
}  # fmt: skip
OF_FLOATS = ("add", "max", "min", "xchg")


def numbers(kind: str) -> tuple[Any, Any]:
    """What is in memory, and the operands: pairs that signs and bits tell apart."""
    if kind.startswith("float"):
        few = [-2.5, -0.5, 0.5, 1.0, 3.0]
    else:
        ends = np.iinfo(kind)
        few = [0, 1, 6, ends.max, ends.max // 2, ends.max // 2 + 1, ends.min, ends.max - 5]
    pairs = np.array(list(product(few, repeat=2)), kind)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


@for_each(
    ("op", "kind"),
    [(op, kind) for op in OPERATIONS for kind in INTEGERS]
    + [(op, kind) for op in OF_FLOATS for kind in ("float32", "float64")],
)
def test_operations_of_every_type(op: str, kind: str) -> None:
    """The number before is the result, and the mask says which are changed."""
    x, y = numbers(kind)
    source = f"""def k(x, y, old, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_{op}(x + i, tl.load(y + i), mask=i % 3 != 0), i % 3 != 0)
"""
    chosen = np.arange(len(x)) % 3 != 0
    with np.errstate(over="ignore"):
        expected = np.where(chosen, OPERATIONS[op](x, y), x)
    before, old = np.where(chosen, x, 0), np.zeros_like(x)
    kernel_of(source)[(1,)](x, y, old, len(x), on="interpreter")
    np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(x, expected)


@for_each("op", ["and", "or", "xor"])
@for_each("of", ["x + tl.arange(0, 4)", "d"])
def test_bits_are_those_of_integers(op: str, of: str) -> None:
    place = "[0], " if of == "d" else ""
    source = f"""def k(x, y):
    d = tl.make_tensor_descriptor(x, [4], [1], [4])
    p = {of}
    p.atomic_{op}({place}tl.load(y + tl.arange(0, 4)))
"""
    x = np.ones(4, np.float32)
    with pytest.raises(CompilationError, match="atomic_" + op):
        kernel_of(source)[(1,)](x, x.copy(), on="interpreter")


@for_each(
    ("op", "kind"),
    [(op, kind) for op in OPERATIONS if op != "xchg" for kind in INTEGERS] + [("add", "float32")],
)
def test_operations_by_descriptors(op: str, kind: str) -> None:
    """A block that is partly outside."""
    x, y = (n[:16].reshape(2, 8) for n in numbers(kind))
    source = f"""def k(x, y):
    block = tl.load(y + tl.arange(0, 2)[:, None] * 8 + tl.arange(0, 8)[None, :])
    x.atomic_{op}([1, -2], block)
"""
    expected = x.copy()
    with np.errstate(over="ignore"):
        expected[1, :6] = OPERATIONS[op](x[1, :6], y[0, 2:])
    kernel_of(source)[(1,)](TensorDescriptor(x, [2, 8], [8, 1], [2, 8]), y, on="interpreter")
    np.testing.assert_array_equal(x, expected)


@for_each("kind", [*INTEGERS, "float32", "float64"])
def test_compare_and_swap(kind: str) -> None:
    x, y = numbers(kind)
    new = (np.arange(len(x)) + 100).astype(kind)
    source = """def k(x, y, new, old, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_cas(x + i, tl.load(y + i), tl.load(new + i)))
"""
    expected, before, old = np.where(x == y, new, x), x.copy(), np.zeros_like(x)
    kernel_of(source)[(1,)](x, y, new, old, len(x), on="interpreter")
    np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(x, expected)


@triton.jit
def atomics_of_order(x, SEM: tl.constexpr, SCOPE: tl.constexpr):
    tl.atomic_xchg(x, 1, sem=SEM, scope=SCOPE)
    tl.atomic_cas(x, 1, 2, sem=SEM, scope=SCOPE)


@for_each("sem", ["relaxed", "acquire", "release", "acq_rel"])
@for_each("scope", ["cta", "gpu", "sys"])
def test_orders_and_scopes_are_those_stated(sem: str, scope: str) -> None:
    module = atomics_of_order.module({"x": "*i32"}, {"SEM": sem, "SCOPE": scope})
    atomics = [op for f in module.functions.values() for op in f.ops if op.is_atomic]
    assert [(op.sem.value, op.scope.value) for op in atomics] == [(sem, scope)] * 2
