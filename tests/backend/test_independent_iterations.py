"""Loops without dots whose iterations are promised to be independent: their loads are copied to
shared memory ahead of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.target import target
from tileir.builder import BF16, F16, F32, I8, I32, Builder, arg, pointer
from tileir.machine import dtype_of


def row_totals(
    element: Any = F32, shape: tuple[int, ...] = (256,), other: Any = None,
    attributes: dict[str, Any] | None = None, aligned: bool = True,
) -> Builder:  # fmt: skip
    """Every third tile of a tensor is scaled in place by its greatest element; the last columns are
    masked off."""
    b, alignment = Builder(), {"aligned": 16} if aligned else {}
    columns = shape[-1]
    tensors = {"x": arg(pointer(element), **alignment), "y": pointer(F32)}
    kernel = b.kernel("k", **tensors, n=I32)
    with kernel as (x, y, n), b.for_(0, n, 3, **(attributes or PROMISED)) as i:
        column = b.arange(columns)
        mask, at = column < columns - 4, column
        if len(shape) == 2:
            at = (b.arange(shape[0]) * columns)[:, None] + column[None, :]
            mask = (at >= 0) & (column < columns - 4)[None, :]
        place = x + (i * int(np.prod(shape)) + at)
        values = place.load(mask) if other is None else place.load(mask, other)
        values = values.to(F32)
        values = values if other is not None else b.select(mask, values, 0.0)
        most = values.max(axis=0) if len(shape) == 1 else values.max(axis=1).max(axis=0)
        place.store((values - most).to(element), mask)
        (y + i).store(most)
    return b


PROMISED = {"stages": 4, "independent_iterations": True}


def ops_of(b: Builder, warps: int = 4) -> list[str]:
    done = run_pipeline(b.module(), target("sm_90"), Options(num_warps=warps), None)
    return [op.mnemonic for op in done.stages["barriers"].kernel().ops]


@pytest.mark.sampled(4, by="iterations")
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("iterations", [0, 1, 2, 5, 7])
@pytest.mark.parametrize(
    ("element", "shape", "other"),
    [(F32, (256,), None), (BF16, (512,), -100.0), (F16, (8, 64), 0.0), (I8, (16, 32), -100)],
)
def test_copies_ahead_keep_the_meaning(
    element: Any, shape: tuple[int, ...], other: Any, iterations: int, warps: int
) -> None:
    b = row_totals(element, shape, other)
    assert ops_of(b, warps).count("gpu.async_copy") == 4
    assert "load" not in ops_of(b, warps)
    x = np.random.default_rng(0).integers(-50, 50, 22 * int(np.prod(shape)))
    arrays = [x.astype(dtype_of(element)), np.zeros(32, np.float32), 3 * iterations]
    assert_equal_results(b.module(), arrays, num_warps=warps)


@pytest.mark.parametrize(
    ("attributes", "copies"),
    [
        ({"stages": 2, "independent_iterations": True}, 2),
        ({"stages": 1, "independent_iterations": True}, 0),
        ({"independent_iterations": True}, 0),
        ({"stages": 4, "independent_loads": True}, 0),
        # as many stages as half of shared memory has
        ({"stages": 200, "independent_iterations": True}, 114),
    ],
)
def test_a_loop_that_states_stages_and_promises_is_pipelined(
    attributes: dict[str, Any], copies: int
) -> None:
    assert ops_of(row_totals(attributes=attributes)).count("gpu.async_copy") == copies


def test_copies_refill_the_stages_that_are_read() -> None:
    """Buffers have one stage less than the loop."""
    done = run_pipeline(row_totals().module(), target("sm_90"), Options(num_warps=4), None)
    (buffer,) = [
        op for op in done.stages["pipelined"].kernel().ops if op.mnemonic == "gpu.shared_alloc"
    ]
    assert tuple(buffer.shape) == (3, 1, 256)


def test_reductions_of_long_rows_are_read_as_they_are_copied() -> None:
    """A vector that the loop carries has the layout of the copies: 8 neighbours by each thread."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F16), aligned=16), y=pointer(F32), n=I32) as (x, y, n):
        at, total = b.arange(1024), b.var(b.full((1024,), 0.0, F32))
        with b.for_(0, n, 1024, **PROMISED) as i:
            total.set(total.get() + (x + (i + at)).load().to(F32))
        y.store(total.get().sum(axis=0))
    done = run_pipeline(b.module(), target("sm_90"), Options(num_warps=4), None)
    ops = list(done.stages["barriers"].kernel().ops)
    (read,) = [op.results[0].type.layout for op in ops if op.mnemonic == "gpu.local_load"]
    assert list(read.register) == [(0, 1), (0, 2), (0, 4)]
    assert not [op for op in ops if op.mnemonic in ("gpu.barrier", "gpu.convert_layout")]


def test_loads_of_less_than_a_word_stay_where_they_are() -> None:
    assert "gpu.async_copy" in ops_of(row_totals(F16))
    assert "gpu.async_copy" not in ops_of(row_totals(F16, aligned=False))


@pytest.mark.parametrize(
    ("columns", "warps", "barriers"),
    [(512, 4, []), (64, 1, []), (16, 1, ["warp"]), (64, 4, ["block"]), (16, 4, ["block"])],
)
def test_threads_that_copy_for_others_wait_for_each_other(
    columns: int, warps: int, barriers: list[str]
) -> None:
    """Several threads read an element of a short tile, and one of them copies it."""
    b = row_totals(shape=(columns,))
    done = run_pipeline(b.module(), target("sm_90"), Options(num_warps=warps), None)
    ops = list(done.stages["barriers"].kernel().ops)
    after_waits = [op for i, op in enumerate(ops) if i and ops[i - 1].mnemonic == "gpu.async_wait"]
    waits = [op for op in after_waits if op.mnemonic == "gpu.barrier"]
    assert ["warp" if op.warp else "block" for op in waits] == barriers
    x = np.random.default_rng(0).integers(-50, 50, 22 * columns).astype(np.float32)
    assert_equal_results(b.module(), [x, np.zeros(32, np.float32), 15], num_warps=warps)
