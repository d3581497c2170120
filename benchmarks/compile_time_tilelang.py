"""Milliseconds that TileLang takes from source to machine code, as one line of JSON.

    python benchmarks/compile_time_tilelang.py CAPABILITY [--first]

Compiles the kernels of `compile_time.py`. Run it with the Python that has TileLang; it needs
`nvcc`, but no GPU. Each kernel is compiled with an empty cache, after a warm-up kernel. `total` is
processor time including child processes, `clock` is wall-clock time. With `--first`, only one
kernel is compiled.
"""
# ruff: noqa: ANN201

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

FOLDER = tempfile.TemporaryDirectory()
os.environ["TILELANG_CACHE_DIR"] = FOLDER.name  # TileLang reads it during its import

import tilelang  # type: ignore[import-not-found]  # noqa: E402
import tilelang.language as T  # type: ignore[import-not-found]  # noqa: E402, N812
from tilelang import tvm  # type: ignore[import-not-found]  # noqa: E402


def add(block: int):
    n = T.dynamic("n")

    @T.prim_func
    def add(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32"),
            z: T.Tensor((n,), "float32")) -> None:  # fmt: skip
        with T.Kernel(T.ceildiv(n, block), threads=128) as b:
            for i in T.Parallel(block):
                z[b * block + i] = x[b * block + i] + y[b * block + i]

    return add


def softmax(block: int):
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def softmax(y: T.Tensor((m, n), "float32"), x: T.Tensor((m, n), "float32")) -> None:
        with T.Kernel(m, threads=128) as row:
            value = T.alloc_fragment((1, block), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for _, j in T.Parallel(1, block):
                value[_, j] = T.if_then_else(j < n, x[row, j], -T.infinity("float32"))
            T.reduce_max(value, top, dim=1)
            for i, j in T.Parallel(1, block):
                value[i, j] = T.exp(value[i, j] - top[i])
            T.reduce_sum(value, total, dim=1)
            for i, j in T.Parallel(1, block):
                if j < n:
                    y[row, j] = value[i, j] / total[i]

    return softmax


def matmul(rows: int, columns: int, depth: int):
    m, n, k = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")

    @T.prim_func
    def matmul(a: T.Tensor((m, k), "float16"), b: T.Tensor((k, n), "float16"),
               c: T.Tensor((m, n), "float32")) -> None:  # fmt: skip
        with T.Kernel(T.ceildiv(m, rows), T.ceildiv(n, columns), threads=128) as (i, j):
            left = T.alloc_shared((rows, depth), "float16")
            right = T.alloc_shared((depth, columns), "float16")
            acc = T.alloc_fragment((rows, columns), "float32")
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=3):
                T.copy(a[i * rows, step * depth], left)
                T.copy(b[step * depth, j * columns], right)
                T.gemm(left, right, acc)
            T.copy(acc, c[i * rows, j * columns])

    return matmul


def seconds() -> float:
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def compile_times(kernel: Callable[..., Any], architecture: str, *extents: int) -> dict[str, float]:
    """Milliseconds to compile a kernel, including reading its source."""
    target = tvm.target.Target({"kind": "cuda", "arch": architecture})
    start, used = time.perf_counter(), seconds()
    with target:
        lowered = tilelang.lower(kernel(*extents), target=target, enable_device_compile=True)
    total, clock = seconds() - used, time.perf_counter() - start
    assert lowered.device_mod is not None
    assert lowered.kernel_source
    return {"total": 1000 * total, "clock": 1000 * clock}


def main() -> None:
    capability = sys.argv[1]
    architecture = f"sm_{capability}" + ("a" if capability == "90" else "")
    with FOLDER, contextlib.redirect_stdout(io.StringIO()):
        if "--first" in sys.argv:
            compile_times(add, architecture, 1024)
            return
        compile_times(add, architecture, 256)
        times = {
            "add": compile_times(add, architecture, 1024),
            "softmax": compile_times(softmax, architecture, 1024),
            "matmul": compile_times(matmul, architecture, 128, 128, 64),
        }
    print(json.dumps(times))


if __name__ == "__main__":
    main()
