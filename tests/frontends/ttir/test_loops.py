"""Iterations of `scf.for`, signed and unsigned, near the ends of their types, against Python."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.executor import executor
from tileir.frontends.ttir import read

MOST = 16


def program(bits: int, unsigned: bool) -> str:
    """A loop that stores its indices one after the other, and their number."""
    word = "unsigned " if unsigned else ""
    kind = f"i{bits}"
    parameters = f"%low: {kind}, %high: {kind}, %step: {kind}"
    return f"""\
module {{
  tt.func public @kernel(%out: !tt.ptr<{kind}>, %count: !tt.ptr<i32>, {parameters}) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %n = scf.for {word}%i = %low to %high step %step iter_args(%k = %c0) -> (i32)  : {kind} {{
      %p = tt.addptr %out, %k : !tt.ptr<{kind}>, i32
      tt.store %p, %i : !tt.ptr<{kind}>
      %next = arith.addi %k, %c1 : i32
      scf.yield %next : i32
    }}
    tt.store %count, %n : !tt.ptr<i32>
    tt.return
  }}
}}
"""


def bounds(bits: int, unsigned: bool) -> list[tuple[int, int, int]]:
    """Loops of few iterations whose last index plus the step is a number of the type."""
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    middle = 1 << bits - 1 if unsigned else 0
    near = [p + n for p in (low, middle, high) for n in (-9, -3, -1, 0, 1, 4, 9)]
    inside = [p for p in near if low <= p <= high]
    steps = (1, 3, 7, high // 5)
    return [
        (first, end, step)
        for first, end, step in product(inside, inside, steps)
        if (count := max(0, -((first - end) // step))) <= MOST and first + count * step <= high
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", ["interpreter", "cpu"])
@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("bits", [32, 64])
def test_iterations_are_those_of_a_range(bits: int, unsigned: bool, on: str) -> None:
    module = read(program(bits, unsigned), num_warps=4)
    signed, kind = (np.int32, np.uint32) if bits == 32 else (np.int64, np.uint64)

    @for_each(("low", "high", "step"), bounds(bits, unsigned)[:: 1 if on == "cpu" else 5])
    def check(low: int, high: int, step: int) -> None:
        expected = list(range(low, high, step))
        out, count = np.zeros(MOST, signed), np.zeros(1, np.int32)
        numbers = [
            int(np.array(n, kind if n >= 0 else signed).view(signed)) for n in (low, high, step)
        ]
        executor(on).launch(module, "kernel", 1, [out, count, *numbers])
        assert count[0] == len(expected)
        read_back = out.view(kind) if unsigned else out
        assert read_back[: len(expected)].tolist() == expected

    check()
