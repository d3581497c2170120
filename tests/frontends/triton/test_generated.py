"""Generated kernels agree with numpy; kernels with mistakes are refused at a place."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
from hypothesis import strategies as st

from tileir import TileirError

from ..budget import PART, SEEDS, over
from ..imperative import WIDTH, decode
from ..malformed import mistaken
from .sources import kernel_of


@over(st.lists(st.integers(0, 11), max_size=60), st.integers(-99, 99), st.integers(2, 99))
def test_generated_kernels(numbers: list[int], n: int, m: int) -> None:
    check(numbers, n, m, "interpreter")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", ["simt", "cpu"])
@pytest.mark.parametrize("seed", range(3))
def test_generated_kernels_on_threads_and_on_this_machine(seed: int, on: str) -> None:
    pytest.importorskip("llvmlite")
    numbers = np.random.default_rng(seed).integers(0, 12, 60).tolist()
    check(numbers, seed - 5, 7, on)


def check(numbers: list[int], n: int, m: int, on: str) -> None:
    program = decode(numbers)
    x = np.random.default_rng(len(numbers)).integers(-99, 99, 2 * WIDTH).astype(np.int32)
    out = np.zeros(4 * WIDTH, np.int32)
    kernel_of(program.python())[(1,)](x, out, n, m, on=on)
    np.testing.assert_array_equal(out, program.run(x, n, m), program.python())


GENERATED = [decode(np.random.default_rng(s).integers(0, 12, 50).tolist()) for s in range(12)]
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


def hinted_copy(multiple: int, width: int, stride: int, place: int, n: int) -> str:
    """A kernel that copies rows of x, backwards where `place` is odd, with hints that are true: a
    row begins at a multiple of `multiple` whatever n is, and its elements are next to each
    other."""
    row = f"row * {stride * multiple} + tl.multiple_of(n * {multiple}, {multiple})"
    lanes = f"tl.max_contiguous(tl.multiple_of(start + tl.arange(0, {width}), {multiple}), {width})"
    index = [lanes, f"tl.multiple_of(start, {multiple}) + tl.arange(0, {width})"][place // 2 % 2]
    target = f"row * {width} + " + (
        f"{width - 1} - tl.arange(0, {width})" if place % 2 else f"tl.arange(0, {width})"
    )
    return (
        f"def k(x, out, n, m):\n    row = tl.program_id(0)\n    start = {row}\n"
        f"    index = {index}\n"
        f"    value = tl.load(x + index, mask=index < m, other=-1)\n"
        f"    tl.store(out + {target}, value)\n"
    )


@over(
    st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([4, 8, 16, 32, 128]), st.integers(0, 9),
    st.integers(0, 3), st.integers(0, 7), st.integers(0, 300),
    st.sampled_from(["interpreter", "simt"]),
)  # fmt: skip
def test_hints_that_are_true_change_nothing(
    multiple: int, width: int, stride: int, place: int, n: int, m: int, on: str
) -> None:
    if on == "simt":
        pytest.importorskip("llvmlite")
    if place // 2 % 2 == 0:
        width = max(width, multiple)
    source, rows = hinted_copy(multiple, width, stride, place, n), 3
    x = np.random.default_rng(m).integers(-99, 99, 1024).astype(np.int32)
    out = np.zeros((rows, width), np.int32)
    kernel_of(source)[(rows,)](x, out, n, m, on=on)
    index = np.arange(rows)[:, None] * stride * multiple + n * multiple + np.arange(width)
    expected = np.where(index < m, x[index % 1024], -1)
    np.testing.assert_array_equal(out, expected[:, ::-1] if place % 2 else expected, source)
