"""Barrier protocols of warp-specialized kernels: each removed wait, fence or arrival has an effect
or is redundant."""

from __future__ import annotations

import re

import pytest

from tileir.backend.warp_specialize.options import WarpSpecializeOptions
from tileir.testing.barrier_protocols import (
    ODD_SHAPE,
    PIPELINES,
    SINK_WAITS,
    TWO_RESULTS,
    Case,
    Runner,
    attention_case,
    generated_case,
    gradient_case,
    matmul_case,
)
from tileir.testing.barrier_protocols.__main__ import main
from tileir.testing.barrier_protocols.redundant_ops import reason, reasons


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        matmul_case("persist", PIPELINES["persist"]),
        matmul_case("pingpong", PIPELINES["pingpong"]),
        matmul_case("TMA and cooperative loads", PIPELINES["persist"], ODD_SHAPE, (0, 2, 2)),
        matmul_case("split-k", PIPELINES["split-k"], (130, 72, 72)),
        matmul_case("multicast", PIPELINES["multicast"], (130, 72, 72)),
        matmul_case("warp-specialize", PIPELINES["warp-specialize"]),
        generated_case("two results", WarpSpecializeOptions(num_stages=2), TWO_RESULTS),
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
        attention_case("pipeline-chained-matmuls", PIPELINES["pipeline-chained-matmuls"], 64),
        attention_case("ordered softmax", PIPELINES["ordered softmax"], 128),
        matmul_case("multicast by four", PIPELINES["multicast by four"]),
        matmul_case("multicast pingpong", PIPELINES["multicast pingpong"]),
        gradient_case("sink-wgmma-waits", SINK_WAITS),
        gradient_case("fused", SINK_WAITS, fused=True),
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
        r"matmul prefetch-register-operands: right in 2 of 2 orders; "
        r"(\d+) of (\d+) ops noticed, 0 redundant\n",
        text,
    )
    assert found and found[1] == found[2] and int(found[1]) > 9


def test_what_nobody_needs_has_a_reason() -> None:
    assert reason("matmul warp-specialize", "gpu.tma_wait in @matmul.consumer, done")
    assert reason("matmul persist", "gpu.tma_wait in @matmul.consumer, done") is None
