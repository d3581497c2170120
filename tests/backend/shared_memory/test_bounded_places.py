"""Barriers between accesses at numbers of known ranges, with the simulator as the judge."""

from __future__ import annotations

import random
from itertools import combinations, product

import numpy as np
import pytest

from tests.backend.shared_memory.races import races_without_barriers
from tests.sizes import few_or_all, for_each
from tileir import Module
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.byte_ranges import byte_ranges, ranges_disjoint
from tileir.backend.target import target
from tileir.builder import F16, F32, F64, I8, I32, Builder, Expr, pointer

WIDTHS, FIRST, SIZE = (1, 32, 128), 1024, 2048
NUMBERS = (0, 1, 2, 3, 7, -1)
"""Arguments from which programs compute numbers of a few bits."""


class Straight:
    """Loads and stores without a loop, of numbers and of tiles, through pointers that numbers of
    known ranges move, under masks that compare positions with constants."""

    def __init__(self, seed: int) -> None:
        self.choose, self.b = random.Random(seed), Builder()

    def module(self) -> Module:
        choose, b = self.choose, self.b
        with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
            bounded = [n & 1, n & 3, (n & 3) - 2, b.minimum(b.maximum(n, -1), 2)]
            self.numbers = [(choose.choice(bounded), choose.choice((1, 2, 32, 64, -32, -1)))
                            for _ in range(2)]  # fmt: skip
            for number in range(choose.randint(2, 4)):
                self.access(x, y + number)
        return b.module()

    def access(self, x: Expr, out: Expr) -> None:
        choose, width = self.choose, self.choose.choice(WIDTHS)
        at, mask = FIRST + choose.choice((0, 0, 0, 1, 3, 32, 64, 128, -128)), None
        lanes = self.b.arange(width) if width > 1 else self.b.constant(I32, 0)
        place, lanes = (x + at, lanes) if choose.random() < 0.5 else (x, lanes + at)
        for number, times in self.numbers:
            way = choose.random()
            if way < 0.3:
                place = place + number * times
            elif way < 0.5:
                lanes = lanes + number * times
        if width > 1 and choose.random() < 0.4:
            mask = self.mask(width)
        if choose.random() < 0.5:
            (place + lanes).store(self.b.full((width,), 1.0, F32) if width > 1 else 1.0, mask)
        else:
            value = (place + lanes).load(mask)
            if mask is None and width > 1:
                value = value.sum(0)
            if mask is None:
                out.store(value)

    def mask(self, width: int) -> Expr:
        """The first lanes, the last ones, or all but one, by either result of a comparison."""
        choose = self.choose
        relation = choose.choice(("slt", "sle", "sge", "sgt", "ult", "uge", "eq", "ne"))
        bound = choose.choice((0, 1, 32, width // 2, width - 1))
        return self.b.icmp(self.b.arange(width), bound, predicate=relation)[choose.randrange(2)]


def run(seed: int) -> None:
    """Run the program of `seed` on four warps. Raises RaceError."""
    module = Straight(seed).module()
    for n in NUMBERS:
        x, y = np.zeros(SIZE, np.float32), np.zeros(8, np.float32)
        SimtExecutor().launch(module, None, 1, [x, y, n], num_warps=4)


@pytest.mark.parametrize("count", few_or_all(30, 600))
def test_threads_wait_wherever_a_number_may_be(count: int) -> None:
    for seed in range(count):
        run(seed)


def test_the_programs_race_without_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert races_without_barriers(monkeypatch, run, 20) >= 5


@pytest.mark.parametrize("stored", "xyzw")
def test_many_accesses_through_any_of_several_parameters(stored: str) -> None:
    """Accesses that are not told apart any more are through each one's parameters."""
    b = Builder()
    arrays = dict.fromkeys("xyzw", pointer(F32))
    with b.kernel("k", n=I32, **arrays) as (n, *values):
        by_name, positions = dict(zip(arrays, values, strict=True)), b.arange(64)
        total = b.full((64,), 0.0, F32)
        for number in range(65):
            one, other = "zw" if number == 64 else "xy"
            place = b.select(n > number, by_name[one], by_name[other]) + (63 - positions)
            total = total + place.load()
        for name in (stored, *(other for other in arrays if other != stored)):
            (by_name[name] + positions).store(total)
    options = Options(num_warps=2)
    function = run_pipeline(b.module(), target("sm_90"), options, None).stages["barriers"].kernel()
    names = [op.mnemonic for op in function.ops if op.mnemonic in ("store", "gpu.barrier")]
    assert names == ["gpu.barrier", *["store"] * 4]


def test_ranges_of_bytes_are_disjoint_where_they_share_none() -> None:
    ends = list(combinations(range(5), 2))
    for a, b in product(ends, repeat=2):
        shared = set(range(*a)) & set(range(*b))
        assert ranges_disjoint(a, b) == (not shared)
        assert not ranges_disjoint(a, None) and not ranges_disjoint(None, b)


@for_each("seed", range(40))
def test_the_bytes_that_a_pointer_may_reach_are_those_of_all_numbers(seed: int) -> None:
    """From the first byte of the lowest element to the last byte of the highest, of a pointer that
    numbers of known ranges move in one or several steps, and of a tile of pointers."""
    choose = random.Random(seed)
    element = choose.choice((I8, F16, F32, F64))
    b, starts = Builder(), {0}
    with b.kernel("k", x=pointer(element), n=I32) as (x, n):
        place = x
        for _ in range(choose.randint(1, 3)):
            low, count = choose.randint(-9, 9), choose.choice((1, 2, 8))
            moved = (n & (count - 1)) + low
            starts = {s + low + i for s in starts for i in range(count)}
            if choose.random() < 0.3:
                moved = moved + b.arange(16)
                starts = {s + i for s in starts for i in range(16)}
            place = place + moved
        value = place.load()
        place.store(value)
    function = b.module().kernel()
    (store,) = (op for op in function.ops if op.mnemonic == "store")
    expected = min(starts) * element.bytes, (max(starts) + 1) * element.bytes
    assert byte_ranges(function)[store.pointer] == expected
    assert byte_ranges(function)[function.parameters[0].value] == (0, element.bytes)
