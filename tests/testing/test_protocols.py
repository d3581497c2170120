"""Protocols of roles: every wait, fence and arrival left out is noticed, or nobody needs it."""

from __future__ import annotations

import pytest

from tileir.testing.protocols import (
    LATE,
    ODD,
    PIPELINES,
    Case,
    Runner,
    product,
    sites,
    slopes,
    softmax,
)


@pytest.mark.parametrize(
    ("case", "needless"),
    [
        (product("persist", PIPELINES["persist"]), []),
        (product("pingpong", PIPELINES["pingpong"]), []),
        (product("beside threads", PIPELINES["persist"], ODD, (0, 2, 2)), []),
        (product("split", PIPELINES["split"], (130, 72, 72)), []),
        (product("multicast", PIPELINES["multicast"], (130, 72, 72)), []),
        (
            product("roles", PIPELINES["roles"]),
            # Nothing was copied out of the buffer before it is written first.
            ["gpu.tma_wait in @matmul.math, done", "gpu.barrier in @matmul.math, done"],
        ),
    ],
    ids=lambda x: x.name if isinstance(x, Case) else "",
)
def test_what_is_left_out_of_a_product(case: Case, needless: list[str]) -> None:
    runner = Runner(case)
    for seed in range(3):
        runner.run(seed)
    found = [text.partition(": ")[2].rpartition(",")[0] for text in runner.survivors()]
    assert found == needless
    assert len(list(sites(runner.module))) >= 11


@pytest.mark.parametrize(
    "case",
    [softmax(n, PIPELINES[n]) for n in ("delay", "turns")]
    + [product(n, PIPELINES[n]) for n in ("multicast by four", "multicast in turns")]
    + [slopes("late-waits", LATE)],
    ids=lambda c: c.name,
)
def test_in_any_order(case: Case) -> None:
    runner = Runner(case)
    for seed in range(4):
        runner.run(seed)
