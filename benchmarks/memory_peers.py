"""The peers of `memory.py`: the same functions in Triton and in torch."""
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import torch
import torch.nn.functional as nn
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def _gelu(a):
    u = 0.7978845608028654 * a * (1 + 0.044715 * a * a)
    return a * tl.sigmoid(2 * u)


@triton.jit
def triton_flat(y, a, c, count, GELU: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < count
    x = tl.load(a + place, mask=mask)
    z = tl.load(c + place, mask=mask)
    tl.store(y + place, (_gelu(x) if GELU else x * tl.sigmoid(x)) * z, mask=mask)


@triton.jit
def triton_dyt(y, x, w, v, alpha, columns, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    place = tl.program_id(1).to(tl.int64) * columns + column
    value = tl.load(x + place, mask=mask)
    bent = 2 * tl.sigmoid(2 * alpha * value) - 1
    result = bent * tl.load(w + column, mask=mask) + tl.load(v + column, mask=mask)
    tl.store(y + place, result, mask=mask)


@triton.jit
def triton_softmax(y, x, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    mask = column < columns
    value = tl.load(x + start + column, mask=mask, other=-float("inf")).to(tl.float32)
    top = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + start + column, top / tl.sum(top, axis=0), mask=mask)


@triton.jit
def triton_softmax_looped(y, x, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, columns, BLOCK):
        column = i + tl.arange(0, BLOCK)
        value = tl.load(x + start + column, mask=column < columns, other=-float("inf"))
        value = value.to(tl.float32)
        higher = tl.maximum(most, value)
        total = total * tl.exp(most - higher) + tl.exp(value - higher)
        most = higher
    top = tl.max(most, axis=0)
    scale = 1 / tl.sum(total * tl.exp(most - top), axis=0)
    for i in range(0, columns, BLOCK):
        column = i + tl.arange(0, BLOCK)
        mask = column < columns
        value = tl.load(x + start + column, mask=mask).to(tl.float32)
        tl.store(y + start + column, tl.exp(value - top) * scale, mask=mask)


@triton.jit
def triton_norm(y, x, w, v, columns, epsilon, CENTRED: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    mask = column < columns
    value = tl.load(x + start + column, mask=mask, other=0.0)
    if CENTRED:
        value = tl.where(mask, value - tl.sum(value, axis=0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / columns + epsilon)
    result = value * scale * tl.load(w + column, mask=mask)
    if CENTRED:
        result += tl.load(v + column, mask=mask)
    tl.store(y + start + column, result, mask=mask)


@triton.jit
def triton_norm_looped(y, x, w, v, columns, epsilon, CENTRED: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, columns, BLOCK):
        column = i + tl.arange(0, BLOCK)
        value = tl.load(x + start + column, mask=column < columns, other=0.0)
        total += value
        squares += value * value
    mean = tl.sum(total, axis=0) / columns if CENTRED else 0.0
    scale = tl.rsqrt(tl.sum(squares, axis=0) / columns - mean * mean + epsilon)
    for i in range(0, columns, BLOCK):
        column = i + tl.arange(0, BLOCK)
        mask = column < columns
        result = (tl.load(x + start + column, mask=mask) - mean) * scale
        result *= tl.load(w + column, mask=mask)
        if CENTRED:
            result += tl.load(v + column, mask=mask)
        tl.store(y + start + column, result, mask=mask)


@triton.jit
def triton_loss(loss, a, c, columns, KL: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = row.to(tl.int64) * columns
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, columns, BLOCK):
        column = i + tl.arange(0, BLOCK)
        mask = column < columns
        x = tl.load(a + start + column, mask=mask, other=0.0)
        z = tl.load(c + start + column, mask=mask, other=0.0)
        if KL:
            total += z * (tl.log(tl.maximum(z, 1e-37)) - x)
        else:
            total += tl.abs(x - z) * 0.5
    tl.store(loss + row, tl.sum(total, axis=0))


@triton.jit
def triton_group_norm(
    y, x, w, v, epsilon, GROUPS: tl.constexpr, EACH: tl.constexpr, AREA: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    start = group.to(tl.int64) * (EACH * AREA)
    place = tl.arange(0, EACH)[:, None] * AREA + tl.arange(0, AREA)[None, :]
    channel = (group % GROUPS) * EACH + tl.arange(0, EACH)
    value = tl.load(x + start + place)
    value -= tl.sum(tl.sum(value, axis=1), axis=0) / (EACH * AREA)
    scale = tl.rsqrt(tl.sum(tl.sum(value * value, axis=1), axis=0) / (EACH * AREA) + epsilon)
    result = value * scale * tl.load(w + channel)[:, None] + tl.load(v + channel)[:, None]
    tl.store(y + start + place, result)


# torch: each takes the inputs and returns the output; also the reference, on float64 ------------


def geglu(a, c):
    return nn.gelu(a, approximate="tanh") * c


def swiglu(a, c):
    return nn.silu(a) * c


def dyt(x, w, v, alpha):
    return torch.tanh(alpha * x) * w + v


def softmax(x):
    return torch.softmax(x, -1)


def rms_norm(x, w):
    return nn.rms_norm(x, (x.shape[-1],), w, 1e-6)


def layer_norm(x, w, v):
    return nn.layer_norm(x, (x.shape[-1],), w, v, 1e-5)


def tvd(p, q):
    return (p - q).abs().sum(-1) * 0.5


def kl_div(x, t):
    return (t * (t.clamp_min(1e-37).log() - x)).sum(-1)


def group_norm(groups):
    return lambda x, w, v: nn.group_norm(x, groups, w, v, 1e-5)
