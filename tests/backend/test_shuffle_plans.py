"""Plans of shuffles, carried out on the numbers of elements: every register of the target gets the
element that its layout says, whatever the two layouts are."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.sizes import few_or_all
from tileir.backend.layouts.warp_shuffles import LANE_BITS, ShufflePlan, Swap, exchange
from tileir.layout import Layout, layout
from tileir.layout_algebra import flat_columns
from tileir.layout_bits import apply

LANES = 1 << LANE_BITS


def elements(it: Layout) -> np.ndarray:
    """The element that each register of each lane of each warp holds, as a number."""
    columns = [list(flat_columns(it, (axis,))) for axis in ("warp", "lane", "register")]
    values = [np.array([apply(c, i) for i in range(1 << len(c))], int) for c in columns]
    return values[0][:, None, None] ^ values[1][:, None] ^ values[2]


def apply_swaps(words: np.ndarray, swaps: tuple[Swap, ...]) -> np.ndarray:
    """`words` by lane and number, after the exchanges."""
    for swap in swaps:
        odd = np.array([(lane & swap.lanes).bit_count() % 2 for lane in range(LANES)], bool)
        moved = words[:, np.arange(words.shape[1]) ^ swap.registers]
        words = np.where(odd[:, None, None], moved, words)
    return words


def carried_out(plan: ShufflePlan, elements: np.ndarray, registers: int) -> np.ndarray:
    """What the registers of one warp hold after the shuffles; -1 is nothing."""
    words = apply_swaps(
        np.stack([elements[:, list(part)] for part in plan.source], axis=1), plan.before
    )
    lane = np.array([apply(plan.lanes, i) for i in range(LANES)])
    steps = [words[lane ^ mask, word] for word, mask in zip(plan.words, plan.masks, strict=True)]
    received = apply_swaps(np.stack(steps, axis=1), plan.after)
    result = np.full((LANES, registers), -1)
    for number, part in enumerate(plan.target):
        result[:, list(part)] = received[:, number]
    return result


def random_layouts(chance: random.Random) -> tuple[Layout, Layout]:
    """Two layouts of one tile in up to 8 warps. Registers, lanes and warps may repeat elements, and
    move by sums of units; warps of the two may differ."""
    warps, registers = chance.randrange(4), chance.randrange(5)
    units = [1 << i for i in range(warps + LANE_BITS + registers)]
    return one(chance, units, warps), one(chance, units, warps)


def one(chance: random.Random, units: list[int], warps: int) -> Layout:
    """A layout of these units, whose warps move by the last ones mostly."""
    first, last = units[: len(units) - warps], units[len(units) - warps :]
    if chance.random() < 0.9:
        chance.shuffle(first)
    if chance.random() < 0.1:
        chance.shuffle(last)
    bits = [*first, *last]
    if chance.random() < 0.05:
        chance.shuffle(bits)
    lanes, registers, warp = bits[:LANE_BITS], bits[LANE_BITS : len(first)], bits[len(first) :]
    for i in range(chance.choice((0, 0, 1, 2))):  # lanes hold what their registers hold, too
        registers.append(lanes[i])
        lanes[i] = chance.choice((0, registers[0], lanes[-1]))
    if chance.random() < 0.2:  # registers that repeat others
        registers.append(chance.choice((0, registers[0] if registers else 0)))
    for i in range(1, len(registers)):
        if chance.random() < 0.3:
            registers[i] ^= registers[i - 1]
    for i in range(1, LANE_BITS):
        if chance.random() < 0.1:
            lanes[i] ^= lanes[i - 1]
    columns = (tuple((x,) for x in part) for part in (registers, lanes, warp))
    return layout(1, *columns)


@pytest.mark.parametrize("count", few_or_all(600, 2000))
def test_every_register_gets_its_element(count: int) -> None:
    for seed in range(count):
        chance = random.Random(seed)
        source, target = random_layouts(chance)
        most = chance.choice((1, 2, 4))
        plan = exchange(source, target, most)
        if plan is None:
            continue
        assert plan.packed <= most, seed
        before, after = elements(source), elements(target)
        for fragment, expected in zip(before, after, strict=True):
            actual = carried_out(plan, fragment, expected.shape[1])
            np.testing.assert_array_equal(actual, expected, err_msg=f"seed {seed}")


def test_many_of_the_layouts_drawn_have_a_plan() -> None:
    plans = [exchange(*random_layouts(random.Random(seed))) for seed in range(300)]
    existing = [plan for plan in plans if plan is not None]
    assert len(existing) > 100
    assert any(plan.before for plan in existing) and any(plan.after for plan in existing)
    assert any(plan.moves_lanes for plan in existing)
