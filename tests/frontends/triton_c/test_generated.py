"""Generated programs agree with numpy; programs with mistakes are refused at a place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from tileir.frontends.triton_c import parse

from ..budget import PART, SEEDS, over
from ..imperative import WIDTH, decode
from ..malformed import is_refused, mistaken


@over(st.lists(st.integers(0, 11), max_size=60), st.integers(-99, 99), st.integers(-99, 99))
def test_generated_programs(numbers: list[int], n: int, m: int) -> None:
    check(numbers, n, m, "interpreter")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", ["simt", "cpu"])
@pytest.mark.parametrize("seed", range(3))
def test_generated_programs_on_threads_and_on_this_machine(seed: int, on: str) -> None:
    pytest.importorskip("llvmlite")
    numbers = np.random.default_rng(seed).integers(0, 12, 60).tolist()
    check(numbers, seed - 5, 7, on)


def check(numbers: list[int], n: int, m: int, on: str) -> None:
    program = decode(numbers)
    x = np.random.default_rng(len(numbers)).integers(-99, 99, 2 * WIDTH).astype(np.int32)
    out = np.zeros(4 * WIDTH, np.int32)
    parse(program.c(), "k.c").kernel()[(1,)](x, out, n, m, on=on)
    np.testing.assert_array_equal(out, program.run(x, n, m), program.c())


GENERATED = [decode(np.random.default_rng(s).integers(0, 12, 50).tolist()) for s in range(12)]
SOURCES = [
    *(program.c() for program in GENERATED),
    """#define N 16
const tunable int T = {16, 32};
float half(float x) { return x / 2; }
kernel void k(restrict read_only float* x, float* out, int n) {
  int i[T] = 0 ... T;
  int j[1, N] = (0 ... N)[newaxis, :];
  bool low[T] = i < n;
  float v[T] = low ? *(x + i) : 0;
  @low *(out + i) = half(v);
  float s = sum(v, 0);
  do { s = s - 1; if (s < -9) break; } while (s > 0);
}
""",
]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_malformed_programs_end_in_errors_with_a_place(seed: int) -> None:
    count = sum(
        is_refused(lambda text: parse(text, "k.c").module(), source)
        for source in mistaken(SOURCES, PART, seed)
    )
    assert count > PART // 3
