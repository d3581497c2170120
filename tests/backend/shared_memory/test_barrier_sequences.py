"""Barriers of ops in one block or several, against the barriers of each pair of ops.

Two ops need a barrier between them by what they are, whatever other ops are between them. The
barriers of a sequence therefore follow from those of its pairs."""

from __future__ import annotations

import functools
import random

import pytest

from tests.backend.shared_memory.barrier_cases import barriers_of
from tests.sizes import for_each
from tileir.backend.shared_memory import hazards

LINES = {
    "store": "store %p, %v",
    "load": "%{} = load f32<64, #a> %p",
    "reversed load": "%{} = load f32<64, #a> %q",
    "store of a thread": "store %x, 1.0",
    "load of a thread": "%{} = load f32 %x",
    "load of a row": "%{} = load f32<2, 32, #r> %pr",
    "reversed store of a row": "store %qr, %vr",
    "other array": "%{} = load f32<64, #a> %yp",
    "fence": "fence {{sem = acq_rel}}",
    "relaxed": "atomic_store %flag, 1 {{sem = relaxed}}",
    "release": "atomic_store %flag, 1 {{sem = release}}",
    "acquire": "%{} = atomic_load i32 %flag {{sem = acquire}}",
    "conversion": "%{} = gpu.convert_layout f32<2, 32, #z> %vr {{layout = #z, shared = [0, 256]}}",
    "conversion within warps": "%{} = gpu.convert_layout f32<8, 64, #w> %vg"
    " {{layout = #w, shared = [256, 2048]}}",
    "other bytes": "%{} = gpu.convert_layout f32<2, 32, #z> %vr"
    " {{layout = #z, shared = [4096, 256]}}",
}
CONVERSIONS = {
    "conversion": "block", "other bytes": "block", "conversion within warps": "warp",
}  # fmt: skip
"""Ops that are barriers themselves."""
AFTER = """  gpu.barrier
  store %p, %v
  gpu.barrier
  atomic_store %flag, 1 {sem = release}
"""
"""Accesses after a barrier: the pass omits what no other access of the function can conflict with,
so a pair is examined in a function that also writes and releases."""


def body(names: list[str], blocks: bool) -> str:
    """The ops, with `blocks` each in a block of its own."""
    end = "  br b{0}\nb{0}:\n" if blocks else ""
    lines = (f"  {LINES[n].format(f'r{i}')}\n{end.format(i)}" for i, n in enumerate(names))
    return "".join(lines) + AFTER


def barriers(names: list[str], blocks: bool = False) -> dict[int, str]:
    """The op before which a barrier is, by its number, and the kind of the barrier."""
    before = next(at for _, at in barriers_of(AFTER))
    marks = [(kind, (at - before) // (1 + blocks)) for kind, at in barriers_of(body(names, blocks))]
    return {at: kind for kind, at in marks if at < len(names)}


@functools.cache
def between(first: str, second: str) -> str | None:
    """The barrier between two ops."""
    return barriers([first, second]).get(1)


def required_barriers(names: list[str]) -> dict[int, str]:
    """The barriers that the pairs of `names` need. An op that converts through shared memory is a
    barrier itself."""
    needed: dict[int, str] = {}
    waited_block = waited_warp = 0
    for at, name in enumerate(names):
        kinds = [
            kind
            for i in range(waited_block, at)
            if (kind := between(names[i], name)) == "block" or (kind and i >= waited_warp)
        ]
        if kinds:
            needed[at] = "block" if "block" in kinds else "warp"
            waited_warp = at
            waited_block = at if needed[at] == "block" else waited_block
        if name in CONVERSIONS:
            waited_warp = at
            waited_block = at if CONVERSIONS[name] == "block" else waited_block
    return needed


@for_each("seed", range(40))
def test_pairs_of_ops_decide(seed: int) -> None:
    names = random.Random(seed).choices(list(LINES), k=6)
    for blocks in (False, True):
        assert barriers(names, blocks) == required_barriers(names), names


@for_each("most", (1, 2))
@for_each("seed", range(20))
def test_every_pair_is_separated_where_few_accesses_are_kept(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond that number, what is known is that a parameter was accessed: more barriers, but none
    too few."""
    names = random.Random(seed).choices(list(LINES), k=7)
    needed = {
        (i, j): kind
        for j in range(len(names))
        for i in range(j)
        if (kind := between(names[i], names[j]))
    }
    with monkeypatch.context() as patch:
        patch.setattr(hazards, "_MOST_KEPT", most)
        placed = barriers(names)
    for (i, j), kind in needed.items():
        within = [placed[k] for k in range(i + 1, j + 1) if k in placed]
        within += [CONVERSIONS[n] for n in names[i + 1 : j] if n in CONVERSIONS]
        assert within if kind == "warp" else "block" in within, (names, i, j)


@for_each("seed", range(40))
def test_barriers_of_the_program_are_those_of_warps_or_of_the_block(seed: int) -> None:
    """What needs a barrier of the block needs it after one of the warps, too."""
    names = random.Random(seed).choices(list(LINES), k=2)
    for own, line in (("warp", "gpu.barrier {warp = true}"), ("block", "gpu.barrier")):
        lines = [LINES[n].format(f"r{i}") for i, n in enumerate(names)]
        kinds = [kind for kind, _ in barriers_of(f"  {lines[0]}\n  {line}\n  {lines[1]}\n{AFTER}")]
        needs_more = own == "warp" and between(*names) == "block"
        assert kinds[:-2] == [own, *(["block"] if needs_more else [])], names


@for_each("name", LINES)
@for_each("order", ("fence", "relaxed", "release", "acquire"))
def test_what_orders_others_does_so_where_the_function_does_nothing_else(
    name: str, order: str
) -> None:
    """For instance where all threads load, or load after one has acquired, and none writes."""
    if name == order == "fence":
        return  # there is nothing to order
    for pair in ((name, order), (order, name)):
        text = "".join(f"  {LINES[n].format(f'r{i}')}\n" for i, n in enumerate(pair))
        kinds = [kind for kind, _ in barriers_of(text)]
        assert kinds == [kind for kind in (between(*pair),) if kind], pair


def test_pairs_need_barriers_of_both_kinds() -> None:
    kinds = [between(first, second) for first in LINES for second in LINES]
    assert kinds.count("block") > 20 and "warp" in kinds and kinds.count(None) > 20
