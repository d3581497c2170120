"""Several matmuls of an iteration, each with its own accumulator, that a warp-specialized loop
leaves in flight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ops.hopper import MBarrierArrive, Wgmma, WgmmaWait

SIZE, DEPTH = 64, 32
OPTIONS = {"warp_specialize": True}


def two_matmuls(*, added: bool = False) -> Any:
    """A times B, and A times C; with `added`, A (B + (A C) D)) by a matmul after the loop."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16, noalias=True) for name in "abcd"}
    out = {name: arg(pointer(F32), aligned=16, noalias=True) for name in "yz"}
    with b.kernel("k", **kinds, **out, k=arg(I32, multiple_of=16)) as (x, p, q, r, y, z, k):
        rows, steps = b.arange(SIZE), b.arange(DEPTH)
        one, two = (b.var(b.full((SIZE, SIZE), 0.0, F32)) for _ in range(2))
        with b.for_(0, k, DEPTH) as start:
            along = steps + start
            left = (x + (rows[:, None] * k + along[None, :])).load()
            at = along[:, None] * SIZE + rows[None, :]
            one.set(b.dot(left, (p + at).load(), one.get()))
            two.set(b.dot(left, (q + at).load(), two.get()))
        at = rows[:, None] * SIZE + rows[None, :]
        total = one.get()
        if added:
            total = b.dot(two.get().to(F16), (r + at).load(), total)
        (y + at).store(total)
        (z + at).store(two.get())
    return b.module()


def results(launch: Any, module: Any, k: int, **options: Any) -> list[Any]:
    random = np.random.default_rng(k)
    shapes = (SIZE, k), (k, SIZE), (k, SIZE), (SIZE, SIZE)
    inputs = [random.integers(-1, 2, shape).astype(np.float16) for shape in shapes]
    out = [np.full((SIZE, SIZE), np.nan, np.float32) for _ in "yz"]
    launch(module, "k", (1,), [*inputs, *out, k], **options)
    return out


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_threads_agree(steps: int, added: bool) -> None:
    module = two_matmuls(added=added)
    expected = results(tileir.interpret, module, steps * DEPTH)
    by_threads = results(SimtExecutor().launch, module, steps * DEPTH, target="sm_90a", **OPTIONS)
    np.testing.assert_array_equal(by_threads, expected)


@pytest.mark.parametrize("added", [False, True])
def test_both_stay_in_flight(added: bool) -> None:
    module = compile_kernel(two_matmuls(added=added), "sm_90a", OPTIONS).tir_at("barriers")
    consumer = next(f for name, f in module.functions.items() if "consumer" in name)
    block = next(
        b for b in consumer.blocks.values() if sum(isinstance(op, Wgmma) for op in b.ops) == 2
    )
    kinds = [type(op) for op in block.ops if isinstance(op, (Wgmma, WgmmaWait, MBarrierArrive))]
    assert kinds[:4] == [Wgmma, Wgmma, WgmmaWait, WgmmaWait]
    assert kinds[4:] == [MBarrierArrive]
    assert [op.pending for op in block.ops if isinstance(op, WgmmaWait)] == [2, 2]
