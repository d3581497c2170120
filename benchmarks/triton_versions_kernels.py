"""The kernels of the version matrix, in stock Triton, and their expected results.

A case is a function that returns launches and results. It needs only numpy and Triton: its tensors
are host arrays (`HostTensor`), so every release of Triton can run it without torch.
"""
# ruff: noqa: ANN001, ANN002, ANN201, ANN202

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import checks
import ml_dtypes
import numpy as np
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from triton_shared_kernels import (  # type: ignore[import-not-found]
    attention_kernel,
    matmul_kernel,
)


def allocate(count: int) -> Any:
    """Bytes of zeros, as an array."""
    return np.zeros(count, np.uint8)


class HostTensor:
    """A host array in the form in which Triton takes tensors: by its address and the name of its
    dtype. Its storage is `array`, which is aligned to 16 bytes."""

    is_cpu = True

    def __init__(self, array: Any) -> None:
        memory = allocate(array.nbytes + 16)
        start = -memory.ctypes.data % 16
        window = memory[start : start + array.nbytes]
        self.array: Any = window.view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.dtype = f"torch.{array.dtype}"
        self.shape = array.shape

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> HostTensor:
        return self

    def nbytes(self) -> int:
        return self.array.nbytes

    def stride(self, axis: int) -> int:
        """The stride along `axis`, in elements."""
        return self.array.strides[axis] // self.array.itemsize


