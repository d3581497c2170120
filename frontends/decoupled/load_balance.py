"""Load balance of multiprocessors if program instances have unequal work: under a causal mask the
last block of rows iterates over all keys, the first one over one block of them.

A persistent block computes its instances in alternating order (pass `persist`). Other instances
start when one ends. In both cases the order of the grid decides how much work each multiprocessor
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from tileir.builder import Builder
from tileir.frontends.decoupled.cache_reuse import MANY, Order
from tileir.frontends.decoupled.causal_skip import bound
from tileir.frontends.decoupled.fusion import Group
from tileir.frontends.decoupled.grid import instances, levels, places
from tileir.frontends.decoupled.kernel import KernelState
from tileir.frontends.decoupled.loop_nest import stored_in
from tileir.frontends.decoupled.model import Func
from tileir.frontends.decoupled.nodes import Node
from tileir.frontends.decoupled.online_members import reductions_over
from tileir.frontends.decoupled.ranges import Range
from tileir.frontends.decoupled.schedule import MapLevel, Schedule

_ENDS = 1.5
"""The time of an instance before and after its steps, in units of one step."""

_Bare: TypeAlias = tuple[str, tuple[str, ...], Node]


@attrs.frozen
class Limit:
    """A pass over `label` needs the positions up to the last current one of `row`, or up to the one
    before with `strict`."""

    label: str
    row: str
    strict: bool


def limit_of(group: Group, sizes: Mapping[str, int]) -> Limit | None:
    """The limit of the online pass of a kernel; None if it iterates over all positions."""
    online = group.root.schedule.online
    if not online:
        return None
    stored = stored_in(group, sizes)
    funcs = tuple((f.name, f.labels, f.value) for f in group.funcs)
    result = (_limit(funcs, stored, label) for label in sorted(online))
    return next((limit for limit in result if limit is not None), None)


@lru_cache(maxsize=256)
def _limit(funcs: tuple[_Bare, ...], stored: frozenset[str], label: str) -> Limit | None:
    *members, root = (Func(*one) for one in funcs)
    k = KernelState(Builder(), Group(root, tuple(members)), {}, {}, {}, {}, stored)
    rows = {n: Range(0) for n in root.labels}
    passed = {k.key(*place): place for place in reductions_over(k, root.value, label, rows)}
    result = bound(k, list(passed.values()))
    row = next((n for n, place in rows.items() if result and place is result[0]), None)
    return Limit(label, row, result[1]) if result and row is not None else None


def steps_per_instance(
    limit: Limit, blocks: Mapping[str, int], tensors: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple[tuple[int, ...], int]:
    """The steps of instances by their block of rows, all tiles of it; and those of a pass that
    nothing ends. Tensor sizes of 0 are all of a block."""
    rows, positions = sizes[limit.row], sizes[limit.label]
    block = min(blocks.get(limit.row, rows), rows)
    tile = min(tensors.get(limit.row, 1) or block, block)
    step = min(tensors.get(limit.label, 1) or positions, positions)
    steps = _steps(rows, block, tile, positions, step, limit.strict)
    return steps, -(-block // tile) * -(-positions // step)


@lru_cache(maxsize=1024)
def _steps(
    rows: int, block: int, tile: int, positions: int, step: int, strict: bool
) -> tuple[int, ...]:
    starts = np.arange(0, rows, block)[:, None] + np.arange(0, block, tile)
    ends = np.minimum(starts + tile - strict, positions)
    return tuple(np.where(starts < rows, -(-ends // step), 0).sum(axis=1).tolist())


def most(order: Order, row: str, steps: tuple[int, ...], workers: int, to_and_fro: bool) -> float:
    """The largest load of any of `workers`, the resident blocks, relative to the mean of those that
    have work, if an instance of each block of `row` takes this number of `steps`."""
    if instances(order[0]) > MANY:
        return 1.0
    return _most(order, row, steps, workers, to_and_fro)


@lru_cache(maxsize=4096)
def _most(order: Order, row: str, steps: tuple[int, ...], workers: int, to_and_fro: bool) -> float:
    grid, reverse = order
    number = np.arange(instances(grid))
    each = np.asarray(steps)[places(grid, number, reverse).get(row, number * 0)] + _ENDS
    total = _to_and_fro(each, workers) if to_and_fro else _in_order(each, workers)
    return float(total.max() / (each.sum() / min(workers, len(each))))


def _to_and_fro(each: NDArray[Any], workers: int) -> NDArray[Any]:
    lap, at = np.divmod(np.arange(len(each)), workers)
    return np.bincount(np.where(lap % 2 == 1, workers - 1 - at, at), each, workers)


def _in_order(each: NDArray[Any], workers: int) -> NDArray[Any]:
    """The assignment of a wave of instances in order: each one goes to the first worker that is
    free."""
    total = np.zeros(min(workers, len(each)))
    for first in range(0, len(each), workers):
        wave = each[first : first + workers]
        total.sort()
        total[: len(wave)] += wave
    return total


@lru_cache(maxsize=1024)
def together(batches: int, steps: tuple[int, ...], workers: int, most_at_once: int) -> int:
    """The number of batches that should be interleaved, the last block of each before all earlier
    blocks, so that the load of persistent `workers` is most even; the smallest such number."""
    sizes = {"batch": batches, "row": len(steps)}

    def unevenness(many: int) -> float:
        order = (MapLevel("batch", "own", many), MapLevel("row"), MapLevel("own"))
        grid = levels(Schedule(dict.fromkeys(sizes, 1), order=order), sizes)
        return most((grid, frozenset(["row"])), "row", steps, workers, to_and_fro=True)

    return min(range(1, min(batches, most_at_once) + 1), key=unevenness)
