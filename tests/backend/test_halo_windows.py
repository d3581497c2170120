"""Generated windows under masks of every form: the pass `stage-halo` keeps what they load, and
loads no element that they did not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tileir
from tests.sizes import for_each
from tileir.backend.executors import SimtExecutor
from tileir.backend.halo.stage_halo import stage_halo
from tileir.builder import F32, I32, I64, Builder, arg, pointer

FORMS = ("block", "loop", "block in a loop", "loop in a loop", "loop with two counters")
LARGEST = 2**31 - 1
SIZE = 40
"""Elements of the input: what is read beyond them is an error."""


def bound(chance: random.Random, index: Any, limit: Any, above: bool) -> Any:
    """A comparison of an index with a limit, written in one of several ways."""
    way = chance.randrange(4)
    if above:
        return (index < limit, index <= limit, limit > index, limit >= index)[way]
    return (index > limit, index >= limit, limit < index, limit <= index)[way]


def windows(seed: int, form: str) -> Any:
    """A kernel that adds up windows of rows or of matrices whose elements are 1 or 2 elements
    apart, under up to three bounds: of an index along a dimension, or of a position."""
    chance, b = random.Random(f"{form} {seed}"), Builder()
    kinds = dict.fromkeys("xy", arg(pointer(F32), noalias=True)) | dict.fromkeys("nmk", I32)
    taps, step = chance.randint(2, 4), chance.choice((1, 1, 2))
    shape = chance.choice(((16,), (16,), (4, 8), (2, 8)))
    steps = [chance.choice((1, 1, 2, 8)) for _ in shape]
    steps[-1] = 1
    volatile = chance.random() < 0.1
    drawn = [(chance.randrange(3), chance.random() < 0.7) for _ in range(chance.randrange(4))]
    ways = random.Random(seed)
    with b.kernel("windows", **kinds) as (x, y, n, m, k):
        axes = [b.arange(extent) for extent in shape]
        index = axes if len(axes) == 1 else [axes[0][:, None], axes[1][None, :]]
        total = b.var(b.full(shape, 0.0, F32))

        def read(tap: Any, base: Any) -> None:
            at = tap * step + sum(i * s for i, s in zip(index, steps, strict=True)) + base
            ways.seed(seed)  # all windows have one mask
            masks = [
                bound(ways, (at, index[0], index[-1])[what], (n, m, k)[number], above)
                for number, (what, above) in enumerate(drawn)
            ]
            mask = None
            for one in masks:
                one = one.broadcast_to(*shape)
                mask = one if mask is None else mask & one
            extra = {"volatile": True} if volatile else {}
            value = (x + at).load(*(() if mask is None else (mask, 0.0)), **extra)
            total.set(total.get() * 0.5 + value)

        def counted_twice() -> None:
            """The counter that addresses are made of wraps to the least number."""
            first = LARGEST - chance.randint(0, taps)
            other = b.var(b.constant(I32, first))
            with b.for_(0, taps):
                place = other.get().to(I64) - first
                at = b.arange(16).to(I64) + place
                mask = (at >= 0) & (at < n.to(I64))
                total.set(total.get() * 0.5 + (x + at).load(mask, 0.0))
                other.set(b.add(other.get(), 1))

        def loop(base: Any) -> None:
            with b.for_(0, taps) as tap:
                read(tap, base)

        def block(base: Any) -> None:
            for tap in range(taps):
                read(tap, base)

        if form == "loop with two counters":
            total = b.var(b.full((16,), 0.0, F32))
            shape, index = (16,), [b.arange(16)]
            steps[:] = [1]
            counted_twice()
        elif form in ("block", "loop"):
            (loop if form == "loop" else block)(0)
        else:
            with b.for_(0, 3) as i:
                (loop if form.startswith("loop") else block)(i)
        place = sum(i * s for i, s in zip(index, (*shape[1:], 1), strict=True))
        (y + place).store(total.get())
    return b.module()


def launches(seed: int) -> Iterator[list[Any]]:
    chance = np.random.default_rng(seed)
    x = chance.integers(-8, 9, SIZE).astype(np.float32)
    for _ in range(2):
        yield [x, np.zeros(32, np.float32), *map(int, chance.integers(0, 20, 3))]


def outcome(module: Any, arguments: list[Any]) -> np.ndarray | None:
    """What the kernel writes; None where it reads outside."""
    inputs = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        tileir.interpret(module, "windows", (1,), inputs)
    except tileir.TileirError:
        return None
    return inputs[1]


@for_each("seed", range(40))
@pytest.mark.parametrize("form", FORMS)
def test_windows_mean_what_they_meant(form: str, seed: int) -> None:
    module = windows(seed, form)
    changed: Any = stage_halo(module, gain=0).ir
    before, after = (
        [op.pointer.type for op in m.kernel().ops if getattr(op, "volatile", False)]
        for m in (module, changed)
    )
    assert before == after, "volatile accesses stay"
    if changed is module:
        return
    for arguments in launches(seed):
        expected = outcome(module, arguments)
        if expected is not None:
            np.testing.assert_array_equal(outcome(changed, arguments), expected)


@pytest.mark.sampled(1, by="form")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(8))
def test_threads_read_what_was_staged(seed: int, form: str) -> None:
    """Without races, of several warps, as often as a loop around repeats it."""
    module = windows(seed, form)
    for arguments in launches(seed):
        expected, actual = outcome(module, arguments), arguments
        if expected is not None:
            SimtExecutor().launch(module, "windows", (1,), actual, num_warps=2)
            np.testing.assert_array_equal(actual[1], expected)


@pytest.mark.parametrize("form", FORMS[:-1])
def test_windows_are_staged(form: str) -> None:
    modules = [windows(seed, form) for seed in range(40)]
    assert sum(stage_halo(m, gain=0).ir is not m for m in modules) > 5
