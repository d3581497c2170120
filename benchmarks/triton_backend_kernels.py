"""Kernels for stock Triton. Each is a function that returns a launch and a check of its result.

`CASES` maps a name to `case(device, large)`, which returns a function that launches, and a check
that raises AssertionError if the result differs from torch's.
"""
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import checks
import torch  # type: ignore[import-not-found]
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from triton_shared_kernels import (  # type: ignore[import-not-found]
    attention_kernel,
    matmul_kernel,
)

Case = Callable[[str, bool], tuple[Callable[[], Any], Callable[[], None]]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


def right(result, exact, bound):
    """Raise AssertionError if elements of a result differ by more than `bound`."""
    why = checks.fault(result, exact, bound)
    assert why is None, why


def close(result, expected, rtol=1e-4, atol=1e-4):
    """Raise AssertionError if sampled rows of a result differ by more than `rtol` times an element
    plus `atol`, or if an element is not finite."""
    assert result.shape == expected.shape and result.isfinite().all()
    some, expected = checks.some_rows(result, expected)
    exact = checks.host(expected)
    right(some, exact, rtol * abs(exact) + atol)


@triton.jit
def add_kernel(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@case
def add(device, large):
    n = (1 << 25 if large else 1 << 12) - 3
    x, y = torch.randn(n, device=device), torch.randn(n, device=device)
    z = torch.empty_like(x)
    return lambda: add_kernel[(triton.cdiv(n, 1024),)](x, y, z, n, B=1024), lambda: close(z, x + y)


@triton.jit
def softmax_kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + tl.program_id(0) * n + i, e / tl.sum(e, 0), mask=i < n)


@case
def softmax(device, large):
    m, n = (8192, 4000) if large else (16, 1000)
    x = torch.randn(m, n, device=device).bfloat16()
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n)
    return (
        lambda: softmax_kernel[(m,)](x, y, n, B=block, num_warps=8),
        lambda: right(y[::16], *checks.softmax(x[::16], checks.UNITS["bf16"])),
    )


@triton.jit
def layer_norm_kernel(x, y, w, b, mean, rstd, n, eps, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0).to(tl.float32)
    m = tl.sum(v, 0) / n
    d = tl.where(i < n, v - m, 0.0)
    s = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(mean + r, m)
    tl.store(rstd + r, s)
    gain, shift = tl.load(w + i, mask=i < n), tl.load(b + i, mask=i < n)
    tl.store(y + r * n + i, d * s * gain + shift, mask=i < n)


@case
def layer_norm(device, large):
    m, n = (8192, 3000) if large else (8, 500)
    x, w, b = (torch.randn(*s, device=device) for s in ((m, n), (n,), (n,)))
    y, mean, rstd = torch.empty_like(x), x.new_empty(m), x.new_empty(m)
    block = triton.next_power_of_2(n)
    return (
        lambda: layer_norm_kernel[(m,)](x, y, w, b, mean, rstd, n, 1e-5, B=block, num_warps=8),
        lambda: close(y, torch.nn.functional.layer_norm(x, (n,), w, b), 1e-3, 1e-3),
    )


