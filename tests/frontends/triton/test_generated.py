"""Generated kernels agree with numpy; kernels with mistakes are refused at a place."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
from hypothesis import strategies as st

from tileir import TileirError

from ..budget import PART, SEEDS, over
from ..imperative import WIDTH, decoded
from ..malformed import mistaken
from .sources import kernel_of


@over(st.lists(st.integers(0, 11), max_size=60), st.integers(-99, 99), st.integers(2, 99))
def test_generated_kernels(numbers: list[int], n: int, m: int) -> None:
    check(numbers, n, m, "interpreter")


@pytest.mark.parametrize("on", ["simt", "cpu"])
@pytest.mark.parametrize("seed", range(3))
def test_generated_kernels_on_threads_and_on_this_machine(seed: int, on: str) -> None:
    pytest.importorskip("llvmlite")
    numbers = np.random.default_rng(seed).integers(0, 12, 60).tolist()
    check(numbers, seed - 5, 7, on)


def check(numbers: list[int], n: int, m: int, on: str) -> None:
    program = decoded(numbers)
    x = np.random.default_rng(len(numbers)).integers(-99, 99, 2 * WIDTH).astype(np.int32)
    out = np.zeros(4 * WIDTH, np.int32)
    kernel_of(program.python())[(1,)](x, out, n, m, on=on)
    np.testing.assert_array_equal(out, program.run(x, n, m), program.python())


GENERATED = [decoded(np.random.default_rng(s).integers(0, 12, 50).tolist()) for s in range(12)]
SOURCES = [
    *(program.python() for program in GENERATED),
    """def k(x, out, n, m):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
    v = tl.load(x + i, mask=i < n, other=0)
    w = tl.sum(v, axis=1)
    for j in range(0, n, 2):
        w += tl.where(w > j, w, -w)
    while m > 0:
        m -= 1
    tl.store(out + tl.arange(0, 16), w.to(tl.float32).to(tl.int32))
""",
    """def k(x, out, n, m: tl.constexpr):
    a = tl.load(x + tl.arange(0, m)[:, None] * m + tl.arange(0, m)[None, :])
    b = tl.trans(a).to(tl.float16)
    c = tl.dot(b, b) + tl.zeros((m, m), tl.float32)
    s, t = tl.max(c, 0), tl.exp(c)
    if n > 0 and m == 16:
        tl.atomic_add(out, tl.sum(s, 0).to(tl.int32))
    else:
        tl.store(out, 1 if n else 2)
""",
]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_malformed_kernels_end_in_errors_with_a_place(seed: int) -> None:
    """Kernels that are Python: others never come here."""
    tried = refused = 0
    for source in mistaken(SOURCES, 10 * PART, seed):
        try:
            kernel = kernel_of(source)
        except (SyntaxError, NameError, KeyError, ValueError, TypeError, AttributeError):
            continue
        tried += 1
        try:
            kernel.module({"x": "*i32", "out": "*i32", "n": "i32"}, {"m": 16})
        except TileirError as error:
            refused += 1
            assert error.code.startswith("TIR"), source
            assert error.location is not None or error.code == "TIR1005", source
        linecache.clearcache()
        if tried == PART:
            break
    assert tried == PART and refused > PART // 4
