"""Memory-bound kernels, written with the builder for one shape each.

Pointers are of distinct arrays (`noalias`), aligned to 16 bytes; matrices are row-major. A row
kernel processes `block` whole rows per program instance, whatever their length: the compiler
strip-mines rows that exceed the registers. The docstring of each function states the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tileir.builder import F32, Builder, arg, pointer
from tileir.ir import Module

GELU = 2 * 0.7978845608028654
"""tanh(u) = 2 sigmoid(2u) - 1, so that 0.5 (1 + tanh u) is sigmoid(2u)."""


def buffers(outputs: str, inputs: str, element: Any = F32) -> dict[str, Any]:
    """Parameters by name: the outputs, then the inputs."""
    kind = pointer(element)
    parameters = {name: arg(kind, aligned=16, noalias=True) for name in outputs.split()}
    for name in inputs.split():
        parameters[name] = arg(kind, aligned=16, noalias=True, readonly=True)
    return parameters


# Element by element ----------------------------------------------------------------------------


def geglu(count: int, width: int) -> Module:
    """y = gelu(a) b with the approximation by tanh. Grid: (⌈count / width⌉,)."""

    def apply(a: Any, c: Any) -> Any:
        return a * sigmoid(a * (1 + a * a * 0.044715) * GELU) * c

    return flat("geglu", count, width, apply)


def swiglu(count: int, width: int) -> Module:
    """y = a sigmoid(a) b. Grid: (⌈count / width⌉,)."""
    return flat("swiglu", count, width, lambda a, c: a * sigmoid(a) * c)


def flat(name: str, count: int, width: int, apply: Callable[[Any, Any], Any]) -> Module:
    """y[i] = apply(a[i], c[i])."""
    b = Builder()
    with b.kernel(name, **buffers("y", "a c")) as (y, a, c):
        place = b.program_id(axis=0) * width + b.arange(width)
        mask = place < count if count % width else None
        (y + place).store(apply((a + place).load(mask), (c + place).load(mask)), mask)
    return b.module()


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) by approximate instructions: a few units in the last place."""
    b = x.builder
    return b.fdiv(b.full(x.shape, 1.0), 1 + (-x).exp(fast="approx"), fast="approx")


def dyt(rows: int, columns: int, block: int, width: int) -> Module:
    """y = tanh(alpha x) w + v, w and v per column, which an instance reads once for its `block`
    rows. Grid: (⌈columns / width⌉, rows / block)."""
    b = Builder()
    with b.kernel("dyt", **buffers("y", "x w v"), alpha=F32) as (y, x, w, v, alpha):
        column = b.program_id(axis=0) * width + b.arange(width)
        mask = column < columns if columns % width else None
        scale, shift = (w + column).load(mask), (v + column).load(mask)
        first = b.program_id(axis=1) * (block * columns) + column
        for row in range(block):
            place = first + row * columns
            twice = sigmoid((x + place).load(mask) * (alpha * 2.0))
            (y + place).store((twice * 2.0 - 1.0) * scale + shift, mask)
    return b.module()


# Row by row --------------------------------------------------------------------------------------


@attrs.frozen
class Policy:
    """The eviction priority of the cache lines from which rows are read and to which they are
    written: `normal`, `first` (evicted first, since they are not used again) or `last`."""

    read: str = "normal"
    write: str = "normal"


USUAL = Policy()


@attrs.frozen
class Rows:
    """The rows of one program instance: the offsets `place` of their elements, the `column`
    indices, the `row` indices, and the `mask` of rows in bounds."""

    b: Builder
    policy: Policy
    place: Any
    column: Any
    row: Any
    mask: Any
    axis: int

    @staticmethod
    def of(b: Builder, rows: int, columns: int, block: int, policy: Policy) -> Rows:
        row, column = b.program_id(axis=0) * block, b.arange(columns)
        if block == 1:
            return Rows(b, policy, row * columns + column, column, row, None, 0)
        row = row + b.arange(block)
        mask = row < rows if rows % block else None
        inside = None if mask is None else mask[:, None]
        column = column[None, :]
        return Rows(b, policy, row[:, None] * columns + column, column, row, inside, 1)

    def load(self, base: Any) -> Any:
        return (base + self.place).load(self.mask, eviction=self.policy.read).to(F32)

    def sum(self, value: Any) -> Any:
        return self.along(value.sum(axis=self.axis))

    def max(self, value: Any) -> Any:
        return self.along(value.reduce(self.axis, "fmaxnum"))

    def along(self, value: Any) -> Any:
        """A number per row, with the rank of the tile of elements."""
        return value[:, None] if self.axis else value

    def store(self, base: Any, value: Any) -> None:
        """Store every element of the rows."""
        (base + self.place).store(value, self.mask, eviction=self.policy.write)

    def store_each(self, base: Any, value: Any) -> None:
        """Store one number per row."""
        mask = None if self.mask is None else self.mask.reshape(-1)
        (base + self.row).store(value, mask)