@triton.jit
def layer_norm_backward_kernel(dy, x, w, dx, n, eps, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    inside = i < n
    v = tl.load(x + r * n + i, mask=inside, other=0.0)
    g = tl.load(dy + r * n + i, mask=inside, other=0.0) * tl.load(w + i, mask=inside, other=0.0)
    m = tl.sum(v, 0) / n
    d = tl.where(inside, v - m, 0.0)
    s = tl.rsqrt(tl.sum(d * d, 0) / n + eps)
    h = d * s
    a, c = tl.sum(h * g, 0) / n, tl.sum(g, 0) / n
    tl.store(dx + r * n + i, (g - h * a - c) * s, mask=inside)


@case
def layer_norm_backward(device, large):
    m, n = (8192, 2048) if large else (8, 256)
    dy, x, w = (torch.randn(*s, device=device) for s in ((m, n), (m, n), (n,)))
    dx = torch.empty_like(x)

    def check():
        leaf = x.clone().requires_grad_()
        torch.nn.functional.layer_norm(leaf, (n,), w).backward(dy)
        close(dx, leaf.grad, 1e-3, 1e-3)

    start = lambda: layer_norm_backward_kernel[(m,)](dy, x, w, dx, n, 1e-5, B=n)  # noqa: E731
    return start, check


def _matmul(device, m, n, k, dtype, block, warps, unit, operands=0.0):
    a, b = (torch.randn(*s, device=device).to(dtype) for s in ((m, k), (k, n)))
    c = torch.empty(m, n, device=device, dtype=dtype)
    rows, columns, depth = block
    grid = (triton.cdiv(m, rows) * triton.cdiv(n, columns),)
    shape = {"M": rows, "N": columns, "K": depth, "G": 8}

    def check():
        some, others = checks.sample(m), checks.sample(n, seed=1)
        expected = checks.matmul(a[some], b[:, others], unit, operands=operands)
        right(c[some][:, others], *expected)

    start = lambda: matmul_kernel[grid](  # noqa: E731
        a, b, c, m, n, k, **shape, num_warps=warps, num_stages=3
    )
    return start, check


@case
def matmul_bf16(device, large):
    size = (4096, 4096, 4096) if large else (200, 136, 96)
    return _matmul(device, *size, torch.bfloat16, (128, 128, 64), 8, checks.UNITS["bf16"])


@case
def matmul_f32_tf32(device, large):
    size = (2048, 2048, 2048) if large else (64, 72, 80)
    lost = 2 * checks.UNITS["tf32"]
    return _matmul(device, *size, torch.float32, (64, 64, 32), 4, checks.UNITS["f32"], lost)


@case
def attention(device, large):
    heads, n, d = (64, 4096, 64) if large else (2, 128, 32)
    q, k, v = (torch.randn(heads, n, d, device=device).half() for _ in range(3))
    out, scale = torch.empty_like(q), d**-0.5
    grid, block = (n // 64, heads), {"M": 64, "N": 64, "D": d}

    def check():
        rows, unit = checks.sample(n), checks.UNITS["f16"]
        inputs = (x[None, :2] for x in (q, k, v))
        expected = checks.attention(*inputs, rows, causal=True, unit=unit, weights=unit)
        right(out[None, :2, rows], *expected)

    return lambda: attention_kernel[grid](
        q, k, v, out, n, scale * 1.4426950408889634, **block
    ), check


@triton.jit
def dropout_kernel(x, y, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


@case
def dropout(device, large):
    n = 1 << (24 if large else 14)
    x = torch.randn(n, device=device)
    y = torch.empty_like(x)

    def check():
        kept = y != 0
        assert abs(kept.float().mean().item() - 0.7) < 0.02
        close(y[kept], x[kept] / 0.7)

    return lambda: dropout_kernel[(n // 1024,)](x, y, n, 0.3, 123, B=1024), check


@triton.jit
def scan_kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    tl.store(y + tl.program_id(0) * n + i, tl.cumsum(v, 0), mask=i < n)


@case
def cumsum(device, large):
    m, n = (4096, 2000) if large else (4, 300)
    x = torch.rand(m, n, device=device)
    y, block = torch.empty_like(x), triton.next_power_of_2(n)
    return lambda: scan_kernel[(m,)](x, y, n, B=block), lambda: close(y, x.cumsum(-1), 1e-3, 1e-2)


@triton.jit
def argmax_kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    tl.store(y + tl.program_id(0), tl.argmax(v, 0))


@case
def argmax(device, large):
    m, n = (16384, 1000) if large else (8, 100)
    x, y = torch.randn(m, n, device=device), torch.empty(m, device=device, dtype=torch.int32)
    block = triton.next_power_of_2(n)
    return lambda: argmax_kernel[(m,)](x, y, n, B=block), lambda: close(y, x.argmax(-1))


@triton.jit
def embedding_kernel(index, table, out, d, B: tl.constexpr):
    row, i = tl.load(index + tl.program_id(0)), tl.arange(0, B)
    tl.store(out + tl.program_id(0) * d + i, tl.load(table + row * d + i, mask=i < d), mask=i < d)


@case
def embedding(device, large):
    rows, count, d = (32000, 16384, 1024) if large else (100, 50, 96)
    table = torch.randn(rows, d, device=device).bfloat16()
    index = torch.randint(rows, (count,), device=device)
    out, block = table.new_empty(count, d), triton.next_power_of_2(d)
    return (
        lambda: embedding_kernel[(count,)](index, table, out, d, B=block),
        lambda: close(out, table[index], 0, 0),
    )


@triton.jit
def cross_entropy_kernel(logits, target, loss, n, B: tl.constexpr):
    row = tl.program_id(0)
    top, total = -float("inf"), 0.0
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        v = tl.load(logits + row * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(v - higher), 0)
        top = higher
    chosen = tl.load(logits + row * n + tl.load(target + row)).to(tl.float32)
    tl.store(loss + row, tl.log(total) + top - chosen)


@case
def cross_entropy(device, large):
    m, n = (4096, 32000) if large else (4, 3000)
    logits, target = torch.randn(m, n, device=device), torch.randint(n, (m,), device=device)
    loss = logits.new_empty(m)
    reference = torch.nn.functional.cross_entropy
    return (
        lambda: cross_entropy_kernel[(m,)](logits, target, loss, n, B=2048, num_warps=8),
        lambda: close(loss, reference(logits, target, reduction="none"), 1e-3, 1e-3),
    )


@triton.jit
def transpose_kernel(x, y, m, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    inside = (i[:, None] < m) & (j[None] < n)
    v = tl.load(x + i[:, None] * n + j[None], mask=inside)
    tl.store(y + j[:, None] * m + i[None], tl.trans(v), mask=tl.trans(inside))


@case
def transpose(device, large):
    m, n = (8000, 6000) if large else (100, 70)
    x = torch.randn(m, n, device=device)
    y = x.new_empty(n, m)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    return lambda: transpose_kernel[grid](x, y, m, n, B=64), lambda: close(y, x.t(), 0, 0)


@triton.jit
def quantize_kernel(x, y, scale, n, B: tl.constexpr):
    i, row = tl.arange(0, B), tl.program_id(0)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    s = tl.maximum(tl.max(tl.abs(v), 0), 1e-6) / 448.0
    tl.store(scale + row, s)
    tl.store(y + row * n + i, (v / s).to(tl.float8e4nv), mask=i < n)


@case
def quantize_fp8(device, large):
    m, n = (8192, 4096) if large else (8, 256)
    x = torch.randn(m, n, device=device).bfloat16()
    y, scale = x.to(torch.float8_e4m3fn), torch.empty(m, device=device)
    return (
        lambda: quantize_kernel[(m,)](x, y, scale, n, B=n),
        lambda: close(y.float() * scale[:, None], x, 7e-2, 1e-2),
    )


@triton.jit
def histogram_kernel(x, counts, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    bins = tl.histogram(tl.load(x + i), BINS)
    tl.atomic_add(counts + tl.arange(0, BINS), bins)


@case
def histogram(device, large):
    n = 1 << (22 if large else 12)
    x = torch.randint(128, (n,), device=device, dtype=torch.int32)
    counts = torch.zeros(128, device=device, dtype=torch.int32)

    def start():
        counts.zero_()
        histogram_kernel[(n // 1024,)](x, counts, n, B=1024, BINS=128)

    return start, lambda: close(counts, torch.bincount(x, minlength=128), 0, 0)


@triton.autotune(
    [triton.Config({"B": b}, num_warps=w) for b, w in ((256, 2), (1024, 4), (4096, 8))], key=["n"]
)
@triton.jit
def gelu_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(y + i, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)), mask=i < n)


@case
def autotuned_gelu(device, large):
    n = (1 << 24 if large else 1 << 12) - 7
    x = torch.randn(n, device=device).half()
    y = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(n, meta["B"]),)  # noqa: E731
    return (
        lambda: gelu_kernel[grid](x, y, n),
        lambda: close(y, torch.nn.functional.gelu(x.float()), 2e-3, 2e-3),
    )
