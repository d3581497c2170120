"""Accesses that the remainders of their addresses prove disjoint: barriers, and threads against the
interpreter."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.sizes import few_or_all
from tileir import interpret
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.residues import residues_disjoint
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.textual import parse

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


PLACES = """tir 1.0

define kernel void @k(f32* aligned({aligned}) %y, i32 %n, i32 %m) {{
entry:
  %a = mul i32 %n, {0}
  %b = mul i32 %m, {1}
  %pa = getelementptr f32* %y, %a
  %pb = getelementptr f32* %y, %b
  %qa = getelementptr f32* %pa, i32 {2}
  %qb = getelementptr f32* %pb, i32 {3}
  %ra = getelementptr f32* %qa, i32 {4}
  ret
}}
"""


@pytest.mark.parametrize("count", few_or_all(150, 3000))
def test_what_is_disjoint_shares_no_byte_wherever_it_is(count):
    """Two multiples of numbers, from a base that is aligned, and numbers that are added to them."""
    proven = 0
    for seed in range(count):
        choose = random.Random(seed)
        times = [choose.choice((1, 2, 3, 4, 6, 8)) for _ in range(2)]
        added = [choose.randint(-5, 5) for _ in range(2)] + [choose.choice((0, 0, 1, -2))]
        sizes = choose.choice(((4, 4), (4, 8), (8, 4), (16, 4), (4, 16), (8, 8)))
        text = PLACES.format(*times, *added, aligned=choose.choice((4, 8, 16, 32)))
        function = parse(text).kernel()
        values = {v.name: v for op in function.ops for v in op.results}
        if not residues_disjoint(function, (values["ra"], values["qb"]), sizes):
            continue
        proven += 1
        for n, m in product(range(9), repeat=2):
            first = 4 * (times[0] * n + added[0] + added[2])
            second = 4 * (times[1] * m + added[1])
            assert first + sizes[0] <= second or second + sizes[1] <= first, seed
    assert proven > count // 20
