"""Quick steps and evenly stepping accesses: the same results, reports and errors as without."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import InterpretError, interpret
from tileir.interp import program as preparation
from tileir.interp.memory import Memory
from tileir.interp.strided_access import StridedPattern, Strides
from tileir.textual import parse

COPY = """tir 1.0

define kernel void @copy(f32* %x, f32* %y, i32 %s, i32 %t, i32 %o, i32 %n) {
entry:
  %k = program_id i32
  %base = mul i32 %k, %o
  %i = make_range i32<5>
  %si = splat i32<5> %s
  %a = mul i32<5> %i, %si
  %ai = expand_dims i32<5, 1> %a {axis = 1}
  %ab = broadcast i32<5, 7> %ai
  %j = make_range i32<7>
  %tj = splat i32<7> %t
  %b = mul i32<7> %j, %tj
  %bi = expand_dims i32<1, 7> %b {axis = 0}
  %bb = broadcast i32<5, 7> %bi
  %c = add i32<5, 7> %ab, %bb
  %sb = splat i32<5, 7> %base
  %d = add i32<5, 7> %c, %sb
  %xs = splat f32*<5, 7> %x
  %ys = splat f32*<5, 7> %y
  %px = getelementptr f32*<5, 7> %xs, %d
  %py = getelementptr f32*<5, 7> %ys, %d
  %ns = splat i32<5, 7> %n
  %m, _ = icmp (i1<5, 7>, i1<5, 7>) %d, %ns {predicate = slt}
  %v = load f32<5, 7> %px, %m, 2.0
  %jf = sitofp f32<5, 7> %bb
  %w = fadd f32<5, 7> %v, %jf
  store %py, %w, %m
  ret
}
"""


def _outcome(s: int, t: int, o: int, n: int) -> tuple[Any, ...]:
    x = np.arange(64, dtype=np.float32)
    x[11] = np.nan
    y = np.full(64, -1, np.float32)
    try:
        report = interpret(parse(COPY), "copy", 3, [x[4:60], y[4:60], s, t, o, n])
    except InterpretError as error:
        return error.code, str(error), y.tobytes()
    return report.ops, report.accesses, report.races, y.tobytes()


CASES = list(product((7, 1, 0, -3), (1, 0, 2, -1), (0, 35, 8), (1000, 20)))


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("s", "t", "o", "n"), CASES)
def test_as_without(s: int, t: int, o: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "FEW", 0)
    quick = _outcome(s, t, o, n)
    monkeypatch.setattr(preparation, "quick_step", lambda *_: None)
    assert _outcome(s, t, o, n) == quick


@pytest.mark.slow
def test_cases_differ() -> None:
    """The cases end in success, races, clashes and accesses outside."""
    codes = {result[0] for result in (_outcome(*c) for c in CASES) if isinstance(result[0], str)}
    assert codes == {"TIR0501", "TIR0509", "TIR0517"}
    assert sum(not isinstance(_outcome(*c)[0], str) for c in CASES) >= 4


def test_patterns() -> None:
    """Offsets, ends and distinctness against listing all elements."""
    steps = (-16, -4, 0, 4, 8, 12, 20)
    for shape, strides in product([(5,), (3, 4), (2, 3, 4)], product(steps, repeat=3)):
        strides = strides[: len(shape)]
        pattern = StridedPattern.of(shape, strides)
        every = [sum(i * s for i, s in zip(p, strides)) for p in np.ndindex(*shape)]  # noqa: B905
        assert pattern.offsets.view(np.int64).reshape(-1).tolist() == every
        assert (pattern.low, pattern.high) == (min(every), max(every))
        assert not pattern.distinct or len(set(every)) == len(every)
    assert StridedPattern.of((3, 4), (16, 4)).distinct
    assert StridedPattern.of((3, 4), (4, 12)).distinct


def test_only_what_is_strided_and_inside() -> None:
    memory = Memory()
    region = memory.add("x", np.zeros(64, np.uint8))
    strides, base = Strides(memory), np.uint64(region.base)

    def contains(*offsets: int, size: int = 4) -> bool:
        addresses = np.array(offsets, np.int64).view(np.uint64) + base
        return strides.find(addresses, size, write=False) is not None

    assert contains(0, 4, 8) and contains(60, 56) and contains(8, 8, 8) and contains(12)
    assert not contains(0, 4, 12) and not contains(0, 4, 8, 8)
    assert not contains(56, 60, 64) and not contains(4, 0, -4)
    assert not contains(2, 6) and not contains(0, 6) and contains(0, 6, size=2)


@for_each("offset", (0, 4, 16))
@for_each(("size", "shape"), [(4, (3,)), (4, (2, 3)), (8, (4,)), (2, (2, 2, 2)), (1, (5,))])
def test_what_is_found_is_what_is_located(offset: int, size: int, shape: tuple[int, ...]) -> None:
    """Of a region that begins after its base, or at it: each access with even steps is found where
    all its elements are inside, and has them."""
    memory = Memory()
    region = memory.add("x", np.arange(40, dtype=np.uint8), offset)
    strides = Strides(memory)
    for first in range(-8, 48, 2):
        for steps in product((-8, -4, -1, 0, 4, 8), repeat=len(shape)):
            places = [first + sum(i * s for i, s in zip(p, steps)) for p in np.ndindex(*shape)]  # noqa: B905
            addresses = np.array(places, np.int64).view(np.uint64) + np.uint64(region.start)
            place = strides.find(addresses.reshape(shape), size, write=False)
            inside = all(0 <= p <= 40 - size and (p + offset) % size == 0 for p in places)
            assert (place is not None) == inside, (first, steps)
            if place is not None:
                content = [int.from_bytes(range(p, p + size), "little") for p in places]
                assert place.view().reshape(-1).tolist() == content


@for_each("write", (False, True))
@for_each("what", ("", "holes", "undef", "fixed", "denied_read", "denied_write"))
def test_bytes_that_differ_from_others_are_looked_at_one_by_one(what: str, write: bool) -> None:
    """A region with bytes that are undefined, fixed or no argument's has no strided accesses that
    these may change, and none that it denies."""
    memory = Memory()
    region = memory.add("x", np.zeros(64, np.uint8))
    if what.startswith("denied"):
        setattr(region, what, "it is not allowed")
    elif what:
        setattr(region, what, np.zeros(64, np.uint8))
    addresses = np.arange(0, 64, 4, np.int64).view(np.uint64) + np.uint64(region.base)
    place = Strides(memory).find(addresses, 4, write=write)
    refused = {"holes", "undef", "fixed" if write else "", f"denied_{'write' if write else 'read'}"}
    assert (place is None) == (what != "" and what in refused)
