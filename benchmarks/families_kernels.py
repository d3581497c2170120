"""Kernels of functions, reductions, scans, sorts, random numbers and atomics, in Triton's Python.

`families` loads this file twice: as it is, and with the imports replaced by those of
`tileir.frontends.triton`.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from triton.language.extra import libdevice  # type: ignore[import-not-found]


@triton.jit
def softmax(y, x, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """One row per program, in one pass."""
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = lanes < columns
    value = tl.load(x + row * columns + lanes, mask=inside, other=-float("inf")).to(tl.float32)
    top = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * columns + lanes, top / tl.sum(top, axis=0), mask=inside)


@triton.jit
def online_softmax(y, x, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """One row per program, with a running maximum and a running sum."""
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    top, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        at = start + lanes
        value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        value = value.to(tl.float32)
        new = tl.maximum(top, tl.max(value, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(value - new), axis=0)
        top = new
    for start in range(0, columns, BLOCK):
        at = start + lanes
        value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        tl.store(y + row * columns + at, tl.exp(value.to(tl.float32) - top) / total,
                 mask=at < columns)  # fmt: skip


@triton.jit
def cross_entropy(loss, x, labels, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Loss of one row per program, and the gradient in place of the row."""
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    label = tl.load(labels + row)
    x += row * columns
    chosen = tl.load(x + label).to(tl.float32)
    top, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(value, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(value - new), axis=0)
        top = new
    for start in range(0, columns, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        slope = tl.exp(value - top) / total - tl.where(at == label, 1.0, 0.0)
        tl.store(x + at, slope, mask=at < columns)
    tl.store(loss + row, top + tl.log(total) - chosen)


@triton.jit
def layer_norm(y, x, w, b, columns, eps, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """One row per program."""
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = lanes < columns
    value = tl.load(x + row * columns + lanes, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=0) / columns
    centred = tl.where(inside, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    weight = tl.load(w + lanes, mask=inside)
    bias = tl.load(b + lanes, mask=inside)
    tl.store(y + row * columns + lanes, centred * scale * weight + bias, mask=inside)


@triton.jit
def _welford(mean, square, count, mean2, square2, count2):  # noqa: ANN001, ANN202
    delta = mean2 - mean
    both = count + count2
    part = tl.where(both == 0.0, 0.0, count2 / both)
    return (mean + delta * part, square + square2 + delta * delta * count * part, both)


@triton.jit
def var_mean(variance, average, x, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Variance and mean of rows by Welford's recurrence, then a reduction of three values."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    lanes = tl.arange(0, BLOCK)[None, :]
    mean = tl.zeros((ROWS, BLOCK), tl.float32)
    square = tl.zeros((ROWS, BLOCK), tl.float32)
    count = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        inside = at < columns
        value = tl.load(x + rows * columns + at, mask=inside, other=0.0)
        delta = value - mean
        new = count + 1
        moved = mean + delta / new
        grown = square + delta * (value - moved)
        mean = tl.where(inside, moved, mean)
        square = tl.where(inside, grown, square)
        count = tl.where(inside, new, count)
    mean, square, count = tl.reduce((mean, square, count), 1, _welford)
    out = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(variance + out, square / (count - 1))
    tl.store(average + out, mean)


@triton.jit
def _larger(value, index, value2, index2):  # noqa: ANN001, ANN202
    take, equal = value > value2, value == value2
    nan, nan2 = value != value, value2 != value2
    take |= nan & ~nan2
    equal |= nan & nan2
    take |= equal & (index < index2)
    return tl.where(take, value, value2), tl.where(take, index, index2)


@triton.jit
def argmax(place, x, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Place of the largest element of every row, the first of equal ones; a NaN is the largest."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    lanes = tl.arange(0, BLOCK)[None, :]
    best = tl.full((ROWS, BLOCK), float("-inf"), tl.float32)
    index = tl.full((ROWS, BLOCK), 2147483647, tl.int32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        value = tl.load(x + rows * columns + at, mask=at < columns, other=float("-inf"))
        best, index = _larger(best, index, value, tl.broadcast_to(at, (ROWS, BLOCK)))
    best, index = tl.reduce((best, index), 1, _larger)
    tl.store(place + tl.program_id(0) * ROWS + tl.arange(0, ROWS), index.to(tl.int64))


@triton.jit
def row_argmax(place, x, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """`tl.argmax` of one row per program."""
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + lanes, mask=lanes < columns, other=float("-inf"))
    tl.store(place + row, tl.argmax(value, axis=0).to(tl.int64))


@triton.jit
def _linear(a, b, a2, b2):  # noqa: ANN001, ANN202
    return a * a2, b * a2 + b2


@triton.jit
def scan_rows(h, a, b, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """h[t] = a[t] h[t - 1] + b[t] along rows."""
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]) * BLOCK
    at += tl.arange(0, BLOCK)[None, :]
    _, scanned = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 1, _linear)
    tl.store(h + at, scanned)


@triton.jit
def scan_columns(h, a, b, width, STEPS: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """h[t] = a[t] h[t - 1] + b[t] down columns, STEPS rows."""
    at = tl.program_id(1) * STEPS * width + tl.arange(0, STEPS)[:, None] * width
    at += tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    _, scanned = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, _linear)
    tl.store(h + at, scanned)


@triton.jit
def cumsum(y, x, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Running sum of one row per program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.cumsum(tl.load(x + at), axis=0))


@triton.jit
def sort(y, x, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """One row per program in ascending order."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.sort(tl.load(x + at)))


@triton.jit
def sort_rows(y, x, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Several short rows per program in ascending order."""
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]) * BLOCK
    at += tl.arange(0, BLOCK)[None, :]
    tl.store(y + at, tl.sort(tl.load(x + at)))


@triton.jit
def topk(y, x, K: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """The K greatest of one row per program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + tl.program_id(0) * K + tl.arange(0, K), tl.topk(tl.load(x + at), K))


@triton.jit
def dropout(y, x, count, p, seed, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Elements that are kept with probability 1 - p, scaled."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(x + at, mask=inside)
    kept = tl.rand(seed, at) > p
    tl.store(y + at, tl.where(kept, value / (1 - p), 0.0), mask=inside)


@triton.jit
def add_rows(table, places, x, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Row `program_id(0)` of `x` added to the row of `table` that `places` names."""
    row, lanes = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = lanes < columns
    target = tl.load(places + row)
    value = tl.load(x + row * columns + lanes, mask=inside)
    tl.atomic_add(table + target * columns + lanes, value, mask=inside, sem="relaxed")


@triton.jit
def histogram(counts, x, count, BINS: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Counts of `x`, integers below BINS, added to `counts`."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    partial = tl.histogram(tl.load(x + at, mask=at < count, other=0), BINS, mask=at < count)
    tl.atomic_add(counts + tl.arange(0, BINS), partial, sem="relaxed")


@triton.jit
def silu_sine(y, x, count, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """silu(x) sin(x)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(x + at, mask=inside).to(tl.float32)
    tl.store(y + at, value * tl.sigmoid(value) * tl.sin(value), mask=inside)


@triton.jit
def functions(y, x, count, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """tanh(x) + erf(x) |x|^1.5."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(x + at, mask=inside)
    power = libdevice.pow(tl.abs(value), 1.5)
    tl.store(y + at, libdevice.tanh(value) + tl.erf(value) * power, mask=inside)


@triton.jit
def one_function(y, x, NAME: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """One function of every element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    if NAME == "exp":
        value = tl.exp(value)
    elif NAME == "exact exp":
        value = libdevice.exp(value)
    elif NAME == "log":
        value = tl.log(value)
    elif NAME == "division":
        value = 1.0 / value
    elif NAME == "exact division":
        value = tl.div_rn(1.0, value)
    elif NAME == "sqrt":
        value = tl.sqrt(value)
    elif NAME == "exact sqrt":
        value = tl.sqrt_rn(value)
    elif NAME == "sin":
        value = tl.sin(value)
    elif NAME == "tanh":
        value = libdevice.tanh(value)
    elif NAME == "erf":
        value = tl.erf(value)
    elif NAME == "cos":
        value = tl.cos(value)
    elif NAME == "tan":
        value = libdevice.tan(value)
    elif NAME == "exp2":
        value = tl.exp2(value)
    elif NAME == "log2":
        value = tl.log2(value)
    elif NAME == "sinh":
        value = libdevice.sinh(value)
    elif NAME == "cosh":
        value = libdevice.cosh(value)
    elif NAME == "asin":
        value = libdevice.asin(value)
    elif NAME == "acos":
        value = libdevice.acos(value)
    elif NAME == "rsqrt":
        value = tl.rsqrt(value)
    tl.store(y + at, value)
