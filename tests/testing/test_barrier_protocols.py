"""Protocols of roles: every wait, fence and arrival left out is noticed, or nobody needs it."""

from __future__ import annotations

import re

import pytest

from tileir.backend.warp_specialize.options import WarpSpecializeOptions
from tileir.testing.barrier_protocols import (
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
from tileir.testing.barrier_protocols.__main__ import main
from tileir.testing.barrier_protocols.needless import reason, reasons


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        product("persist", PIPELINES["persist"]),
        product("pingpong", PIPELINES["pingpong"]),
        product("beside threads", PIPELINES["persist"], ODD, (0, 2, 2)),
        product("split-k", PIPELINES["split-k"], (130, 72, 72)),
        product("multicast", PIPELINES["multicast"], (130, 72, 72)),
        product("warp-specialize", PIPELINES["warp-specialize"]),
        generated("two results", WarpSpecializeOptions(num_stages=2), TWO_RESULTS),
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
        softmax("pipeline-chained-matmuls", PIPELINES["pipeline-chained-matmuls"], 64),
        softmax("turns", PIPELINES["turns"], 128),
        product("multicast by four", PIPELINES["multicast by four"]),
        product("multicast in turns", PIPELINES["multicast in turns"]),
        slopes("sink-wgmma-waits", LATE),
        slopes("fused", LATE, fused=True),
    ],
    ids=lambda case: case.name,
)
def test_in_any_order(case: Case) -> None:
    runner = Runner(case)
    for seed in range(4):
        runner.run(seed)


@pytest.mark.slow
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "prefetch-register-operands", "--schedules", "2", "--jobs", "2"]) == 0
    text = capsys.readouterr().out
    found = re.fullmatch(
        r"product prefetch-register-operands: right in 2 of 2 orders; "
        r"(\d+) of (\d+) ops noticed, 0 needless\n",
        text,
    )
    assert found and found[1] == found[2] and int(found[1]) > 9


def test_what_nobody_needs_has_a_reason() -> None:
    assert reason("product warp-specialize", "gpu.tma_wait in @matmul.consumer, done")
    assert reason("product persist", "gpu.tma_wait in @matmul.consumer, done") is None
