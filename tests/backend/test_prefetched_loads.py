"""Kernels generated again with the loads of loops one iteration ahead: what is computed, and when
their code is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.test_register_limit import MACHINE, code
from tests.sizes import for_each
from tileir.backend.compile import compile as compile_kernel, prefetching, run_pipeline
from tileir.backend.nvptx.emit import KernelUnit
from tileir.backend.options import CodeVariant, Options
from tileir.backend.ptxas import ptxas
from tileir.backend.register_limit import RegisterChoice
from tileir.backend.simt.machine import run
from tileir.backend.target import target
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.ir import Module

ROWS, COLUMNS = 32, 64


def unit_of(module: Module, warps: int) -> KernelUnit:
    done = run_pipeline(module, target("sm_90a"), Options(num_warps=warps), None)
    return KernelUnit(done.stages["barriers"], done.kernel, done.memory, done.num_warps)


@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("n", [0, 1, 64, 200])
@pytest.mark.parametrize("warps", [1, 4])
def test_threads_compute_the_same(warps: int, n: int, reduced: bool) -> None:
    """Also where a reduction within the loop keeps its range of shared memory."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", p=kind, y=kind, out=kind, n=I32) as (p, y, out, size):
        rows, columns = b.arange(ROWS), b.arange(COLUMNS)
        total = b.var(b.full((ROWS,), 0.0, F32))
        with b.for_(0, size, COLUMNS) as start:
            at = columns + start
            place = rows[:, None] * size + at[None, :]
            weights = (p + place).load(place < (rows[:, None] + 1) * size, 0.0)
            numbers = (y + at).load(at < size, 0.0)
            value = (weights * numbers[None, :]).sum(axis=1)
            total.set(total.get() + (value - numbers.sum() if reduced else value))
        (out + rows).store(total.get())
    unit = unit_of(b.module(), warps)
    changed = prefetching(unit)
    assert changed.module != unit.module
    chance = np.random.default_rng(n)
    p_values, y_values = (
        chance.integers(-3, 4, size).astype(np.float32) for size in (ROWS * n + 1, n + 1)
    )
    result = np.full(ROWS, np.nan, np.float32)
    values: list[Any] = [p_values, y_values, result, n]
    machine = target("sm_90a")
    run(changed.module, "k", (1, 1, 1), values, machine, changed.memory, warps)
    expected = p_values[: ROWS * n].reshape(ROWS, n) @ y_values[:n]
    np.testing.assert_array_equal(result, expected - (y_values[:n].sum() if reduced else 0))


@for_each(
    ("registers", "together", "spills", "dots", "is_tried"),
    [
        (120, 2, 0, False, True),
        (120, 4, 0, False, True),
        (120, 8, 0, False, False),  # all loads are in flight together
        (120, 2, 4, False, False),
        (120, 2, 0, True, False),
    ],
)
def test_it_is_tried_where_loads_wait_for_each_other(registers, together, spills, dots, is_tried):
    choice = RegisterChoice(MACHINE, 4, 0, alone=False, dots=dots)
    waiting = code(registers, together, spills=spills)
    assert choice.may_gain(CodeVariant.PREFETCHED, waiting) is is_tried


@for_each(("registers", "is_tried"), [(32, True), (38, False), (40, False), (48, True)])
def test_it_is_tried_where_blocks_could_have_more_than_twice_as_many(registers, is_tried):
    """Blocks of 16 warps. The loads that wait fill eight registers: with 46 registers, two blocks
    are resident in place of three."""
    choice = RegisterChoice(MACHINE, 16, 0, alone=False)
    assert choice.may_gain(CodeVariant.PREFETCHED, code(registers, 4)) is is_tried


@for_each(
    ("other", "is_better"),
    [
        (code(100, 8), True),
        (code(128, 8), True),  # four blocks, as with 120 registers
        (code(136, 8), True),  # three blocks, with three times as many loads in flight
        (code(255, 8), False),  # two blocks, with twice as many
        (code(100, 4), False),  # loads still wait
        (code(100, 8, spills=4), False),
    ],
)
def test_it_is_used_where_twice_as_many_loads_are_in_flight(other, is_better):
    choice, waiting = RegisterChoice(MACHINE, 4, 0, alone=False), code(120, 2)
    assert choice.better_prefetched(waiting, other) is (other if is_better else waiting)


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize("is_better", [False, True])
def test_a_kernel_with_a_loop_is_generated_again(
    is_better: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, n=I32) as (x, y, n):
        at, total = b.arange(128), b.var(b.full((128,), 0.0, F32))
        with b.for_(n) as i:
            total += (x + (i * 128 + at)).load().exp2()
        (y + at).store(total.get())
    kernel = compile_kernel(b.module(), "sm_90", Options(num_warps=4))
    assert kernel.generate is not None
    _, ptx, _ = kernel.generate(CodeVariant.PREFETCHED)
    assert ptx.count("ld.global") == kernel.ptx.count("ld.global") + 1
    tried = lambda self, variant, code: variant is CodeVariant.PREFETCHED  # noqa: E731
    monkeypatch.setattr(RegisterChoice, "best", lambda self, ptx, code, assemble: code)
    monkeypatch.setattr(RegisterChoice, "may_gain", tried)
    monkeypatch.setattr(
        RegisterChoice, "better_prefetched", lambda self, code, other: other if is_better else code
    )
    expected = kernel._assembled_from(ptx if is_better else kernel.ptx)
    assert kernel.machine_code.cubin == expected.cubin


@pytest.mark.parametrize("stored", ["before", "after", "in an outer loop"])
def test_loads_do_not_pass_the_barrier_after_a_store(stored: str) -> None:
    """The loop reads, in another order, what threads have stored before it."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, n=I32) as (x, y, n):
        at, total = b.arange(128), b.var(b.full((128,), 0.0, F32))
        if stored == "before":
            (y + (127 - at)).store(total.get() + 1.0)
        with b.for_(n if stored == "in an outer loop" else 1):
            with b.for_(n) as i:
                total += (x + (i * 128 + at)).load()
            if stored == "in an outer loop":
                (y + (127 - at)).store(total.get())
        if stored == "after":
            (y + at).store(total.get())
    unit = unit_of(b.module(), 4)
    assert (prefetching(unit).module == unit.module) is (stored != "after")
