"""Dots of an outer loop, and the copies of an inner one, in the same bytes of shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, I32, Builder, arg, pointer

SIZE, TILE = 64, 64 * 64 * 2


def nested_matmuls() -> Any:
    """C = the sum over i of (A[i] A[i]^T) A[i] + the sum over j of A[i] B[j]."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    with b.kernel("k", **kinds, c=pointer(F32), n=arg(I32), m=arg(I32)) as (x, y, z, n, m):
        at = b.arange(SIZE)[:, None] * SIZE + b.arange(SIZE)[None, :]
        zero = b.full((SIZE, SIZE), 0.0, F32)
        total = b.var(zero)
        with b.for_(0, n, stages=1) as i:
            left = (x + (at + i * SIZE**2)).load()
            square = b.dot(left, b.trans(left, order=[1, 0]), zero).to(F16)
            total.set(b.dot(square, left, total.get()))
            with b.for_(0, m, stages=3) as j:
                total.set(b.dot(left, (y + (at + j * SIZE**2)).load(), total.get()))
        (z + at).store(total.get())
    return b.module()


def test_bytes_of_stored_operands_serve_the_inner_loop() -> None:
    """The loop needs three stages and A; the dots before it need A again."""
    module, random = nested_matmuls(), np.random.default_rng(0)
    inputs = [random.integers(-1, 2, (3, SIZE, SIZE)).astype(np.float16) for _ in "ab"]
    expected, actual = np.full((2, SIZE, SIZE), np.nan, np.float32)
    tileir.interpret(module, "k", (1,), [*inputs, expected, 3, 3])
    SimtExecutor().launch(
        module, "k", (1,), [*inputs, actual, 3, 3], target="sm_90a", num_warps=4,
        warp_specialize=False,
    )  # fmt: skip
    np.testing.assert_array_equal(actual, expected)
    options = Options(num_warps=4, warp_specialize=False)
    assert compile_kernel(module, "sm_90a", options).plan.shared == 4 * TILE