def softmax(
    rows: int, columns: int, block: int, policy: Policy = USUAL, element: Any = F32
) -> Module:
    """y = softmax of each row of x. Grid: (⌈rows / block⌉,)."""
    b = Builder()
    with b.kernel("softmax", **buffers("y", "x", element)) as (y, x):
        r = Rows.of(b, rows, columns, block, policy)
        value = r.load(x)
        top = (value - r.max(value)).exp(fast="approx")
        r.store(y, (top * (1.0 / r.sum(top))).to(element))
    return b.module()


def rms_norm(
    rows: int, columns: int, block: int, policy: Policy = USUAL, epsilon: float = 1e-6
) -> Module:
    """y = x w / sqrt(mean(x²) + epsilon). Grid: (⌈rows / block⌉,)."""
    b = Builder()
    with b.kernel("rms_norm", **buffers("y", "x w")) as (y, x, w):
        r = Rows.of(b, rows, columns, block, policy)
        value = r.load(x)
        scale = (r.sum(value * value) * (1 / columns) + epsilon).rsqrt(fast="approx")
        r.store(y, value * scale * (w + r.column).load())
    return b.module()


def layer_norm(
    rows: int, columns: int, block: int, policy: Policy = USUAL, epsilon: float = 1e-5
) -> Module:
    """y = (x - mean) w / sqrt(variance + epsilon) + v. Grid: (⌈rows / block⌉,)."""
    b = Builder()
    with b.kernel("layer_norm", **buffers("y", "x w v")) as (y, x, w, v):
        r = Rows.of(b, rows, columns, block, policy)
        value = r.load(x)
        centred = value - r.sum(value) * (1 / columns)
        variance = r.sum(centred * centred) * (1 / columns)
        scale = (variance + epsilon).rsqrt(fast="approx")
        r.store(y, centred * scale * (w + r.column).load() + (v + r.column).load())
    return b.module()


def norm_looped(rows: int, columns: int, width: int, centred: bool) -> Module:
    """`layer_norm` if `centred`, else `rms_norm`, by loops over `width` elements, of which the
    second and third read the row from the caches. Grid: (rows,)."""
    b, epsilon = Builder(), 1e-5 if centred else 1e-6
    with b.kernel("norm", **buffers("y", "x w v" if centred else "x w")) as (y, x, w, *v):
        row, lane = b.program_id(axis=0) * columns, b.arange(width)

        def mean(term: Callable[[Any], Any]) -> Any:
            total = b.var(b.zeros((width,), F32), name="total")
            with b.for_(0, columns, width) as start:
                place = row + start + lane
                total.set(total + term((x + place).load(eviction="last")))
            return total.sum(axis=0) * (1 / columns)

        middle = mean(lambda value: value) if centred else 0.0
        variance = mean(lambda value: (value - middle) * (value - middle))
        scale = (variance + epsilon).rsqrt(fast="approx")
        with b.for_(0, columns, width) as start:
            column = start + lane
            value = ((x + (row + column)).load(eviction="first") - middle) * scale
            value *= (w + column).load(eviction="last")
            for bias in v:
                value += (bias + column).load(eviction="last")
            (y + (row + column)).store(value)
    return b.module()


def tvd(rows: int, columns: int, block: int, policy: Policy = USUAL) -> Module:
    """loss[row] = Σ |p - q| / 2. Grid: (⌈rows / block⌉,)."""
    b = Builder()
    with b.kernel("tvd", **buffers("loss", "p q")) as (loss, p, q):
        r = Rows.of(b, rows, columns, block, policy)
        total = abs(r.load(p) - r.load(q)).sum(axis=r.axis)
        r.store_each(loss, total * 0.5)
    return b.module()


def kl_div(rows: int, columns: int, block: int, policy: Policy = USUAL) -> Module:
    """loss[row] = Σ t (log t - x), x being logarithms of probabilities and 0 log 0 = 0. Grid:
    (⌈rows / block⌉,)."""
    b = Builder()
    with b.kernel("kl_div", **buffers("loss", "x t")) as (loss, x, t):
        r = Rows.of(b, rows, columns, block, policy)
        log_probability, target = r.load(x), r.load(t)
        log = b.maximum(target, 1e-37).log(fast="approx")
        r.store_each(loss, (target * (log - log_probability)).sum(axis=r.axis))
    return b.module()


def group_norm(channels: int, groups: int, area: int, epsilon: float = 1e-5) -> Module:
    """y = normalised x [n, channels, area] over groups of channels, w and v per channel. Grid:
    (n * groups,)."""
    b, each = Builder(), channels // groups
    with b.kernel("group_norm", **buffers("y", "x w v")) as (y, x, w, v):
        group = b.program_id(axis=0)
        channel = (group % groups) * each + b.arange(each)
        place = group * (each * area) + (b.arange(each) * area)[:, None] + b.arange(area)[None, :]
        value = (x + place).load()
        mean = value.sum(axis=1).sum(axis=0) * (1 / (each * area))
        centred = value - mean
        variance = (centred * centred).sum(axis=1).sum(axis=0) * (1 / (each * area))
        scale = (variance + epsilon).rsqrt(fast="approx") * (w + channel).load()
        (y + place).store(centred * scale[:, None] + (v + channel).load()[:, None])
    return b.module()