class Launch(NamedTuple):
    """A kernel, its grid, its arguments by name and its options."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    options: dict[str, int] = {}


class Case(NamedTuple):
    """Launches in order; results, each with its expected value and its tolerance; and `memory`, the
    arrays that kernels access by addresses that are not arguments."""

    launches: Sequence[Launch]
    results: Sequence[tuple[HostTensor, Any, float]]
    memory: Sequence[HostTensor] = ()

    def check(self) -> None:
        """Raise AssertionError if a result is wrong."""
        for result, expected, tolerance in self.results:
            exact = checks.host(expected)
            why = checks.fault(result.array, exact, tolerance * (1 + abs(exact)))
            assert why is None, why


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def chance(*shape, dtype=np.float32, seed=0):
    """Normally distributed numbers."""
    return HostTensor(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype))


def empty(*shape, dtype=np.float32):
    return HostTensor(np.zeros(shape, dtype))


def value(tensor):
    return tensor.array.astype(np.float32)


# Rows ---------------------------------------------------------------------------------------------


@triton.jit
def add_kernel(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@case
def add():
    x, y, z = chance(1000), chance(1000, seed=1), empty(1000)
    arguments = {"x": x, "y": y, "z": z, "n": 1000, "B": 256}
    return Case([Launch(add_kernel, (4,), arguments)], [(z, value(x) + value(y), 0)])


@triton.jit
def softmax_kernel(x, y, rows, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + row * n + i, e / tl.sum(e, 0), mask=i < n)


@case
def softmax():
    x, y = chance(12, 200), empty(12, 200)
    e = np.exp(value(x) - value(x).max(1, keepdims=True))
    arguments = {"x": x, "y": y, "rows": 12, "n": 200, "B": 256}
    launch = Launch(softmax_kernel, (3,), arguments)
    return Case([launch], [(y, e / e.sum(1, keepdims=True), 1e-5)])


@triton.jit
def layer_norm_kernel(x, y, w, b, mean, rstd, n, eps, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    m = tl.sum(v, 0) / n
    d = tl.where(i < n, v - m, 0.0)
    s = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, s)
    y_row = d * s * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n)
    tl.store(y + row * n + i, y_row, mask=i < n)


def _statistics(x):
    mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    return mean, 1 / np.sqrt(variance + 1e-5)


@case
def layer_norm():
    x, y, w, b = chance(8, 100), empty(8, 100), chance(100), chance(100, seed=1)
    mean, rstd = empty(8), empty(8)
    exact_mean, exact_rstd = _statistics(value(x))
    normal = (value(x) - exact_mean) * exact_rstd
    tensors = {"x": x, "y": y, "w": w, "b": b, "mean": mean, "rstd": rstd}
    launch = Launch(layer_norm_kernel, (8,), {**tensors, "n": 100, "eps": 1e-5, "B": 128})
    return Case(
        [launch],
        [(y, normal * value(w) + value(b), 1e-4), (rstd, exact_rstd[:, 0], 1e-4)],
    )


@triton.jit
def layer_norm_dx_kernel(
    dx, dy, dw, db, x, w, mean, rstd, lock, n, GROUPS: tl.constexpr, B: tl.constexpr
):
    """Gradients of a row; those of weights are added up by groups of rows, each with a lock."""
    row, i = tl.program_id(0), tl.arange(0, B)
    inside = i < n
    v = tl.load(x + row * n + i, mask=inside, other=0.0)
    g = tl.load(dy + row * n + i, mask=inside, other=0.0)
    s, gain = tl.load(rstd + row), tl.load(w + i, mask=inside, other=0.0)
    h = tl.where(inside, (v - tl.load(mean + row)) * s, 0.0)
    gw = tl.where(inside, gain * g, 0.0)
    a, c = tl.sum(h * gw, 0) / n, tl.sum(gw, 0) / n
    tl.store(dx + row * n + i, (gw - (h * a + c)) * s, mask=inside)
    group = row % GROUPS
    count = lock + GROUPS + group
    dw += group * n + i
    db += group * n + i
    part_w, part_b = g * h, g
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(dw, mask=inside)
        part_b += tl.load(db, mask=inside)
    tl.store(dw, part_w, mask=inside)
    tl.store(db, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@triton.jit
def layer_norm_dw_kernel(dw, db, to_w, to_b, m, n, M: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    acc_w, acc_b = tl.zeros((M, B), tl.float32), tl.zeros((M, B), tl.float32)
    for start in range(0, m, M):
        r = start + tl.arange(0, M)
        inside = (r[:, None] < m) & (i[None] < n)
        acc_w += tl.load(dw + r[:, None] * n + i[None], mask=inside, other=0.0)
        acc_b += tl.load(db + r[:, None] * n + i[None], mask=inside, other=0.0)
    tl.store(to_w + i, tl.sum(acc_w, 0), mask=i < n)
    tl.store(to_b + i, tl.sum(acc_b, 0), mask=i < n)


@case
def layer_norm_backward():
    m, n, groups = 6, 100, 4
    x, dy, w, dx = chance(m, n), chance(m, n, seed=1), chance(n), empty(m, n)
    dw, db, to_w, to_b = empty(groups, n), empty(groups, n), empty(n), empty(n)
    mean, rstd = _statistics(value(x))
    h, g = (value(x) - mean) * rstd, value(dy)
    gw = g * value(w)
    a, c = (h * gw).mean(1, keepdims=True), gw.mean(1, keepdims=True)
    lock = empty(2 * groups, dtype=np.int32)
    tensors = {"dx": dx, "dy": dy, "dw": dw, "db": db, "x": x, "w": w}
    statistics = {"mean": HostTensor(mean[:, 0]), "rstd": HostTensor(rstd[:, 0])}
    first = {**tensors, **statistics, "lock": lock, "n": n, "GROUPS": groups, "B": 128}
    second = {"dw": dw, "db": db, "to_w": to_w, "to_b": to_b, "m": groups, "n": n}
    launches = [
        Launch(layer_norm_dx_kernel, (m,), first),
        Launch(layer_norm_dw_kernel, (4,), {**second, "M": 32, "B": 32}),
    ]
    expected = [(dx, (gw - (h * a + c)) * rstd), (to_w, (g * h).sum(0)), (to_b, g.sum(0))]
    return Case(launches, [(result, exact, 1e-4) for result, exact in expected])


@triton.jit
def dropout_kernel(x, y, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


def uniform(seed, count):
    """The result of `tl.rand(seed, range(count))`."""
    words = checks.philox([np.arange(count), 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])[0]
    words = words.astype(np.uint32).view(np.int32).astype(np.int64)
    return (np.where(words < 0, -words - 1, words) * 4.6566127342e-10).astype(np.float32)


@case
def dropout():
    x, y = chance(1000), empty(1000)
    kept = uniform(123, 1000) > 0.3
    arguments = {"x": x, "y": y, "n": 1000, "p": 0.3, "seed": 123, "B": 256}
    launch = Launch(dropout_kernel, (4,), arguments)
    return Case([launch], [(y, np.where(kept, value(x) / 0.7, 0), 1e-5)])


# Matmuls ------------------------------------------------------------------------------------------


@case
def matmul():
    m, n, k = 80, 72, 96
    a, b, c = chance(m, k, dtype=np.float16), chance(k, n, dtype=np.float16), empty(m, n)
    blocks = {"M": 64, "N": 64, "K": 32, "G": 8}
    launch = Launch(matmul_kernel, (4,), {"a": a, "b": b, "c": c, "m": m, "n": n, "k": k, **blocks})
    return Case([launch], [(c, value(a) @ value(b), 1e-3)])


@triton.jit
def persistent_matmul_kernel(
    a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr
):
    right = tl.cdiv(n, N)
    tiles = tl.cdiv(m, M) * right
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        i = tile // right * M + tl.arange(0, M)
        j = tile % right * N + tl.arange(0, N)
        acc = tl.zeros((M, N), tl.float32)
        for start in range(tl.cdiv(k, K)):
            along = start * K + tl.arange(0, K)
            x = tl.load(a + i[:, None] * k + along[None],
                        mask=(i[:, None] < m) & (along[None] < k), other=0.0)  # fmt: skip
            y = tl.load(b + along[:, None] * n + j[None],
                        mask=(along[:, None] < k) & (j[None] < n), other=0.0)  # fmt: skip
            acc = tl.dot(x, y, acc)
        inside = (i[:, None] < m) & (j[None] < n)
        tl.store(c + i[:, None] * n + j[None], acc.to(c.dtype.element_ty), mask=inside)


@case
def persistent_matmul():
    m, n, k = 100, 136, 64
    a, b, c = chance(m, k, dtype=ml_dtypes.bfloat16), chance(k, n, dtype=ml_dtypes.bfloat16), 0
    c = empty(m, n)
    blocks = {"M": 64, "N": 64, "K": 32, "PROGRAMS": 3}
    arguments = {"a": a, "b": b, "c": c, "m": m, "n": n, "k": k, **blocks}
    launch = Launch(persistent_matmul_kernel, (3,), arguments)
    return Case([launch], [(c, value(a) @ value(b), 1e-3)])


if hasattr(tl, "make_tensor_descriptor"):

    @triton.jit
    def descriptor_matmul_kernel(
        a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
    ):
        first = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[M, K])
        second = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[K, N])
        to = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[M, N])
        i, j = tl.program_id(0) * M, tl.program_id(1) * N
        acc = tl.zeros((M, N), tl.float32)
        for start in range(0, k, K):
            acc = tl.dot(first.load([i, start]), second.load([start, j]), acc)
        to.store([i, j], acc.to(tl.float16))

    @case
    def descriptor_matmul():
        m, n, k = 80, 72, 96
        a, b, c = (chance(*s, dtype=np.float16) for s in ((m, k), (k, n), (m, n)))
        arguments = {"a": a, "b": b, "c": c, "m": m, "n": n, "k": k, "M": 64, "N": 64, "K": 32}
        launch = Launch(descriptor_matmul_kernel, (2, 2), arguments)
        return Case([launch], [(c, value(a) @ value(b), 1e-2)])


@triton.jit
def grouped_matmul_kernel(
    lefts, rights, outs, sizes, groups, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """Matmuls of several sizes, by tables of addresses, in one launch."""
    tile, last = tl.program_id(0), 0
    for g in range(groups):
        m, n, k = (
            tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        )  # fmt: skip
        right = tl.cdiv(n, N)
        count = tl.cdiv(m, M) * right
        while tile >= last and tile < last + count:
            a = tl.load(lefts + g).to(tl.pointer_type(tl.float16))
            b = tl.load(rights + g).to(tl.pointer_type(tl.float16))
            c = tl.load(outs + g).to(tl.pointer_type(tl.float16))
            i = (tile - last) // right * M + tl.arange(0, M)
            j = (tile - last) % right * N + tl.arange(0, N)
            along = tl.arange(0, K)
            acc = tl.zeros((M, N), tl.float32)
            for start in range(0, k, K):
                kk = start + along
                x = tl.load(a + i[:, None] * k + kk[None],
                            mask=(i[:, None] < m) & (kk[None] < k), other=0.0)  # fmt: skip
                y = tl.load(b + kk[:, None] * n + j[None],
                            mask=(kk[:, None] < k) & (j[None] < n), other=0.0)  # fmt: skip
                acc = tl.dot(x, y, acc)
            inside = (i[:, None] < m) & (j[None] < n)
            tl.store(c + i[:, None] * n + j[None], acc.to(tl.float16), mask=inside)
            tile += tl.num_programs(0)
        last += count


@case
def grouped_matmul():
    sizes = np.array([[64, 64, 32], [40, 96, 64], [96, 32, 48]], np.int32)
    a = [chance(m, k, dtype=np.float16) for m, _, k in sizes]
    b = [chance(k, n, dtype=np.float16) for _, n, k in sizes]
    c = [empty(m, n, dtype=np.float16) for m, n, _ in sizes]

    def table(tensors):
        return HostTensor(np.array([t.data_ptr() for t in tensors], np.int64))

    tables = {"lefts": table(a), "rights": table(b), "outs": table(c)}
    arguments = {**tables, "sizes": HostTensor(sizes), "groups": 3, "M": 32, "N": 32, "K": 32}
    launch = Launch(grouped_matmul_kernel, (4,), arguments)
    results = [(z, value(x) @ value(y), 2e-2) for x, y, z in zip(a, b, c, strict=True)]
    return Case([launch], results, [*a, *b, *c])


@triton.jit
def block_scaled_matmul_kernel(
    a, b, a_scale, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """Operands in f8, each 32 elements along K with a power of two."""
    i, j, along = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    part = tl.arange(0, K // 32)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, DEPTH, K):
        k, s = start + along, start // 32 + part
        x = tl.load(a + i[:, None] * DEPTH + k[None])
        y = tl.load(b + k[:, None] * N + j[None])
        sx = tl.load(a_scale + i[:, None] * (DEPTH // 32) + s[None])
        sy = tl.load(b_scale + j[:, None] * (DEPTH // 32) + s[None])
        acc = tl.dot_scaled(x, sx, "e4m3", y, sy, "e4m3", acc)
    tl.store(c + i[:, None] * N + j[None], acc)


@case
def block_scaled_matmul():
    m, n, k = 64, 64, 128
    kind, random = ml_dtypes.float8_e4m3fn, np.random.default_rng(0)
    a, b, c = chance(m, k, dtype=kind), chance(k, n, dtype=kind), empty(m, n)
    scales = [random.integers(124, 131, (s, k // 32)).astype(np.uint8) for s in (m, n)]
    left, right = (np.exp2(s.astype(np.float32) - 127).repeat(32, 1) for s in scales)
    tensors = {"a": a, "b": b, "a_scale": HostTensor(scales[0]), "b_scale": HostTensor(scales[1])}
    blocks = {"c": c, "M": m, "N": n, "K": 64, "DEPTH": k}
    launch = Launch(block_scaled_matmul_kernel, (1,), {**tensors, **blocks})
    return Case([launch], [(c, (value(a) * left) @ (value(b) * right.T), 2e-2)])


# Attention ----------------------------------------------------------------------------------------


@case
def attention():
    heads, n, d = 2, 128, 32
    q, k, v = (chance(heads, n, d, dtype=np.float16, seed=s) for s in range(3))
    out = empty(heads, n, d, dtype=np.float16)
    s = value(q) @ value(k).transpose(0, 2, 1) * d**-0.5
    s = np.where(np.tri(n, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(2, keepdims=True))
    tensors = {"q": q, "k": k, "v": v, "out": out}
    numbers = {"n": n, "scale": d**-0.5 * 1.4426950408889634, "M": 64, "N": 32, "D": d}
    launch = Launch(attention_kernel, (n // 64, heads), {**tensors, **numbers})
    return Case([launch], [(out, p / p.sum(2, keepdims=True) @ value(v), 5e-3)])
