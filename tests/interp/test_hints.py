"""Promises about values: multiples, runs of neighbours, runs of equal ones."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import fails, run

HINTS = """
define kernel void @k(i32* %x, i32 %n) {
entry:
  %i = make_range i32<8> {start = 0}
  %s = splat i32<8> %n
  %v = OP
  %xs = splat i32*<8> %x
  %p = getelementptr i32*<8> %xs, %i
  store %p, %v
  ret
}
"""


@pytest.mark.parametrize(
    ("op", "good", "bad"),
    [
        ("multiple_of i32<8> %s {values = [4]}", 12, 6),
        ("constant_run i32<8> %s {values = [8]}", 3, None),
        ("constant_run i32<8> %i {values = [2]}", None, 3),
        ("contiguous i32<8> %i {values = [8]}", 3, None),
        ("contiguous i32<8> %s {values = [2]}", None, 3),
    ],
)
def test_hints(op: str, good: int | None, bad: int | None) -> None:
    body = HINTS.replace("OP", op)
    if good is not None:
        run(body, 1, np.zeros(8, np.int32), good)
    if bad is not None:
        fails("TIR0554", "values", body, 1, np.zeros(8, np.int32), bad)


PLACES = """
define kernel void @k(f32* aligned(16) %p, i32 %apart) {
entry:
  %i = make_range i32<4> {start = 0}
  %rows = reshape i32<4, 1> %i
  %d = splat i32<4, 1> %apart
  %at = mul i32<4, 1> %rows, %d
  %row = broadcast i32<4, 8> %at
  %j = make_range i32<8> {start = 0}
  %columns = reshape i32<1, 8> %j
  %column = broadcast i32<4, 8> %columns
  %place = add i32<4, 8> %row, %column
  %s = splat f32*<4, 8> %p
  %q = getelementptr f32*<4, 8> %s, %place
  %r = multiple_of f32*<4, 8> %q {values = [16, 16]}
  store %r, 1.0
  ret
}
"""


def test_runs_of_one_dimension_begin_nothing_along_the_other() -> None:
    """As kernels of Triton say of pointers, for each dimension the same."""
    run(PLACES, 1, np.zeros(64, np.float32), 12)
    fails("TIR0554", "values", PLACES, 1, np.zeros(64, np.float32), 10)
    fails("TIR0554", "values", PLACES, 1, np.zeros(64, np.float32), 1)
