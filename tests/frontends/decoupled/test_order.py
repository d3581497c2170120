"""Orders of grids whose instances have unequal work: how evenly it falls to processors, what is
read again, and which order of causal attention is chosen."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.sizes import for_each
from tileir.builder import F16
from tileir.frontends.decoupled import Tensor, parse
from tileir.frontends.decoupled.autoschedule import autoschedule, estimate_seconds
from tileir.frontends.decoupled.cache_reuse import Touched, reread_bytes
from tileir.frontends.decoupled.fusion import group
from tileir.frontends.decoupled.grid import levels
from tileir.frontends.decoupled.load_balance import (
    Limit,
    limit_of,
    most,
    steps_per_instance,
    together,
)
from tileir.frontends.decoupled.schedule import MapLevel, Schedule
from tileir.frontends.decoupled.shorthand import expand
from tileir.frontends.decoupled.tensors import row_major

SCORE = "rdot(Q[h, m, k], K[h, k, l], k) * 0.1275"
SOURCE = """Func attention, s, top, p, total; In Q, K, V; Var h, m, n; RVar k, l;
    s[h, m, l] = SCORE;
    top[h, m] = rmax(s[h, m, l], l);
    p[h, m, l] = exp2(s[h, m, l] - reshape(top[h, m], h, m, 1));
    total[h, m] = rsum(p[h, m, l], l);
    attention[h, m, n] = rdot(p[h, m, l], V[h, l, n], l) * reshape(1 / total[h, m], h, m, 1);
    attention.compile();"""
FUSED = "s @ p.l; top @ attention.m; p @ attention.l; total @ attention.m; "
TILES = "attention = h:1 m:128/0 n:/0 k:/0 l:/128 online(l) w8 s2 "


MASKED = f"where(l <= reshape(m, m, 1), {SCORE}, -inf)"


def masked_attention(condition: str) -> Any:
    return parse(SOURCE.replace("SCORE", f"where({condition}, {SCORE}, -inf)"))


CAUSAL = masked_attention("l <= reshape(m, m, 1)")


def tensors(heads: int, positions: int) -> list[Tensor]:
    width = 128
    query = row_major(F16, (heads, positions, width))
    key = Tensor(F16, (heads, width, positions), (positions * width, 1, width))
    return [query, key, query]


# What is unequal ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "strict"),
    [
        ("l <= reshape(m, m, 1)", False),
        ("l < reshape(m, m, 1)", True),
        ("reshape(m, m, 1) >= l", False),
        ("l >= reshape(m, m, 1)", None),
        ("l <= reshape(m, m, 1) + 1", None),
    ],
)
def test_passes_end_where_a_mask_hides_the_rest(condition: str, strict: bool | None) -> None:
    definitions = masked_attention(condition).with_schedule(expand(FUSED + TILES)).definitions
    sizes = {"h": 2, "m": 512, "n": 128, "k": 128, "l": 512}
    expected = None if strict is None else Limit("l", "m", strict)
    assert limit_of(group(definitions, "attention"), sizes) == expected


def test_what_the_kernel_adds_at_all_positions_ends_nothing() -> None:
    """A matmul that no mask hides, in the Func that the kernel writes."""
    sizes = {"h": 2, "m": 512, "n": 128, "k": 128, "l": 512}
    for more, expected in (
        ("rdot(p[h, m, l], V[h, l, n], l)", Limit("l", "m", False)),
        ("rdot(W[h, m, l], V[h, l, n], l)", None),
    ):
        source = SOURCE.replace("In Q", "In W, Q").replace("SCORE", MASKED)
        program = parse(source.replace("attention[h, m, n] =", f"attention[h, m, n] = {more} +"))
        definitions = program.with_schedule(expand(FUSED + TILES)).definitions
        assert limit_of(group(definitions, "attention"), sizes) == expected


def test_a_pass_that_goes_to_its_end_leaves_the_limit_of_another() -> None:
    sizes = {"h": 2, "m": 512, "n": 128, "k": 128, "l": 512}
    definitions = CAUSAL.with_schedule(expand(FUSED + TILES + " online(k)")).definitions
    assert limit_of(group(definitions, "attention"), sizes) == Limit("l", "m", False)


def test_nothing_ends_without_an_online_pass() -> None:
    definitions = CAUSAL.with_schedule(expand(FUSED + TILES.replace("online(l)", ""))).definitions
    sizes = {"h": 2, "m": 512, "n": 128, "k": 128, "l": 512}
    assert limit_of(group(definitions, "attention"), sizes) is None


@for_each("strict", [False, True])
@for_each(("rows", "positions"), [(300, 300), (256, 1000), (1000, 256)])
@for_each(("block", "tile"), [(64, 64), (128, 32), (1000, 100)])
def test_steps_are_those_of_the_loops(
    rows: int, positions: int, block: int, tile: int, strict: bool
) -> None:
    sizes, step = {"m": rows, "l": positions}, 32
    per_instance, full = steps_per_instance(
        Limit("l", "m", strict), {"m": block}, {"m": tile, "l": step}, sizes
    )
    block = min(block, rows)
    for number, steps in enumerate(per_instance):
        expected = 0
        for start in range(number * block, min((number + 1) * block, rows), tile):
            end = min(start + tile - strict, positions)
            expected += len(range(0, end, step))
        assert steps == expected <= full
    assert len(per_instance) == -(-rows // block)


# How evenly it falls ------------------------------------------------------------------------------


def order_of(heads: int, blocks: int, *splits: MapLevel) -> Any:
    grid = levels(Schedule({"h": 1, "m": 1}, order=splits), {"h": heads, "m": blocks})
    return grid, frozenset("m")


@pytest.mark.parametrize(("heads", "blocks", "count"), [(3, 5, 4), (16, 64, 132), (2, 3, 7)])
def test_blocks_take_instances_to_and_fro(heads: int, blocks: int, count: int) -> None:
    """As the loop of pass `persist` counts."""
    order, steps = (
        order_of(heads, blocks, MapLevel("h"), MapLevel("m")),
        tuple(range(1, blocks + 1)),
    )
    work = [steps[blocks - 1 - n % blocks] + 1.5 for n in range(heads * blocks)]
    total = []
    for block in range(count):
        instance, step, mine = block, 2 * count - 2 * block - 1, 0.0
        while instance < len(work):
            mine += work[instance]
            instance, step = instance + step, 2 * count - step
        total.append(mine)
    mean = sum(work) / min(count, len(work))
    assert most(order, "m", steps, count, to_and_fro=True) == pytest.approx(max(total) / mean)


def test_others_go_to_whoever_is_done() -> None:
    order, steps = order_of(1, 4, MapLevel("m"), MapLevel("h")), (1, 2, 3, 4)
    assert most(order, "m", steps, 2, to_and_fro=False) == pytest.approx(8.0 / 8.0)
    assert most(order, "m", steps, 3, to_and_fro=False) == pytest.approx(6.0 / (16 / 3))
    assert most(order, "m", steps, 9, to_and_fro=False) == pytest.approx(5.5 / 4)


def test_as_many_heads_together_as_make_it_even() -> None:
    steps = tuple(range(1, 17))
    heads = together(64, steps, 132, 64)
    orders = {
        n: order_of(64, 16, MapLevel("h", "hi", n), MapLevel("m"), MapLevel("hi"))
        for n in (8, heads)
    }
    uneven = {n: most(one, "m", steps, 132, to_and_fro=True) for n, one in orders.items()}
    assert uneven[heads] < 1.01 < 1.5 < uneven[8]


def test_orders_of_very_many_instances_are_not_gone_through() -> None:
    """More than 16384."""
    steps = tuple(range(1, 129))
    for heads, uneven in ((128, True), (129, False)):
        order = order_of(heads, 128, MapLevel("h"), MapLevel("m"))
        assert (most(order, "m", steps, 131, to_and_fro=False) > 1) == uneven


@for_each(("heads", "rows", "workers", "bound"), [
    (6, 4, 5, 64), (6, 4, 24, 64), (12, 5, 7, 4), (5, 16, 40, 5), (7, 3, 21, 64), (3, 2, 6, 2),
])  # fmt: skip
def test_no_other_number_of_heads_together_is_more_even(
    heads: int, rows: int, workers: int, bound: int
) -> None:
    """The smallest of those that are as even, up to all heads, or to the bound."""
    steps = tuple(range(1, rows + 1))
    uneven = {}
    for n in range(1, min(heads, bound) + 1):
        order = order_of(heads, rows, MapLevel("h", "hi", n), MapLevel("m"), MapLevel("hi"))
        uneven[n] = most(order, "m", steps, workers, to_and_fro=True)
    least = min(uneven.values())
    assert together(heads, steps, workers, bound) == next(n for n in uneven if uneven[n] == least)


# What is read again -------------------------------------------------------------------------------


def test_what_others_displaced_is_reread() -> None:
    keys, results = Touched(("h",), 100.0), Touched(("h", "m"), 10.0)
    rows_first = order_of(6, 4, MapLevel("m"), MapLevel("h"))
    heads_first = order_of(6, 4, MapLevel("h"), MapLevel("m"))
    for at_once in (1, 2, 3):
        passed_between = 6 * 110.0
        assert reread_bytes(heads_first, (keys, results), at_once, 400.0) == 0
        assert reread_bytes(rows_first, (keys, results), at_once, passed_between) == 0
        reread = reread_bytes(rows_first, (keys, results), at_once, passed_between - 1)
        assert reread == 3 * 6 * 100.0


def test_what_runs_at_once_reads_once() -> None:
    order = order_of(6, 4, MapLevel("m"), MapLevel("h"))
    assert reread_bytes(order, (Touched(("h",), 100.0),), 24, 0.0) == 0


# What is chosen -----------------------------------------------------------------------------------

MEASURED = {
    (256, 512): {"h, m": 52.7, "h:hi/2, m, hi": 52.9, "m, h": 67.2},
    (64, 2048): {"h, m": 133.0, "m, h": 146.1},
    (16, 8192): {"h, m": 629.6, "h:hi/4, m, hi": 698.0, "m, h": 434.8},
}
"""Microseconds of causal attention on an H200, by heads, positions and order."""


@pytest.mark.parametrize("sizes", MEASURED)
def test_estimates_of_orders_are_to_each_other_as_times_are(sizes: tuple[int, int]) -> None:
    bare, arguments, measured = CAUSAL, tensors(*sizes), MEASURED[sizes]
    types = {"attention": "float16"}
    by_order = {
        order: estimate_seconds(
            bare.with_schedule(expand(f"{FUSED}{TILES} map({order}) reverse(m)")),
            arguments,
            types=types,
        )
        for order in measured
    }
    best = min(measured, key=lambda order: measured[order])
    for order, seconds in by_order.items():
        assert seconds >= by_order[best] * (1 - 1e-9)
        assert seconds / by_order[best] == pytest.approx(measured[order] / measured[best], rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", MEASURED)
def test_the_order_that_is_quicker_is_chosen(sizes: tuple[int, int]) -> None:
    """Rows outermost where they let the work fall evenly, else a few heads at a time, whose keys
    and values stay in the cache."""
    (schedule,) = autoschedule(CAUSAL, tensors(*sizes), types={"attention": "float16"})
    (order,) = re.findall(r" map\((.*?)\)", schedule.schedule)
    assert " reverse(m)" in schedule.schedule
    assert order[0] == ("m" if sizes == (16, 8192) else "h")
    group_of = re.search(r"h:\w+/(\d+)", order)
    assert group_of is None or int(group_of[1]) * 2 * 2 * sizes[1] * 128 <= 50 << 20


@pytest.mark.slow
def test_what_schedules_share_of_a_search_is_what_each_has_alone() -> None:
    types = {"attention": "float16"}
    schedule = autoschedule(CAUSAL, tensors(24, 1024), types=types, count=60)
    assert len({re.sub(r" w\d.*", "", one.schedule) for one in schedule}) > 10
    for one in schedule:
        alone = estimate_seconds(one.program, tensors(24, 1024), types=types)
        assert one.seconds == pytest.approx(alone, rel=1e-12)


@pytest.mark.slow
def test_rows_alone_come_with_the_longest_first() -> None:
    """Where the mask is seen: not after a tensor that another kernel wrote."""
    source = """Func total, s, top; In A; Var m; RVar l;
        s[m, l] = where(l <= reshape(m, m, 1), A[m, l], -inf);
        top[m] = rmax(s[m, l], l);
        total[m] = rsum(exp(s[m, l] - reshape(top[m], m, 1)), l);
        total.compile();"""
    result = autoschedule(parse(source), [row_major(F16, (16384, 16384))], count=200)
    online = [one.schedule for one in result if "online(l)" in one.schedule]
    fused = [text for text in online if "s @ " in text]
    assert "reverse(m)" in result[0].schedule and 0 < len(fused) < len(online)
    assert [text for text in online if "reverse(m)" in text] == fused
