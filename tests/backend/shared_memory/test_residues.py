"""Accesses that the remainders of their addresses prove disjoint: barriers, and threads against the
interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir import interpret
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.residues import residues_disjoint
from tileir.builder import F32, I32, Builder, arg, pointer

COUNT = 128


def pairs(times: int, distance: int, aligned: int = 16) -> Any:
    """Two stores: at `times` the numbers that are loaded, and `distance` elements after these."""
    b = Builder()
    with b.kernel("k", at=arg(pointer(I32), aligned=16), y=arg(pointer(F32), aligned=aligned)) as (
        at,
        y,
    ):
        i = b.arange(COUNT)
        first = y + (at + i).load() * times
        first.store(i.to(F32))
        (first + distance).store(i.to(F32) + 0.5)
    return b.module()


@pytest.mark.parametrize(
    ("times", "distance", "aligned", "waits"),
    [
        (2, 1, 16, False),
        (2, 3, 8, False),
        (2, -1, 16, False),
        (4, 2, 16, False),
        (2, 2, 16, True),
        (3, 1, 16, True),
        (2, 1, 4, True),
    ],
)
def test_barriers_between_stores(times, distance, aligned, waits):
    """Odd and even elements are disjoint, in an array that is aligned to two of them."""
    module = pairs(times, distance, aligned)
    kernel = compile_kernel(module, "sm_90", Options(num_warps=4))
    assert ("gpu.barrier" in str(kernel.tir_at("barriers"))) is waits
    at = np.random.default_rng(1).permutation(COUNT).astype(np.int32) + 1
    expected, actual = (np.zeros(4 * COUNT + 8, np.float32) for _ in range(2))
    interpret(module, "k", (1,), [at, expected])
    SimtExecutor().launch(module, "k", 1, [at, actual], num_warps=4)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("sizes", "disjoint"), [((4, 4), True), ((4, 8), False), ((8, 4), False), ((1, 4), True)]
)
def test_elements_reach_into_the_next_ones(sizes, disjoint):
    """The second pointer is four bytes after the first one, a multiple of eight: an element of
    eight bytes at either one reaches into an element at the other."""
    function = pairs(2, 1).functions["k"]
    first, second = (op.inputs[0] for op in function.ops if op.mnemonic == "store")
    assert residues_disjoint(function, (first, second), sizes) is disjoint
    assert residues_disjoint(function, (second, first), sizes[::-1]) is disjoint
    assert not residues_disjoint(function, (first, first), sizes)
