"""Stages of shared memory, as the interpreter fills and reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .programs import fails, run

SHARED = """\
stage "warp_specialized"

define kernel void @k(f32* %x, f32* %y, i32 %slot, i32 %row, i32 %column) {
entry:
  %i = make_range i32<32>
  %ir = reshape i32<4, 8> %i
  %xs = splat f32*<4, 8> %x
  %p = getelementptr f32*<4, 8> %xs, %ir
  %ys = splat f32*<4, 8> %y
  %q = getelementptr f32*<4, 8> %ys, %ir
  %v = load f32<4, 8> %p
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [2, 4, 8]}
  LINES
  store %q, %r
  ret
}
"""
STORED = "gpu.local_store %v, %b, 0\n  "
WINDOW = (
    "%r = gpu.local_gather f32<4, 8> %b, %slot, %row, %column {rows = [1, 0], columns = [0, 1]}"
)
LOADED = "%r = gpu.local_load f32<4, 8> %b, %slot"
ODD = (
    "%bit = and i32<4, 8> %ir, 1\n  %odd, _ = icmp (i1<4, 8>, i1<4, 8>) %bit, 1 {predicate = eq}\n"
    "  %u = select f32<4, 8> %odd, undef, %v\n  gpu.local_store %u, %b, 0\n  "
)
WHOLE_COPY = "gpu.async_copy %p, %b, %slot\n  gpu.async_commit\n  gpu.async_wait\n  "
ROW_COPY = (
    "%x1 = extract_slice f32*<1, 8> %p, ROW, 0\n  gpu.async_copy %x1, %b, 0 {offsets = [ROW, 0]}\n"
    "  gpu.async_commit\n  gpu.async_wait\n  "
)


def run_stage(
    lines: str, stage: int = 0, row: int = 0, column: int = 0, code: str = "", at: str = ""
) -> Any:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    body = SHARED.replace("LINES", lines)
    if code:
        return fails(code, at, body, 1, x, y, stage, row, column)
    run(body, 1, x, y, stage, row, column)
    return np.array_equal(x, y)


def test_what_was_stored_is_loaded() -> None:
    for lines in (STORED + LOADED, STORED + WINDOW, WHOLE_COPY + LOADED, WHOLE_COPY + WINDOW):
        assert run_stage(lines)
    assert run_stage(WHOLE_COPY + LOADED, stage=1)


@pytest.mark.parametrize("read", [LOADED, WINDOW])
def test_what_was_never_stored_is_undefined(read: str) -> None:
    run_stage(read, code="TIR0505", at="store %q")
    run_stage(STORED + read, stage=1, code="TIR0505", at="store %q")
    run_stage(ODD + read, code="TIR0505", at="store %q")
    assert run_stage(ODD + STORED + read)


@pytest.mark.parametrize("stage", [-1, 2, 3, 1000])
def test_there_are_as_many_stages_as_requested(stage: int) -> None:
    for lines, at in ((STORED + LOADED, "local_load"), (STORED + WINDOW, "local_gather"),
                      (WHOLE_COPY + LOADED, "async_copy")):  # fmt: skip
        assert f"no stage {stage}" in run_stage(lines, stage=stage, code="TIR0501", at=at)


def test_copies_fill_parts_of_a_stage() -> None:
    rows = [ROW_COPY.replace("ROW", str(i)).replace("%x1", f"%x{i}") for i in range(4)]
    assert run_stage("".join(rows) + LOADED)
    run_stage("".join(rows[:3]) + LOADED, code="TIR0505", at="store %q")
    past = rows[0].replace("offsets = [0, 0]", "offsets = [4, 0]")
    run_stage(past + LOADED, code="TIR0501", at="async_copy")


def test_a_window_is_within_a_stage() -> None:
    for row, column in ((1, 0), (0, 1), (-1, 0)):
        run_stage(STORED + WINDOW, row=row, column=column, code="TIR0501", at="local_gather")
