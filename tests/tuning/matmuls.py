"""A matmul with parameters, as other processes can be sent it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tileir.backend.tuning import ParameterRole, Problem, Space, TuningParameter, content_of
from tileir.builder import F16, F32, I32, Builder, arg, pointer


def make(M: int, N: int, K: int) -> Any:
    """C [m, n] = A [m, k] B [k, n] in f16, accumulators in f32, one tile an instance."""
    b = Builder()
    buffers = {x: arg(pointer(F16), aligned=16) for x in "abc"}
    sizes = {x: arg(I32, multiple_of=16) for x in "mnk"}
    with b.kernel("matmul", **buffers, **sizes) as (x, y, z, m, n, k):
        rows = (b.program_id(axis=0) * M + b.arange(M))[:, None]
        columns = (b.program_id(axis=1) * N + b.arange(N))[None, :]
        depth = b.arange(K)
        total = b.var(b.full((M, N), 0.0, F32))
        with b.for_(0, k, K) as at:
            along = at + depth
            inside = along < k
            low = (rows < m).broadcast_to(M, K) & inside[None, :].broadcast_to(M, K)
            high = (columns < n).broadcast_to(K, N) & inside[:, None].broadcast_to(K, N)
            left = (x + (rows * k + along[None, :])).load(low, 0.0)
            right = (y + (along[:, None] * n + columns)).load(high, 0.0)
            total.set(b.dot(left, right, total.get()))
        mask = (rows < m).broadcast_to(M, N) & (columns < n).broadcast_to(M, N)
        (z + (rows * n + columns)).store(total.get().to(F16), mask)
    return b.module()


def inputs(size: int) -> dict[str, Any]:
    drawn = np.random.default_rng(0)
    a, b = (drawn.standard_normal((size, size), np.float32).astype(np.float16) for _ in "ab")
    c = np.full((size, size), np.nan, np.float16)
    return {"a": a, "b": b, "c": c, **dict.fromkeys("mnk", size)}


def reference(inputs: Any) -> dict[str, Any]:
    exact = inputs["a"].astype(np.float32) @ inputs["b"].astype(np.float32)
    return {"c": exact.astype(np.float16)}


SPACE = Space(
    (
        TuningParameter("M", (32, 64, 128)),
        TuningParameter("N", (32, 64, 128)),
        TuningParameter("K", (32, 64)),
        TuningParameter("num_warps", (2, 4, 8), ParameterRole.OPTION),
        TuningParameter("num_stages", (2, 3, 4), ParameterRole.OPTION),
    )
)


def grid(size: int, point: Any) -> tuple[int, int]:
    return -(-size // point["M"]), -(-size // point["N"])


def problem(size: int, space: Space = SPACE, **rest: Any) -> Problem:
    attributes = {"expected": reference, **rest}
    return Problem(
        make, space, partial(grid, size), partial(inputs, size), content_of(make), "matmul",
        **attributes,
    )  # fmt: skip
