"""Blocks of tensors whose dimensions are in any order in memory, loaded and stored."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import Module, interpret
from tileir.builder import F16, F32, Builder, Expr, pointer
from tileir.passmanager import run

BATCH, ROWS, INNER, COLUMNS = 8, 16, 16, 32
ORDERS = list(itertools.permutations(range(3)))


def strides(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of a tensor of `shape` whose dimensions are in `order`, the last contiguous."""
    result, step = [0, 0, 0], 1
    for dim in reversed(order):
        result[dim], step = step, step * shape[dim]
    return result


def place(b: Builder, shape: Sequence[int], order: Sequence[int]) -> Expr:
    """The offsets of a tile of `shape`."""
    first, second, third = (
        b.arange(n).reshape(*(n if i == dim else 1 for i in range(3))) * stride
        for dim, (n, stride) in enumerate(zip(shape, strides(shape, order), strict=True))
    )
    return first + second + third


def batched_matmul(left: Sequence[int], right: Sequence[int], out: Sequence[int]) -> Module:
    b = Builder()
    with b.kernel("k", x=pointer(F16), y=pointer(F16), z=pointer(F32)) as (x, y, z):
        one = (x + place(b, (BATCH, ROWS, INNER), left)).load()
        other = (y + place(b, (BATCH, INNER, COLUMNS), right)).load()
        start = b.full((BATCH, ROWS, COLUMNS), 0.0, F32)
        (z + place(b, (BATCH, ROWS, COLUMNS), out)).store(b.dot(one, other, start))
    return b.module()


@for_each("out", ORDERS)
@pytest.mark.parametrize(("left", "right"), [(0, 5), (3, 4), (4, 1), (2, 3)])
def test_blocks_in_any_order_are_those_of_the_pointers(
    left: int, right: int, out: Sequence[int]
) -> None:
    module = batched_matmul(ORDERS[left], ORDERS[right], out)
    changed = run(module, "infer-descriptors").module
    mnemonics = [op.mnemonic for op in changed.kernel().ops]
    assert mnemonics.count("descriptor_load") == 2 and "descriptor_store" in mnemonics
    generator = np.random.default_rng(left)
    x = generator.integers(-3, 4, BATCH * ROWS * INNER).astype(np.float16)
    y = generator.integers(-3, 4, BATCH * INNER * COLUMNS).astype(np.float16)
    results = []
    for each in (module, changed):
        z = np.zeros(BATCH * ROWS * COLUMNS, np.float32)
        interpret(each, None, 1, [x, y, z])
        results.append(z)
    np.testing.assert_array_equal(*results)
