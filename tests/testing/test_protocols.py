"""Protocols of roles: every wait, fence and arrival left out is noticed, or nobody needs it."""

from __future__ import annotations

import re

import pytest

from tileir.backend.roles.wanted import Wanted
from tileir.testing.protocols import (
    LATE,
    ODD,
    PIPELINES,
    TWO_RESULTS,
    Case,
    Runner,
    generated,
    product,
    slopes,
    softmax,
)
from tileir.testing.protocols.__main__ import main
from tileir.testing.protocols.needless import reason, reasons


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        product("persist", PIPELINES["persist"]),
        product("pingpong", PIPELINES["pingpong"]),
        product("beside threads", PIPELINES["persist"], ODD, (0, 2, 2)),
        product("split", PIPELINES["split"], (130, 72, 72)),
        product("multicast", PIPELINES["multicast"], (130, 72, 72)),
        product("roles", PIPELINES["roles"]),
        generated("two results", Wanted(slots=2), TWO_RESULTS),
    ],
    ids=lambda case: case.name,
)
def test_what_is_left_out_of_a_product(case: Case) -> None:
    runner = Runner(case)
    for seed in range(3):
        runner.run(seed)
    quiet = [site.name for site in runner.sites if not runner.notices(site)]
    assert list(dict.fromkeys(quiet)) == list(reasons(case.name))
    assert len(runner.sites) >= 11


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        softmax("delay", PIPELINES["delay"], 64),
        softmax("turns", PIPELINES["turns"], 128),
        product("multicast by four", PIPELINES["multicast by four"]),
        product("multicast in turns", PIPELINES["multicast in turns"]),
        slopes("late-waits", LATE),
        slopes("fused", LATE, fused=True),
    ],
    ids=lambda case: case.name,
)
def test_in_any_order(case: Case) -> None:
    runner = Runner(case)
    for seed in range(4):
        runner.run(seed)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "early-loads", "--schedules", "2", "--jobs", "2"]) == 0
    text = capsys.readouterr().out
    found = re.fullmatch(
        r"product early-loads: right in 2 of 2 orders; (\d+) of (\d+) ops noticed, 0 needless\n",
        text,
    )
    assert found and found[1] == found[2] and int(found[1]) > 9


def test_what_nobody_needs_has_a_reason() -> None:
    assert reason("product roles", "gpu.tma_wait in @matmul.math, done")
    assert reason("product persist", "gpu.tma_wait in @matmul.math, done") is None
