"""The order in which instances of causal attention come."""

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.interp import interpret
from tileir.testing import attention


def order(
    blocks: int, heads: int, t: int, d: int, together: int | None = None
) -> list[tuple[int, int]]:
    """Block and head of each instance, as they begin."""
    b = Builder()
    data = arg(pointer(I32), noalias=True)
    with b.kernel("order", out=data, t=I32, many=I32) as (out, length, many):
        stated = None if together is None else many
        at = b.program_id(axis=1) * b.num_programs(axis=0) + b.program_id(axis=0)
        for place, value in enumerate(attention.serpentine_order(b, length, d, stated)):
            (out + (at * 2 + place)).store(value)
    pairs = np.full(2 * blocks * heads, -1, np.int32)
    interpret(b.module(), "order", (blocks, heads), [pairs, t, together or 0])
    return [(int(block), int(head)) for block, head in pairs.reshape(-1, 2)]


@pytest.mark.parametrize(
    ("blocks", "heads", "cached"), [(4, 6, 2), (3, 7, 3), (5, 4, 9), (1, 5, 2)]
)
def test_every_block_of_every_head_comes_once(monkeypatch, blocks, heads, cached):
    monkeypatch.setattr(attention, "_CACHED", cached * 8 * 16)
    visited = order(blocks, heads, 8, 16)
    assert sorted(visited) == [(b, h) for b in range(blocks) for h in range(heads)]


def test_heads_that_the_cache_holds_come_together_forth_and_back(monkeypatch):
    monkeypatch.setattr(attention, "_CACHED", 2 * 8 * 16)
    visited = order(2, 5, 8, 16)
    assert visited == [
        (0, 0), (0, 1), (1, 0), (1, 1),
        (1, 3), (1, 2), (0, 3), (0, 2),
        (0, 4), (1, 4),
    ]  # fmt: skip


def test_a_head_larger_than_the_cache_comes_alone(monkeypatch):
    monkeypatch.setattr(attention, "_CACHED", 1)
    assert [head for _, head in order(2, 3, 8, 16)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("together", [1, 2, 3, 7, 9])
def test_heads_that_are_told_to_come_together(together):
    visited = order(3, 7, 8, 16, together)
    assert sorted(visited) == [(b, h) for b in range(3) for h in range(7)]
    assert {head for _, head in visited[: 3 * together]} == set(range(min(together, 7)))


def most_of_a_processor(blocks: int, heads: int, together: int, processors: int) -> float:
    """What the busiest of some has to do in terms of the mean, taking instances to and fro."""
    work = [0.0] * processors
    for number, (block, _) in enumerate(order(blocks, heads, 8, 16, together)):
        lap, at = divmod(number, processors)
        work[processors - 1 - at if lap % 2 else at] += blocks - block + 1.5
    return max(work) * processors / sum(work)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("t", "heads"), [(512, 24), (640, 13), (2048, 12)])
def test_how_many_come_together_is_counted_out(t, heads):
    """No number of heads is much more even than the one that is taken."""
    blocks, processors = t // 128, 14
    chosen_count = attention.heads_together(t, 64, 128, heads, processors)
    by_count = {n: most_of_a_processor(blocks, heads, n, processors) for n in range(1, heads + 1)}
    assert by_count[chosen_count] <= min(by_count.values()) + 0.05
    assert max(by_count.values()) > by_count[chosen_count] + 0.1, "any number would do"


def test_few_heads_come_together_where_all_are_as_even():
    """Keys and values of 512 are read once, by blocks that run concurrently."""
    assert attention.heads_together(512, 128, 128, 512) == 2
    assert attention.heads_together(1, 64, 128, 1) == 1


@for_each(
    ("t", "heads", "together"),
    [
        (512, 64, 1),
        (2048, 64, 2),
        (8192, 64, 8),
        (16384, 64, 4),
        (16384, 3, 3),
        (1, 1, 1),
        (0, 1, 1),
        (1 << 20, 64, 1),
    ],
)
def test_heads_that_are_not_causal_come_together_where_they_have_many_blocks(t, heads, together):
    """As many as the cache holds, of those of which at most 8 blocks run concurrently."""
    assert attention.heads_together(t, 128, 128, heads, causal=False) == together


@pytest.mark.parametrize(("t", "slack"), [(45, 0.0), (64, 8.0), (200, 8.0)])
def test_column_totals_by_heads_are_those_of_rows(t, slack):
    """Scores that grow along a row raise its bound in every block of keys."""
    random = np.random.default_rng(t)
    q, k, v = (random.standard_normal((1, t, 16)).astype(np.float32) for _ in range(3))
    k *= np.linspace(0, 20, t)[None, :, None].astype(np.float32)
    actual, totals = np.full_like(q, np.nan), np.full((1, 256), np.nan, np.float32)
    module = attention.attention(32, 24, 16, F32, save_lse=True, slack=slack)
    interpret(module, None, (-(-t // 32), 1), [q, k, v, actual, t, np.float32(1.0), totals])
    scores = (q[0].astype(np.float64) @ k[0].T) * np.log(2)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    total = weights.sum(axis=1)
    np.testing.assert_allclose(actual[0], weights @ v[0] / total[:, None], rtol=2e-4, atol=2e-4)
    expected = (np.log(total) + scores.max(axis=1)) / np.log(2)
    np.testing.assert_allclose(totals[0, :t], expected, rtol=1e-5)
