"""Buffers that copies and MMAs in flight access, against all paths of generated programs."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.sizes import for_each
from tileir import Function
from tileir.analysis.shared_buffers import WGMMA_WAIT, alive
from tileir.backend.shared_memory.hazards import uses_of
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.op import Op
from tileir.textual import parse
from tileir.values import Value

HEAD = """tir 1.0
stage "pipelined"
define kernel void @k(f16* %x, i1 %c) {num_warps = 4} {
entry:
  %xs = splat f16*<64, 64> %x
  %sum = splat f32<64, 64> 0.0
"""
BUFFERS = ("b0", "b1", "b2", "b3")
BYTES = 64 * 64 * 2
PATHS = {
    "line": ("br one", "br two", "br three", "ret"),
    "branches": ("cond_br %c, one, two", "br three", "br three", "ret"),
    "loop": ("br one", "br two", "cond_br %c, one, three", "ret"),
    "two loops": ("br one", "cond_br %c, one, two", "cond_br %c, one, three", "ret"),
    "loop of two ways": ("br one", "cond_br %c, two, three", "br one", "cond_br %c, one, end"),
}
LABELS = ("entry", "one", "two", "three")


def program(seed: int) -> Function:
    """Copies, MMAs and waits for some of them, on a graph of five."""
    choose = random.Random(seed)
    text, number = HEAD, 0
    for name in BUFFERS:
        kind = "{shape = [1, 64, 64], swizzle = 3, panel = 64}"
        text += f"  %{name} = gpu.shared_alloc f16 addrspace(3)* {kind}\n"
    ends = PATHS[choose.choice(list(PATHS))]
    for label, end in zip(LABELS, ends, strict=True):
        text += "" if label == "entry" else f"{label}:\n"
        for _ in range(choose.randint(0, 4)):
            number += 1
            a, b = choose.choice(BUFFERS), choose.choice(BUFFERS)
            text += choose.choice(
                (
                    f"  gpu.async_copy %xs, %{a}, 0\n",
                    "  gpu.async_commit\n",
                    f"  gpu.async_wait {{pending = {choose.randint(0, 2)}}}\n",
                    f"  %z{number} = gpu.wgmma f32<64, 64> %{a}, 0, %{b}, 0, %sum\n",
                    f"  %z{number} = gpu.wgmma f32<64, 64> %{a}, 0, %{b}, 0, %sum\n",
                    f"  %z{number} = gpu.wgmma_wait f32<64, 64> %sum"
                    f" {{pending = {choose.randint(0, 3)}}}\n",
                )
            )
        text += f"  {end}\n"
    text += "end:\n  ret\n" if "end" in ends[-1] else ""
    return parse(text + "}\n").kernel()


def _paths(function: Function, label: str, seen: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The labels of every path that enters a block at most three times."""
    here = (*seen, label)
    following = [e.label for e in function.blocks[label].successors if here.count(e.label) < 3]
    if not function.blocks[label].successors or not following:
        yield here
    for name in following:
        yield from _paths(function, name, here)


def in_flight(function: Function) -> tuple[dict[Op, set[str]], dict[Op, set[str]]]:
    """By op, what copies before or after it and MMAs before it may access: groups are kept in the
    order of their ends, and a wait leaves the newest ones."""
    copying: dict[Op, set[str]] = {}
    multiplying: dict[Op, set[str]] = {}
    for labels in _paths(function, "entry"):
        begun: set[str] = set()
        copies: list[set[str]] = []
        mmas: list[set[str]] = []
        for op in (op for label in labels for op in function.blocks[label].ops):
            multiplying.setdefault(op, set()).update(*mmas)
            copying.setdefault(op, set()).update(begun, *copies)
            kept = getattr(op, "pending", 0)
            match op.mnemonic:
                case "gpu.async_copy":
                    begun |= _names(op)
                case "gpu.async_commit":
                    copies, begun = [*copies, begun], set()
                case "gpu.async_wait":
                    copies = copies[len(copies) - kept :] if kept < len(copies) else copies
                case "gpu.wgmma":
                    mmas = [*mmas, _names(op)]
                case "gpu.wgmma_wait":
                    mmas = mmas[len(mmas) - kept :] if kept < len(mmas) else mmas
                case _:
                    pass
            copying[op].update(begun, *copies)
    return copying, multiplying


def _names(op: Op) -> set[str]:
    """The names of the buffers that `op` accesses."""
    return {v.name or "" for v in op.inputs if isinstance(v, Value) and v.name in BUFFERS}


@for_each("seed", range(150))
def test_groups_are_in_flight_until_a_wait_for_them(seed: int) -> None:
    function = program(seed)
    copying, multiplying = in_flight(function)
    result = alive(function)
    for op in copying:
        assert {v.name for v in result.copying[op]} == copying[op]
        assert {v.name for v in result.multiplying[op]} == multiplying[op]


@for_each("seed", range(150))
def test_a_wait_ends_the_accesses_of_what_is_in_flight(seed: int) -> None:
    """All buffers of the copies or MMAs that may be in flight are accessed at the wait."""
    function = program(seed)
    copying, multiplying = in_flight(function)
    buffers = [op for op in function.ops if op.allocates_shared]
    offsets = {op: number * BYTES for number, op in enumerate(buffers)}
    plan = SharedMemoryPlan(offsets, dict.fromkeys(buffers, BYTES), BYTES * len(buffers))
    landing = uses_of(function, plan).landing
    for op in copying:
        if op.mnemonic in ("gpu.async_wait", WGMMA_WAIT):
            accessed = multiplying[op] if op.mnemonic == WGMMA_WAIT else copying[op]
            places = {BYTES * BUFFERS.index(name) for name in accessed}
            assert {(first, end) for first, end, _ in landing.get(op, ())} == {
                (place, place + BYTES) for place in places
            }
