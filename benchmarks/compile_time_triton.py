"""Milliseconds that Triton takes from source to machine code, as one line of JSON.

    python benchmarks/compile_time_triton.py CAPABILITY [--first]

Compiles the kernels of `compile_time.py`. Run it with the Python that has Triton; it needs no GPU.
Each kernel is compiled with an empty cache, after a warm-up kernel. `total` is processor time
including child processes, `clock` is wall-clock time. With `--first`, only one kernel is compiled.
"""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import tempfile
import time
from typing import Any

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]
from triton.compiler import ASTSource  # type: ignore[import-not-found]


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < n
    tl.store(z + place, tl.load(x + place, mask=mask) + tl.load(y + place, mask=mask), mask=mask)


@triton.jit
def softmax(y, x, n, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    place = tl.program_id(0) * n + column
    value = tl.load(x + place, mask=column < n, other=-float("inf"))
    top = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + place, top / tl.sum(top, axis=0), mask=column < n)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        along = start + tl.arange(0, K)
        left_in = (i[:, None] < m) & (along[None, :] < k)
        left = tl.load(a + i[:, None] * k + along[None, :], mask=left_in, other=0.0)
        right_in = (along[:, None] < k) & (j[None, :] < n)
        right = tl.load(b + along[:, None] * n + j[None, :], mask=right_in, other=0.0)
        acc = tl.dot(left, right, acc)
    tl.store(c + i[:, None] * n + j[None, :], acc, mask=(i[:, None] < m) & (j[None, :] < n))


def seconds() -> float:
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def compile_times(kernel: Any, capability: int, element: str, **constants: int) -> dict[str, float]:
    """Milliseconds to compile `kernel`; pointers and sizes are multiples of 16."""
    names = kernel.arg_names
    kinds = dict.fromkeys("abxy", f"*{element}") | {"c": "*fp32", "z": "*fp32"}
    signature = {n: "constexpr" if n in constants else kinds.get(n, "i32") for n in names}
    fixed = {(names.index(name),): value for name, value in constants.items()}
    attributes = {
        (i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if n not in constants
    }
    start, used = time.perf_counter(), seconds()
    source = ASTSource(kernel, signature, fixed, attributes)
    triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4})
    total, clock = seconds() - used, time.perf_counter() - start
    return {"total": 1000 * total, "clock": 1000 * clock}


def main() -> None:
    capability = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(None):
        os.environ["TRITON_CACHE_DIR"] = folder
        if "--first" in sys.argv:
            compile_times(add, capability, "fp32", BLOCK=1024)
            return
        compile_times(add, capability, "fp32", BLOCK=256)
        times = {
            "add": compile_times(add, capability, "fp32", BLOCK=1024),
            "softmax": compile_times(softmax, capability, "fp32", BLOCK=1024),
            "matmul": compile_times(matmul, capability, "fp16", M=128, N=128, K=64),
        }
    print(json.dumps(times))


if __name__ == "__main__":
    main()
