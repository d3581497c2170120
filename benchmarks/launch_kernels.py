"""The kernels of `launch_table.py`, which import either tileir's frontend or Triton."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

OURS = """\
from tileir.frontends.triton import Config, autotune, heuristics, jit, language as tl
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor
"""
TRITON = """\
from triton import Config, autotune, heuristics, jit, language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
"""

SOURCE = '''
@jit
def add(x, y, z, n, m, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < m)
    tl.store(z + at, value, mask=at < n)


@jit
def add_pair(pair, z, n, m, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(pair[0] + at, mask=at < n) + tl.load(pair[1] + at, mask=at < m)
    tl.store(z + at, value, mask=at < n)


@jit
def gram(a, c, n, k, BLOCK: tl.constexpr):
    """c += a transpose(a), of which one tensor map describes a."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, 64):
        j = start + tl.arange(0, 64)
        inside = (i[:, None] < n) & (j[None, :] < k)
        x = tl.load(a + i[:, None] * k + j[None, :], mask=inside, other=0.0)
        total = tl.dot(x, tl.trans(x), total)
    tl.atomic_add(c + i[:, None] * BLOCK + i[None, :], total)


@jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        r = start + tl.arange(0, K)
        rows, columns = (i[:, None] < m) & (r[None, :] < k), (r[:, None] < k) & (j[None, :] < n)
        x = tl.load(a + i[:, None] * k + r[None, :], mask=rows, other=0.0)
        y = tl.load(b + r[:, None] * n + j[None, :], mask=columns, other=0.0)
        total = tl.dot(x, y, total)
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(c + i[:, None] * n + j[None, :], total.to(tl.float16), mask=inside)


@jit
def matmuls(a, b, c, d, e, f, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """c = a b and f = d e."""
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    first = tl.zeros((M, N), dtype=tl.float32)
    second = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        r = start + tl.arange(0, K)
        rows, columns = (i[:, None] < m) & (r[None, :] < k), (r[:, None] < k) & (j[None, :] < n)
        left, right = i[:, None] * k + r[None, :], r[:, None] * n + j[None, :]
        x = tl.load(a + left, mask=rows, other=0.0)
        y = tl.load(b + right, mask=columns, other=0.0)
        first = tl.dot(x, y, first)
        x = tl.load(d + left, mask=rows, other=0.0)
        y = tl.load(e + right, mask=columns, other=0.0)
        second = tl.dot(x, y, second)
    inside, where = (i[:, None] < m) & (j[None, :] < n), i[:, None] * n + j[None, :]
    tl.store(c + where, first.to(tl.float16), mask=inside)
    tl.store(f + where, second.to(tl.float16), mask=inside)


@jit
def described(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        total = tl.dot(a.load([i, start]), b.load([start, j]), total)
    c.store([i, j], total.to(tl.float16))


@jit
def running(x, out, n, BLOCK: tl.constexpr):
    """Running totals of rows, each stored before the next load: two versions, by overlap."""
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(n):
        tl.store(out + i * BLOCK + at, total)
        total += tl.load(x + i * BLOCK + at)


TILES = [{"M": 64, "N": 64, "K": 64}, {"M": 64, "N": 128, "K": 64}]
tuned_add = autotune([Config({"BLOCK": 128}), Config({"BLOCK": 256})], key=["n"])(add)
tuned_matmul = autotune(
    [Config(tile, num_warps=4) for tile in TILES], key=["m", "n", "k"]
)(matmul)
chosen_add = heuristics({"BLOCK": lambda values: 128 if values["n"] > 64 else 64})(add)
'''


def import_source(folder: Path, name: str, source: str) -> ModuleType:
    """Import `source` as the module `name`. It is written to a file in `folder`, since frontends
    read the source of kernels from files."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
