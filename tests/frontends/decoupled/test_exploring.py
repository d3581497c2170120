"""Schedules in short, templates of them, and the exploration of a space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.decoupled import parse
from tileir.frontends.decoupled.explore import Timing, explore, space, wall_clock
from tileir.frontends.decoupled.shorthand import choices, expand, shorten

from . import definitions as d

SOURCES = [text for name, text in vars(d).items() if name.isupper() and "Func" in text]


@for_each("source", SOURCES)
def test_shorthand_says_the_whole_schedule(source: str) -> None:
    program = parse(source)
    short = shorten(program.definitions)
    expanded = program.without_schedule().with_schedule(expand(short))
    assert {n: f.schedule for n, f in expanded.funcs.items()} == {
        n: f.schedule for n, f in program.funcs.items()
    }


def test_shorthand_reads_as_documented() -> None:
    text = "f = x:64/16 y:/0 k:32 map(x:xi/8, xi) w8 s3 atomic(k) math(approx); g @ f.x"
    assert expand(text).split("\n") == [
        "f.block(x:64);", "f.tensorize(x:16);", "f.tensorize(y:0);", "f.block(k:32);",
        "f.map(x:xi/8, xi);", "f.num_warps(8);", "f.num_stages(3);", "f.atomic(k);",
        "f.math(approx);", "g.fuse_at(f, x);",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["f", "f = x", "f = x:", "f = (x)", "g @ f", "f = x:2 ?", "= x:2"])
def test_what_is_no_shorthand_is_refused(text: str) -> None:
    with pytest.raises(TileirError) as error:
        expand(text)
    assert error.value.code == "TIR1206"


def test_templates_are_cartesian_products() -> None:
    expanded = list(choices("f = x:{1|2}/0 {map(x, y)|map(y, x)} w{4}"))
    assert len(expanded) == 4 and expanded[0] == "f = x:1/0 map(x, y) w4"
    assert list(choices("f = x:1")) == ["f = x:1"]
    with pytest.raises(TileirError, match="stands for"):
        list(choices("f = " + " ".join(["w{1|2|4|8}"] * 11)))


def test_illegal_schedules_are_left_out_with_their_error() -> None:
    legal, illegal = space(parse(d.RELU), "relu_out = x:{8|32}/{0|16}")
    assert len(legal) == 3
    assert [t.schedule for t in illegal] == ["relu_out = x:8/16"]
    assert "larger than its block size" in str(illegal[0].wrong)


def test_the_fastest_comes_first() -> None:
    def clock(plan: Any, arguments: Any) -> float:
        return float(plan.launches[0].instances)

    A = np.ones((8, 64), np.float32)
    outcome = explore(parse(d.RELU), "relu_out = x:{1|2|8}/0 y:/0", [A], clock)
    assert outcome.best == Timing("relu_out = x:8/0 y:/0", 1.0)
    assert outcome.competitive() == pytest.approx(1 / 3)
    assert outcome.competitive(baseline=4.0) == pytest.approx(2 / 3)


def test_an_executor_may_be_the_clock() -> None:
    A = np.ones((4, 64), np.float32)
    template = "relu_out = x:4/0 y:{32|64}/0"

    def check(plan: Any, arguments: Any) -> str | None:
        return None if (plan.run(arguments, "cpu") == 1).all() else "off"

    outcome = explore(parse(d.RELU), template, [A], wall_clock("cpu", 1), check=check)
    assert len(outcome.timings) == 2 and all(t.seconds > 0 for t in outcome.timings)
    wrong = explore(parse(d.RELU), template, [A], wall_clock("cpu", 1), check=lambda p, g: "off")
    assert not wrong.timings and [t.wrong for t in wrong.illegal] == ["off", "off"]


def test_times_are_means_of_runs_in_new_orders() -> None:
    """Of each plan as many as are asked for, one of every plan before the next of any."""
    runs: list[int] = []

    def clock(plan: Any, arguments: Any) -> float:
        assert list(arguments) == ["A"]
        runs.append(plan.launches[0].instances)
        return len(runs)

    A = np.ones((8, 64), np.float32)
    outcome = explore(parse(d.RELU), "relu_out = x:{1|2|4|8}/0 y:/0", [A], clock, repeats=6)
    repeats = [runs[i : i + 4] for i in range(0, len(runs), 4)]
    assert len(repeats) == 6 and all(sorted(one) == [1, 2, 4, 8] for one in repeats)
    assert len({tuple(one) for one in repeats}) > 1
    for timing in outcome.timings:
        instances = 8 // int(timing.schedule.partition("x:")[2][0])
        mine = [i + 1 for i, run in enumerate(runs) if run == instances]
        assert timing.seconds == pytest.approx(sum(mine) / 6)
    seconds = [timing.seconds for timing in outcome.timings]
    assert seconds == sorted(seconds)
    assert outcome.competitive(within=0) == 1 / 4 and outcome.competitive(within=100) == 1


def test_schedules_without_a_plan_are_left_out_with_their_error() -> None:
    """The schedules are legal, the arguments of none fit."""
    A = np.ones((8, 64, 2), np.float32)
    outcome = explore(parse(d.RELU), "relu_out = x:{1|2}/0", [A], lambda plan, arguments: 1.0)
    assert not outcome.timings and outcome.competitive(baseline=1.0) == 0
    assert all("3" in str(t.wrong) and t.seconds == float("inf") for t in outcome.illegal)
    assert len(outcome.illegal) == 2
