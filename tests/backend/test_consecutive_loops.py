"""Buffers of loops that follow one another, and dots next to pipelined loops, by warpgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.test_stored_operands import agree, ops, random_operands
from tileir.analysis.shared_buffers import alive
from tileir.backend import Options
from tileir.backend.compile import run_pipeline
from tileir.backend.target import target
from tileir.builder import F16, F32, Builder, arg, pointer


def consecutive_loops(count: int) -> Any:
    """out = the sum over `count` loops, each over two blocks of x and y, of x y."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("loops", x=kind, y=kind, out=pointer(F32)) as (x, y, out):
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        total = b.var(b.full((64, 64), 0.0, F32))
        for _ in range(count):
            with b.for_(0, 2, stages=2, independent_loads=True) as i:
                left, right = (x + (at + i * 4096)).load(), (y + (at + i * 4096)).load()
                total.set(b.dot(left, right, total.get()))
        (out + at).store(total.get())
    return b.module()


def around_a_loop(warps: int) -> Any:
    """An outer loop with dots of its own before and after a pipelined loop."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    rows = 64 if warps % 4 == 0 else 32
    with b.kernel("around", x=kind, y=kind, out=pointer(F32)) as (x, y, out):
        at = b.arange(rows)[:, None] * 64 + b.arange(64)[None, :]
        square = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        total = b.var(b.full((rows, 64), 0.0, F32))
        with b.for_(0, 2, stages=1) as j:
            first = (x + (at + j * 4096)).load()
            total.set(b.dot(first, (y + square).load(), total.get()))
            with b.for_(0, 2, stages=2, independent_loads=True) as i:
                left, right = (x + (at + i * 4096)).load(), (y + (square + i * 4096)).load()
                total.set(b.dot(left, right, total.get()))
            second = (y + (square + j * 4096)).load()
            total.set(b.dot(first, b.trans(second, order=(1, 0)), total.get()))
        (out + at).store(total.get())
    return b.module(), rows


def lowered_kernel(module: Any, warps: int) -> Any:
    done = run_pipeline(
        module, target("sm_90a"), Options(num_warps=warps, warp_specialize=False), None
    )
    return done.stages["barriers"].functions[done.kernel]


def test_buffers_of_one_loop_are_free_for_the_next() -> None:
    """A wait for wgmma needs the operands of those under way, not of all in the function."""
    one, three = (lowered_kernel(consecutive_loops(n), 4).attributes["shared"] for n in (1, 3))
    assert three == one
    agree(
        consecutive_loops(3),
        [*random_operands(F16, (2, 64, 64), (2, 64, 64)), np.zeros((64, 64), "f4")],
        4,
    )


def test_operands_are_needed_until_their_wait() -> None:
    function = lowered_kernel(consecutive_loops(2), 4)
    liveness = alive(function)
    seen = 0
    for op in function.ops:
        if op.mnemonic == "gpu.wgmma_wait":
            reading = liveness.multiplying[op]
            assert reading <= liveness.at(op)
            seen = max(seen, len(reading))
    assert seen == 2, "those of the other loop are not waited for"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [2, 4])
def test_dots_with_a_pipelined_loop(warps: int) -> None:
    module, rows = around_a_loop(warps)
    agree(
        module,
        [*random_operands(F16, (2, 64, 64), (2, 64, 64)), np.zeros((rows, 64), np.float32)],
        warps,
    )
    names = ops(module, warps)
    if warps == 4:
        assert names.count("gpu.wgmma") == 3 and "dot" not in names
    assert "gpu.convert_layout" not in names[: names.index("gpu.async_copy")]
    assert names.count("gpu.local_store") >= 3
