"""Shared memory of warp-specialized kernels: scratch memory of a role follows the allocations of
the kernel and is disjoint from that of other roles; the numbers of stages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.backend.warp_specialize.test_multicast import ROWS
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.options import Options
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.target import target
from tileir.backend.warp_specialize.stage_counts import choose_stage_counts
from tileir.textual import parse

SUMS = (
    ROWS.replace("f32* noalias %c,", "f32* noalias %c, f32* noalias %sums,")
    .replace("  descriptor_store", """  %columns = reduce f32<32> %sum {axis = 0, combiner = fadd}
  %lane = make_range i32<32>
  %from = splat i32<32> %column
  %at.all = add i32<32> %from, %lane
  %high = sdiv i32 %row, 64
  %skip = mul i32 %high, %n
  %skips = splat i32<32> %skip
  %places = add i32<32> %at.all, %skips
  %ends = splat i32<32> %n
  %in, _ = icmp (i1<32>, i1<32>) %at.all, %ends {predicate = slt}
  %to = splat f32*<32> %sums
  %to.all = getelementptr f32*<32> %to, %places
  store %to.all, %columns, %in
  descriptor_store""")
)  # fmt: skip
"""The product of `ROWS`, and the sums of its columns over 64 rows each, which warps add up through
shared memory."""


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_scratch_for_reductions_is_disjoint_from_rings(persistent: bool) -> None:
    m, n, k = 136, 72, 96
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n)))
    z, sums = np.zeros((m, n), np.float32), np.zeros((3, n), np.float32)
    given = [x.reshape(-1), y.reshape(-1), z.reshape(-1), sums.reshape(-1), m, n, k, 3]
    options = {"persistent": persistent, "blocks": 1}
    SimtExecutor().launch(parse(SUMS), None, 9, given, target="sm_90a", **options)
    wanted = x.astype(np.float32) @ y.astype(np.float32)
    assert np.array_equal(z, wanted)
    assert np.array_equal(sums, [wanted[i : i + 64].sum(0) for i in (0, 64, 128)])


def test_scratch_of_roles_follows_the_allocations_of_the_kernel() -> None:
    done = run_pipeline(parse(SUMS), target("sm_90a"), Options(), None)
    functions = done.stages["barriers"].functions
    kernel, role = (SharedMemoryPlan.of(functions[name]) for name in ("rows", "rows.consumer"))
    own = max(at + kernel.sizes[op] for op, at in kernel.offsets.items())
    assert role.offsets and min(role.offsets.values()) >= own
    assert kernel.size == max(at + role.sizes[op] for op, at in role.offsets.items())


KIB = 1 << 10


def kinds(*rings: tuple[int, bool]) -> list[tuple[Any]]:
    """Rings of so many KiB a stage, each of an outer or an innermost loop."""
    return [(SimpleNamespace(bytes=n * KIB, is_outer=outer, resident=False),) for n, outer in rings]


@pytest.mark.parametrize(
    ("outer", "stages"),
    [(64, [2, 6]), (72, [2, 5]), (76, [2, 4]), (80, [2, 4]), (88, [1, 8]), (96, [1, 8])],
)
def test_outer_rings_have_two_stages_where_enough_bytes_are_in_flight(
    outer: int, stages: list[int]
) -> None:
    """Enough are 40 KiB in flight while one stage of 16 KiB is read."""
    assert choose_stage_counts(kinds((outer, True), (16, False)), 227 * KIB, 0) == stages
