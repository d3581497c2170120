"""Dots with fewer columns than the warps' instructions have: warps without columns read copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_module
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, I32, Builder, arg, pointer

ROWS, WIDTH = 16, 64


def attention(keys: int, *, by_rows: bool) -> Any:
    """C = the sum over i of (Q K[i]^T) V[i], with `keys` rows in a tile; K has them in memory
    `by_rows`, or transposed."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qkv"}
    with b.kernel("f", **kinds, c=pointer(F32), n=arg(I32)) as (q, k, v, c, n):
        columns = b.arange(WIDTH)[None, :]
        top, at = (b.arange(m)[:, None] * WIDTH + columns for m in (ROWS, keys))
        queries, total = (q + top).load(), b.var(b.full((ROWS, WIDTH), 0.0, F32))
        turned = b.arange(WIDTH)[:, None] * keys + b.arange(keys)[None, :]
        with b.for_(0, n, stages=2) as i:
            step, zero = i * (keys * WIDTH), b.full((ROWS, keys), 0.0, F32)
            if by_rows:
                right = b.trans((k + (at + step)).load(), order=[1, 0])
            else:
                right = (k + (turned + step)).load()
            scores = b.dot(queries, right, zero).to(F16)
            total.set(b.dot(scores, (v + (at + step)).load(), total.get()))
        (c + top).store(total.get())
    return b.module()


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize(("keys", "warps"), [(16, 4), (16, 8), (32, 8)])
def test_matrices_are_loaded_at_once(keys: int, warps: int, by_rows: bool) -> None:
    """A lane would load each word of a fragment, or each half of one."""
    options = Options(num_warps=warps)
    ptx = compile_module(attention(keys, by_rows=by_rows), "sm_80", options).ptx
    assert "ldmatrix" in ptx
    assert "ld.shared.b16" not in ptx and "ld.shared.b32" not in ptx


@pytest.mark.sampled(2)
@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize(("keys", "warps"), [(16, 4), (16, 8), (32, 8)])
def test_threads_agree(keys: int, warps: int, by_rows: bool) -> None:
    random, n = np.random.default_rng(keys), 2
    shapes = [(ROWS, WIDTH), (n, keys, WIDTH), (n, keys, WIDTH)]
    inputs = [random.integers(-1, 2, shape).astype(np.float16) for shape in shapes]
    module = attention(keys, by_rows=by_rows)
    expected, threads = np.full((2, ROWS, WIDTH), np.nan, np.float32)
    tileir.interpret(module, "f", (1,), [*inputs, expected, n])
    options: dict[str, Any] = {"num_warps": warps, "target": "sm_80"}
    SimtExecutor().launch(module, "f", (1,), [*inputs, threads, n], **options)
    np.testing.assert_array_equal(threads, expected)
