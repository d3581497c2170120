"""Which accesses and fences order a payload before a flag: each way to write the flag, with each
way to read it, orders the payload where both sides say so, and is a race elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import attrs
import numpy as np
import pytest

from tests.sizes import for_each
from tileir import InterpretError

from .programs import run

KERNEL = """
define kernel void @k(i32* %data, i32* %flag, i32* %out) {{
entry:
  %me = program_id i32
  %writes, _ = icmp (i1, i1) %me, 0 {{predicate = eq}}
  cond_br %writes, write, wait
write:
  store %data, 42
  {write_fence}
  {write}
  ret
wait:
  {read}
  %set, _ = icmp (i1, i1) %seen, {value} {{predicate = eq}}
  cond_br %set, go, wait
go:
  {read_fence}
  %v = load i32 %data
  store %out, %v
  ret
}}
"""
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
RELEASES, ACQUIRES = ("release", "acq_rel"), ("acquire", "acq_rel")
FENCES = ("", *SEMANTICS[1:])


@attrs.frozen
class Side:
    """One side: its fence, its access to the flag, and whether they release or acquire."""

    fence: str
    access: str
    orders: bool


def fence(sem: str) -> str:
    return f"fence {{sem = {sem}}}" if sem else ""


def writers() -> Iterator[Side]:
    accesses = {
        "store": ("atomic_store %flag, 1 {{sem = {}}}", ("relaxed", "release")),
        "exchange": ("%w = atomic_rmw i32 %flag, 1 {{op = xchg, sem = {}}}", SEMANTICS),
        "swap": ("%w = atomic_cas i32 %flag, 0, 1 {{sem = {}}}", SEMANTICS),
    }
    for text, orders in accesses.values():
        for sem, before in product(orders, FENCES):
            yield Side(fence(before), text.format(sem), sem in RELEASES or before in RELEASES)


def readers() -> Iterator[Side]:
    accesses = {
        "load": ("%seen = atomic_load i32 %flag {{sem = {}}}", ("relaxed", "acquire")),
        "add": ("%seen = atomic_rmw i32 %flag, 0 {{op = add, sem = {}}}", SEMANTICS),
        "swap": ("%seen = atomic_cas i32 %flag, 1, 1 {{sem = {}}}", SEMANTICS),
        "failing swap": ("%seen = atomic_cas i32 %flag, 7, 9 {{sem = {}}}", SEMANTICS),
    }
    for text, orders in accesses.values():
        for sem, after in product(orders, FENCES):
            yield Side(fence(after), text.format(sem), sem in ACQUIRES or after in ACQUIRES)


def is_ordered(writer: Side, reader: Side, value: int = 1) -> bool:
    """Whether the payload is read without a race."""
    text = KERNEL.format(
        write_fence=writer.fence, write=writer.access, read=reader.access,
        read_fence=reader.fence, value=value,
    )  # fmt: skip
    data, flag, out = np.zeros(1, np.int32), np.zeros(2, np.int32), np.zeros(1, np.int32)
    try:
        run(text, 2, data, flag, out)
    except InterpretError as error:
        assert error.code == "TIR0517", str(error)
        return False
    assert out[0] == 42
    return True


RELEASE = Side("", "atomic_store %flag, 1 {sem = release}", True)
ACQUIRE = Side("", "%seen = atomic_load i32 %flag {sem = acquire}", True)
RELAXED = Side("", "%seen = atomic_load i32 %flag {sem = relaxed}", False)


@for_each("writer", writers())
def test_every_way_to_write_a_flag(writer: Side) -> None:
    assert is_ordered(writer, ACQUIRE) == writer.orders
    assert not is_ordered(writer, RELAXED)


@for_each("reader", readers())
def test_every_way_to_read_a_flag(reader: Side) -> None:
    assert is_ordered(RELEASE, reader) == reader.orders
    relaxed = attrs.evolve(RELEASE, access="atomic_store %flag, 1 {sem = relaxed}")
    assert not is_ordered(relaxed, reader)


@pytest.mark.parametrize("sem", SEMANTICS)
@pytest.mark.parametrize("swaps", [True, False])
def test_a_swap_that_fails_writes_nothing_and_releases_nothing(sem: str, swaps: bool) -> None:
    """The flag is set by a relaxed store, and swapped where it has the expected value."""
    access = "atomic_store %flag, 1 {sem = relaxed}\n  "
    access += f"%w = atomic_cas i32 %flag, {1 if swaps else 5}, 2 {{sem = {sem}}}"
    ordered = is_ordered(Side("", access, swaps), ACQUIRE, 2 if swaps else 1)
    assert ordered == (swaps and sem in RELEASES)


@pytest.mark.parametrize("lane", [0, 1])
def test_lanes_of_a_swap_that_fail_release_nothing(lane: int) -> None:
    """One op, of which lane 0 swaps and lane 1 does not."""
    access = """atomic_store %second, 1 {sem = relaxed}
  %i = make_range i32<2>
  %fs = splat i32*<2> %flag
  %p = getelementptr i32*<2> %fs, %i
  %expected = mul i32<2> %i, 5
  %w = atomic_cas i32<2> %p, %expected, 1 {sem = release}"""
    access = f"%second = getelementptr i32* %flag, i32 1\n  {access}"
    read = f"%at = getelementptr i32* %flag, i32 {lane}\n  "
    read += "%seen = atomic_load i32 %at {sem = acquire}"
    assert is_ordered(Side("", access, True), Side("", read, True)) == (lane == 0)
