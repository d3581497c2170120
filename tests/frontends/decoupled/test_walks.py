"""Positions of a dimension: each once, within the tensor, between the first and the last."""

from __future__ import annotations

import random
from itertools import product

import numpy as np

from tests.sizes import for_each
from tileir import interpret
from tileir.builder import I32, Builder, Expr, arg, pointer
from tileir.frontends.decoupled.grid import instances, levels, places
from tileir.frontends.decoupled.ranges import DimensionWalk, Range, positions
from tileir.frontends.decoupled.schedule import MapLevel, Schedule
from tileir.ir import Module


def drawn_walk(choose: random.Random) -> tuple[DimensionWalk, int]:
    """A walk over blocks of a dimension, and the number of blocks. Tiles need not divide blocks,
    which need not divide the dimension."""
    block = choose.choice((1, 2, 4, 6, 8, 12))
    blocks = choose.randint(1, 3)
    size = block * blocks - choose.choice((0, 0, choose.randint(0, block - 1)))
    tensor = choose.choice([n for n in (0, 1, 2, 4, 5, 8, 16) if n <= 2 * block])
    end = choose.choice((None, None, choose.randint(0, size)))
    return DimensionWalk(size, block, tensor, 0, end), blocks


@for_each(
    ("block", "tensor", "step", "extent", "whole"),
    [
        (8, 1, 1, 0, False), (8, 2, 2, 2, False), (8, 8, 8, 8, True), (8, 0, 8, 8, True),
        (8, 16, 8, 8, True), (1, 1, 1, 0, True), (1, 0, 1, 0, True), (1, 4, 1, 0, True),
    ],
)  # fmt: skip
def test_tiles_have_an_extent_and_single_positions_none(
    block: int, tensor: int, step: int, extent: int, whole: bool
) -> None:
    walk = DimensionWalk(8, block, tensor)
    assert (walk.step, walk.extent, walk.whole) == (step, extent, whole)


def count(b: Builder, place: Range, visits: Expr, right: Expr) -> None:
    """Count the positions of `place` that take part, and those between its first and last one,
    which are positions of the tile."""
    index = b.arange(1) + place.index if place.extent == 0 else place.index
    assert isinstance(index, Expr)
    mask = index == index if place.mask is None else place.mask
    at = visits + index
    at.store(at.load(mask, 0) + 1, mask)
    first, last = place.first, place.last
    inside = (index >= first) & (index <= last) & (index.min() == first) & (index.max() == last)
    (right + index).store(inside.to(I32), mask)


def counting_kernel(walk: DimensionWalk, blocks: int) -> Module:
    b = Builder()
    with b.kernel("k", visits=arg(pointer(I32)), right=arg(pointer(I32))) as (visits, right):
        start: Expr | int = b.program_id(axis=0) * walk.block if blocks > 1 else 0
        moved = DimensionWalk(walk.size, walk.block, walk.tensor, start, walk.end)
        with positions(b, moved, None) as place:
            count(b, place, visits, right)
    return b.module()


@for_each("seed", range(80))
def test_each_position_is_visited_once(seed: int) -> None:
    """Those from `end` on at most once."""
    walk, blocks = drawn_walk(random.Random(seed))
    visits, right = (np.zeros(walk.size, np.int32) for _ in range(2))
    interpret(counting_kernel(walk, blocks), "k", (blocks,), {"visits": visits, "right": right})
    end = walk.size if walk.end is None else walk.end
    assert (visits[:end] == 1).all() and (visits[end:] <= 1).all(), walk
    assert right.tolist() == visits.tolist(), walk
    if walk.step < walk.block and blocks == 1:
        assert not visits[-(-end // walk.step) * walk.step :].any(), walk


def drawn_grid(choose: random.Random) -> tuple[Schedule, dict[str, int]]:
    """Blocks of dimensions, some of them larger than the dimension, and an order of some."""
    sizes = {n: choose.randint(1, 9) for n in "hmn"}
    blocks = {n: choose.choice((1, 2, 3, 16)) for n in choose.sample("hmn", 3)}
    order: list[MapLevel] = []
    for label in choose.sample("hmn", choose.randint(0, 3)):
        if choose.random() < 0.5:
            order.append(MapLevel(label, label + "i", choose.randint(1, 4)))
            order.insert(choose.randint(len(order), len(order)), MapLevel(label + "i"))
        else:
            order.append(MapLevel(label))
    return Schedule(blocks, order=tuple(order)), sizes


@for_each("seed", range(60))
def test_instances_are_the_blocks_of_a_grid(seed: int) -> None:
    """Every combination of blocks once, computed in a kernel as for an array; dimensions that `map`
    does not name are outermost, the last one of `block` first."""
    choose = random.Random(seed)
    schedule, sizes = drawn_grid(choose)
    grid = levels(schedule, sizes)
    reverse = choose.sample("hmn", choose.randint(0, 2))
    counts = {n: -(-sizes[n] // block) for n, block in schedule.blocks.items()}
    total = instances(grid)
    indices = places(grid, np.arange(total), reverse)
    rows = np.array([np.broadcast_to(indices.get(n, 0), total) for n in counts])
    expected = sorted(product(*map(range, counts.values())))
    assert sorted(map(tuple, rows.T.tolist())) == expected
    outer = [n for n in reversed(counts) if n not in {split.label for split in schedule.order}]
    order = [rows[list(counts).index(n)] for n in outer]
    turned = [
        counts[n] - 1 - row if n in reverse else row for n, row in zip(outer, order, strict=True)
    ]
    keys = list(zip(*turned, strict=True))
    assert keys == sorted(keys)

    b = Builder()
    with b.kernel("k", out=arg(pointer(I32))) as (out,):
        number = b.program_id(axis=0)
        in_kernel = places(grid, number, reverse)
        for i, label in enumerate(counts):
            (out + number * 3 + i).store(in_kernel.get(label, 0))
    values = np.zeros((total, 3), np.int32)
    interpret(b.module(), "k", (total,), {"out": values})
    assert values.T.tolist() == rows.tolist()
