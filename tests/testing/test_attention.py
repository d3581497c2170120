"""The order in which instances of causal attention come."""

import numpy as np
import pytest

from tileir.builder import I32, Builder, arg, pointer
from tileir.interp import interpret
from tileir.testing import attention


def order(blocks: int, heads: int, t: int, d: int) -> list[tuple[int, int]]:
    """Block and head of each instance, as they begin."""
    b = Builder()
    with b.kernel("order", found=arg(pointer(I32), noalias=True), t=I32) as (found, length):
        at = b.program_id(axis=1) * b.num_programs(axis=0) + b.program_id(axis=0)
        for place, value in enumerate(attention.in_turns(b, length, d)):
            (found + (at * 2 + place)).store(value)
    pairs = np.full(2 * blocks * heads, -1, np.int32)
    interpret(b.module(), "order", (blocks, heads), [pairs, t])
    return [(int(block), int(head)) for block, head in pairs.reshape(-1, 2)]


@pytest.mark.parametrize(
    ("blocks", "heads", "cached"), [(4, 6, 2), (3, 7, 3), (5, 4, 9), (1, 5, 2)]
)
def test_every_block_of_every_head_comes_once(monkeypatch, blocks, heads, cached):
    monkeypatch.setattr(attention, "_CACHED", cached * 8 * 16)
    found = order(blocks, heads, 8, 16)
    assert sorted(found) == [(b, h) for b in range(blocks) for h in range(heads)]


def test_heads_that_the_cache_holds_come_together_forth_and_back(monkeypatch):
    monkeypatch.setattr(attention, "_CACHED", 2 * 8 * 16)
    found = order(2, 5, 8, 16)
    assert found == [
        (0, 0), (0, 1), (1, 0), (1, 1),
        (1, 3), (1, 2), (0, 3), (0, 2),
        (0, 4), (1, 4),
    ]  # fmt: skip


def test_a_head_larger_than_the_cache_comes_alone(monkeypatch):
    monkeypatch.setattr(attention, "_CACHED", 1)
    assert [head for _, head in order(2, 3, 8, 16)] == [0, 0, 1, 1, 2, 2]
