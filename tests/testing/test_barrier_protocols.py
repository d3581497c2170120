"""Protocols of roles: every wait, fence and arrival left out is noticed, or nobody needs it."""

from __future__ import annotations

import re
from collections.abc import Callable

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

PRODUCTS: dict[str, Callable[[str], Case]] = {
    "persist": lambda name: product(name, PIPELINES["persist"]),
    "pingpong": lambda name: product(name, PIPELINES["pingpong"]),
    "beside threads": lambda name: product(name, PIPELINES["persist"], ODD, (0, 2, 2)),
    "split-k": lambda name: product(name, PIPELINES["split-k"], (130, 72, 72)),
    "multicast": lambda name: product(name, PIPELINES["multicast"], (130, 72, 72)),
    "warp-specialize": lambda name: product(name, PIPELINES["warp-specialize"]),
    "two results": lambda name: generated(name, WarpSpecializeOptions(num_stages=2), TWO_RESULTS),
}
KERNELS: dict[str, Callable[[str], Case]] = {
    "pipeline-chained-matmuls": lambda name: softmax(name, PIPELINES[name], 64),
    "turns": lambda name: softmax(name, PIPELINES[name], 128),
    "multicast by four": lambda name: product(name, PIPELINES[name]),
    "multicast in turns": lambda name: product(name, PIPELINES[name]),
    "sink-wgmma-waits": lambda name: slopes(name, LATE),
    "fused": lambda name: slopes(name, LATE, fused=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
def test_what_is_left_out_of_a_product(name: str) -> None:
    case = PRODUCTS[name](name)
    runner = Runner(case)
    for seed in range(3):
        runner.run(seed)
    quiet = [site.name for site in runner.sites if not runner.notices(site)]
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
    found = re.fullmatch(
        r"product prefetch-register-operands: right in 2 of 2 orders; "
        r"(\d+) of (\d+) ops noticed, 0 needless\n",
        text,
    )
    assert found and found[1] == found[2] and int(found[1]) > 9


def test_what_nobody_needs_has_a_reason() -> None:
    assert reason("product warp-specialize", "gpu.tma_wait in @matmul.consumer, done")
    assert reason("product persist", "gpu.tma_wait in @matmul.consumer, done") is None
