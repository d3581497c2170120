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

define kernel void @k(f32* aligned({aligned}) %y, i32 %n, i32 %m, i1 %c) {{
entry:
  %a = mul i32 %n, {0}
  %b = mul i32 %m, {1}
  %ya = getelementptr f32* %y, %a
  %pa = {first}
  %pb = getelementptr f32* %y, %b
  %qa = getelementptr f32* %pa, i32 {2}
  %qb = getelementptr f32* %pb, i32 {3}
  %one = splat i32<4> {4}
  %each = make_range i32<4>
  %tile = splat f32*<4> %qa
  %ra = {last}
  ret
}}
"""
FIRST = ("getelementptr f32* %y, %a", "select f32* %c, %ya, %ya", "bitcast f32* %y")
"""A multiple of a number after `%y`; the last one is `%y`."""
LAST = ("getelementptr f32* %qa, i32 {4}", "getelementptr f32*<4> %tile, %one",
        "getelementptr f32*<4> %tile, i32<4> {4}",
        "getelementptr f32*<4> %tile, %each")  # fmt: skip


@pytest.mark.parametrize("count", few_or_all(200, 4000))
def test_what_is_disjoint_shares_no_byte_wherever_it_is(count):
    """Two multiples of numbers, from a base that is aligned, and numbers that are added to them."""
    proven = 0
    for seed in range(count):
        choose = random.Random(seed)
        first, last = choose.choice(FIRST), choose.choice(LAST)
        times = [choose.choice((1, 2, 3, 4, 6, 8)) for _ in range(2)]
        added = [choose.randint(-5, 5) for _ in range(2)] + [choose.choice((0, 0, 1, -2))]
        sizes = choose.choice(((4, 4), (4, 8), (8, 4), (16, 4), (4, 16), (8, 8)))
        text = PLACES.format(
            *times, *added, aligned=choose.choice((4, 8, 16, 32)), first=first,
            last=last.format(*times, *added),
        )  # fmt: skip
        function = parse(text).kernel()
        values = {v.name: v for op in function.ops for v in op.results}
        if not residues_disjoint(function, (values["ra"], values["qb"]), sizes):
            continue
        proven += 1
        for n, m, lane in product(range(9), range(9), range(4)):
            more = lane if "%each" in last else added[2]
            base = 0 if "bitcast" in first else times[0] * n
            start, other = 4 * (base + added[0] + more), 4 * (times[1] * m + added[1])
            assert start + sizes[0] <= other or other + sizes[1] <= start, seed
    assert proven > count // 50


@pytest.mark.parametrize("last", LAST)
def test_places_of_tiles_are_compared_too(last):
    """Even elements and odd ones, whether elements of a tile are one number apart or none."""
    numbers = (2, 2, 0, 1, 2)
    text = PLACES.format(*numbers, aligned=16, first=FIRST[0], last=last.format(*numbers))
    function = parse(text).kernel()
    values = {v.name: v for op in function.ops for v in op.results}
    is_disjoint = residues_disjoint(function, (values["ra"], values["qb"]), (4, 4))
    assert is_disjoint == ("%each" not in last)


@pytest.mark.parametrize(
    ("place", "is_disjoint"),
    [
        ("getelementptr f32* %y, i32 1", True), ("getelementptr f32* %y, i32 4", False),
        ("getelementptr f32* %y, i32 -1", True), ("getelementptr f32* %y, %n", False),
        ("getelementptr f32* %y, i32 undef", False), ("getelementptr f32* undef, i32 1", False),
        ("getelementptr f32*<4> %ys, %ns", False), ("getelementptr f32*<4> %ys, %ones", True),
    ],
)  # fmt: skip
def test_constants_are_added_to_what_is_known(place, is_disjoint):
    """Of an element of an array, and its first one."""
    function = parse(f"""tir 1.0

define kernel void @k(f32* aligned(16) %y, i32 %n) {{
entry:
  %ys = splat f32*<4> %y
  %ns = splat i32<4> %n
  %ones = splat i32<4> 1
  %p = {place}
  ret
}}
""").kernel()
    (value,) = (v for op in function.ops for v in op.results if v.name == "p")
    base = function.parameters[0].value
    assert residues_disjoint(function, (value, base), (4, 4)) is is_disjoint
    assert residues_disjoint(function, (base, value), (4, 4)) is is_disjoint
