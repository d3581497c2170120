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
from tileir.testing.kernels import matmul
from tileir.textual import parse

COLUMN_TOTALS = (
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
"""The matmul of `ROWS`, and the sums of its columns over 64 rows each, which warps add up through
shared memory."""


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_scratch_for_reductions_is_disjoint_from_rings(persistent: bool) -> None:
    m, n, k = 136, 72, 96
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n)))
    z, column_totals = np.zeros((m, n), np.float32), np.zeros((3, n), np.float32)
    arguments = [x.reshape(-1), y.reshape(-1), z.reshape(-1), column_totals.reshape(-1), m, n, k, 3]
    options = {"persistent": persistent, "blocks": 1}
    SimtExecutor().launch(parse(COLUMN_TOTALS), None, 9, arguments, target="sm_90a", **options)
    expected = x.astype(np.float32) @ y.astype(np.float32)
    assert np.array_equal(z, expected)
    assert np.array_equal(column_totals, [expected[i : i + 64].sum(0) for i in (0, 64, 128)])


def test_scratch_of_roles_follows_the_allocations_of_the_kernel() -> None:
    done = run_pipeline(parse(COLUMN_TOTALS), target("sm_90a"), Options(), None)
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


RESIDUAL = (
    ROWS.replace("f16<64, 32>", "f16<128, 64>").replace("f16<32, 32>", "f16<64, 256>")
    .replace("f32<64, 32>", "f32<128, 256>").replace("%i, 64", "%i, 128")
    .replace("%j, 32", "%j, 256").replace("%at, 32", "%at, 64")
    .replace("f32* noalias %c", "f16* noalias %c, f16* aligned(16) %r")
    .replace("tensor_desc<f32<128, 256>>", "tensor_desc<f16<128, 256>>")
    .replace("  descriptor_store %f, %sum,", """  %i0 = make_range i32<128>
  %i1 = reshape i32<128, 1> %i0
  %i2 = mul i32<128, 1> %i1, 256
  %i3 = broadcast i32<128, 256> %i2
  %j0 = make_range i32<256>
  %j1 = reshape i32<1, 256> %j0
  %j2 = broadcast i32<128, 256> %j1
  %places = add i32<128, 256> %i3, %j2
  %to = splat f16*<128, 256> %r
  %to.all = getelementptr f16*<128, 256> %to, %places
  %more0 = load f16<128, 256> %to.all
  %more1 = fpext f32<128, 256> %more0
  %both = fadd f32<128, 256> %sum, %more1
  %narrow = fptrunc f16<128, 256> %both
  descriptor_store %f, %narrow,""")
)  # fmt: skip
"""A matmul of 128 x 256 elements plus a tile, which takes 64 KiB to reach the registers of the
matmul."""


@pytest.mark.parametrize("requested", [2, 3])
def test_results_leave_by_registers_where_stages_would_be_too_few(requested: int) -> None:
    """3 stages take 144 KiB, which with 64 KiB leaves nothing for a buffer of the results."""
    options = Options.of({"num_stages": requested, "num_warps": 8})
    done = run_pipeline(parse(RESIDUAL), target("sm_90a"), options, None)
    kernel = done.stages["barriers"].functions["rows"]
    shapes = [op.shape for op in kernel.ops if op.mnemonic == "gpu.shared_alloc"]
    assert shapes[:2] == [(requested, 128, 64), (requested, 64, 256)]
    assert len(shapes) == (3 if requested == 2 else 2)


@pytest.mark.parametrize(
    ("options", "stages"),
    [({"num_stages": 3}, 3), ({"ring_stages": 2}, 2), ({"num_stages": 3, "ring_stages": 8}, 6)],
    ids=str,
)
def test_rings_may_have_other_stages_than_loops_without_tensor_maps(
    options: dict[str, int], stages: int
) -> None:
    """As many as fit, 6 of 32 KiB next to 32 KiB of results, where 8 are the most."""
    done = run_pipeline(matmul(128, 128, 64), target("sm_90a"), Options.of(options), None)
    kernel = done.stages["barriers"].functions["matmul"]
    shapes = [op.shape for op in kernel.ops if op.mnemonic == "gpu.shared_alloc"]  # type: ignore[attr-defined]
    assert shapes[:2] == [(stages, 128, 64), (stages, 64, 128)]
    assert not any(note.code == "TIR0760" for note in done.notes)
