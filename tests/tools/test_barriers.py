"""Barriers left out: the machine of threads notices."""

from pathlib import Path

import numpy as np
import pytest

from tileir import textual
from tileir.tools.barriers import Survey, of_file, of_program, survey

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_of_examples(name):
    found = of_file(str(EXAMPLES / f"{name}.tir"))
    assert found.left_out >= 2
    assert found.noticed == found.left_out, found.survivors


def test_of_programs():
    """What survives depends on data (values that no bin counts) or stands beside a barrier that
    another op waits at anyway; everything else is noticed."""
    total = Survey()
    for seed in range(25):
        total.add(of_program(seed))
    assert total.left_out > 40
    assert total.share >= 0.8
    kinds = {s.split(": ")[1].split(",")[0] for s in total.survivors}
    assert kinds <= {"histogram", "insert_slice", "gpu.barrier"}


EXCHANGE = """tir 1.0

define kernel void @exchange(i32* aligned(16) %x, i32* aligned(16) %y) {
entry:
  %i = make_range i32<256>
  %xs = splat i32*<256> %x
  %p = getelementptr i32*<256> %xs, %i
  store %p, %i
  %back = sub i32<256> 255, %i
  %q = getelementptr i32*<256> %xs, %back
  %v = load i32<256> %q
  %ys = splat i32*<256> %y
  %r = getelementptr i32*<256> %ys, %i
  store %r, %v
  ret
}
"""


def test_through_global_memory():
    arguments = {name: np.zeros(256, np.int32) for name in "xy"}
    found = survey(textual.parse(EXCHANGE), None, (1,), arguments, 4)
    assert (found.left_out, found.noticed) == (1, 1)
