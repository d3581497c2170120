"""Launch grids: which block each program instance computes, in the order that `map` says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import backend
from tileir.builder import F16
from tileir.frontends.decoupled import parse
from tileir.frontends.decoupled.grid import instances, levels, places
from tileir.frontends.decoupled.schedule import MapLevel, Schedule
from tileir.frontends.decoupled.tensors import row_major

from . import definitions as d


def blocks_in_order(schedule: Schedule, counts: dict[str, int]) -> Iterator[dict[str, int]]:
    """The blocks of dimensions as loops come to them, those that split a dimension ending where
    it does."""

    def visit(order: tuple[MapLevel, ...], at: dict[str, int]) -> Iterator[dict[str, int]]:
        if not order:
            indices = join_dimensions(schedule.order, at)
            if all(indices[n] < counts[n] for n in counts):
                yield indices
            return
        split, *rest = order
        split_factor = {s.inner: s.factor for s in schedule.order}.get(split.label)
        total = split_factor or counts[split.label]
        for place in range(-(-total // split.factor)):
            yield from visit(tuple(rest), {**at, split.label: place})

    yield from visit(schedule.order, {})


def join_dimensions(order: tuple[MapLevel, ...], at: dict[str, int]) -> dict[str, int]:
    """Dimensions put together, the innermost splits first."""
    indices = dict(at)
    for split in reversed(order):
        if split.inner:
            inner = indices.pop(split.inner)
            indices[split.label] = indices[split.label] * split.factor + inner
            if inner >= split.factor:
                indices[split.label] = 1 << 30
    return indices


def random_grid(rng: random.Random) -> tuple[Schedule, dict[str, int]]:
    counts = {n: rng.randint(1, 7) for n in "hmn"}
    order: list[MapLevel] = []
    pending = list("hmn")
    while pending:
        label = pending.pop(rng.randrange(len(pending)))
        if rng.random() < 0.5 and len(label) < 3:
            inner = label + "i"
            order.append(MapLevel(label, inner, rng.randint(1, 5)))
            pending.append(inner)
        else:
            order.append(MapLevel(label))
    return Schedule(dict.fromkeys("hmn", 1), order=tuple(order)), counts


@for_each("seed", range(60))
def test_instances_are_counted_as_loops_come_to_them(seed: int) -> None:
    """Groups that a split factor does not divide included: the last one is smaller."""
    schedule, counts = random_grid(random.Random(seed))
    grid = levels(schedule, counts)
    expected = list(blocks_in_order(schedule, counts))
    assert instances(grid) == len(expected)

    indices = places(grid, np.arange(instances(grid)))
    for label, count in counts.items():
        block = np.broadcast_to(indices.get(label, 0), len(expected))
        assert block.tolist() == [at[label] for at in expected], (label, count)
        (last,) = np.broadcast_to(places(grid, np.arange(1), {label}).get(label, 0), 1)
        assert last == count - 1 - expected[0][label]


def half(*shape: int) -> Any:
    return row_major(F16, shape)


def test_a_smaller_last_group_has_roles_and_no_instance_too_many() -> None:
    bare = parse(d.MATMUL).without_schedule().with_schedule("matmul.compile();")
    schedule = """matmul.block(m:128, n:128); matmul.tensorize(m:0, n:0, k:64);
        matmul.map(n:ni/8, m, ni); matmul.num_warps(8); matmul.num_stages(4);"""
    plan = (
        bare.with_schedule(schedule)
        .function()
        .plan(half(2048, 512), half(512, 11 * 128), types={"matmul": "float16"})
    )
    (launch,) = plan.launches
    assert launch.instances == 16 * 11
    done = backend.compile(plan.module, "sm_90a", None, launch.kernel)
    (host,) = done.metadata.host_plan
    assert '"persistent"' in host.value and not done.metadata.spills


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt"])
def test_a_smaller_last_group_computes_what_others_do(on: str) -> None:
    """With roles on sm_90a."""
    schedule = """matmul.compile(); matmul.block(m:64, n:64); matmul.tensorize(m:0, n:0, k:32);
        matmul.map(n:ni/2, m, ni); matmul.reverse(m); matmul.num_warps(4);"""
    function = parse(d.MATMUL).without_schedule().with_schedule(schedule).function()
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float16) for shape in ((128, 64), (64, 192))]
    options = {"target": "sm_90a"} if on == "simt" else {}
    result = function(*inputs, on=on, options=options)
    np.testing.assert_allclose(result, function.reference(*inputs), rtol=1e-3, atol=1e-3)
