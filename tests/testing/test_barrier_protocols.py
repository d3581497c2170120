"""Barrier protocols of warp-specialized kernels: each removed wait, fence or arrival has an effect
or is redundant."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tileir.backend.warp_specialize.options import WarpSpecializeOptions
from tileir.testing.barrier_protocols import (
    ODD_SHAPE,
    PIPELINES,
    SINK_WAITS,
    TWO_RESULTS,
    ProtocolCase,
    Runner,
    attention_case,
    generated_case,
    gradient_case,
    matmul_case,
)
from tileir.testing.barrier_protocols.__main__ import main
from tileir.testing.barrier_protocols.redundant_ops import reason, reasons

MATMULS: dict[str, Callable[[str], ProtocolCase]] = {
    "persist": lambda name: matmul_case(name, PIPELINES["persist"]),
    "pingpong": lambda name: matmul_case(name, PIPELINES["pingpong"]),
    "TMA and cooperative loads": lambda name: matmul_case(
        name, PIPELINES["persist"], ODD_SHAPE, (0, 2, 2)
    ),
    "split-k": lambda name: matmul_case(name, PIPELINES["split-k"], (130, 72, 72)),
    "multicast": lambda name: matmul_case(name, PIPELINES["multicast"], (130, 72, 72)),
    "warp-specialize": lambda name: matmul_case(name, PIPELINES["warp-specialize"]),
    "two results": lambda name: generated_case(
        name, WarpSpecializeOptions(num_stages=2), TWO_RESULTS
    ),
}
KERNELS: dict[str, Callable[[str], ProtocolCase]] = {
    "pipeline-chained-matmuls": lambda name: attention_case(name, PIPELINES[name], 64),
    "ordered softmax": lambda name: attention_case(name, PIPELINES[name], 128),
    "multicast by four": lambda name: matmul_case(name, PIPELINES[name]),
    "multicast pingpong": lambda name: matmul_case(name, PIPELINES[name]),
    "sink-wgmma-waits": lambda name: gradient_case(name, SINK_WAITS),
    "fused": lambda name: gradient_case(name, SINK_WAITS, fused=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MATMULS)
def test_what_is_left_out_of_a_matmul(name: str) -> None:
    case = MATMULS[name](name)
    runner = Runner(case)
    for seed in range(3):
        runner.run(seed)
    quiet = [site.name for site in runner.sites if not runner.detects_removal(site)]
    assert list(dict.fromkeys(quiet)) == list(reasons(case.name))
    assert len(runner.sites) >= 11


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_in_any_order(name: str) -> None:
    runner = Runner(KERNELS[name](name))
    for seed in range(4):
        runner.run(seed)


@pytest.mark.slow
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "prefetch-register-operands", "--schedules", "2", "--jobs", "2"]) == 0
    text = capsys.readouterr().out
    match = re.fullmatch(
        r"matmul prefetch-register-operands: right in 2 of 2 orders; "
        r"(\d+) of (\d+) removed ops detected, 0 redundant\n",
        text,
    )
    assert match and match[1] == match[2] and int(match[1]) > 9


def test_what_is_not_needed_has_a_reason() -> None:
    assert reason("matmul warp-specialize", "gpu.tma_wait in @matmul.consumer, done")
    assert reason("matmul persist", "gpu.tma_wait in @matmul.consumer, done") is None
