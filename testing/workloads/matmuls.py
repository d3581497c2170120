"""Matmuls fused with an epilogue, or with the conversion of an operand."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.builder import (
    BF16,
    F8E4M3,
    F8E8M0,
    F16,
    F32,
    I8,
    I32,
    Builder,
    arg,
    pointer,
)
from tileir.ir import Module

GROUP = 8
"""Rows of tiles in a group that shares the operands in the L2 cache."""


@attrs.frozen(eq=False)
class TileShape:
    """The rows and columns of a tile, and the step of K."""

    m: int
    n: int
    k: int


def with_activation(tile: TileShape, kind: str, element: Any = F16) -> Module:
    """`matmul(x, y, bias, z, m, n, k)`: z [m, n] = act(x [m, k] y [k, n] + bias [n]) where `kind`
    is `leaky` (0.01 below 0), `gelu` (by tanh) or `sigmoid` (without bias)."""
    b = Builder()
    kinds = {name: _buffer(element) for name in ("x", "y", "bias", "z")}
    with b.kernel("matmul", **kinds, m=I32, n=I32, k=I32) as (x, y, bias, z, m, n, k):
        i, j, depth = _indices(b, tile, m, n)
        acc = b.var(b.full((tile.m, tile.n), 0.0, F32))
        with b.for_(0, k, tile.k) as at:
            left = _load(x, i, (depth + at)[None, :], k, (m, k))
            right = _load(y, (depth + at)[:, None], j, n, (k, n))
            acc.set(b.dot(left, right, acc.get()))
        value = acc.get()
        if kind != "sigmoid":
            value = value + (bias + j).load(j < n, 0.0).to(F32)
        _store(z, i, j, n, (m, n), activation(value, kind).to(element))
    return b.module()


def activation(value: Any, kind: str) -> Any:
    """Apply the activation `kind` to `value`."""
    b = value.builder
    match kind:
        case "leaky":
            return b.where(value > 0, value, value * 0.01)
        case "gelu":
            inner = value * (1 + value * value * 0.044715) * (2 * 0.7978845608028654)
            return value * _sigmoid(inner)
        case _:
            return _sigmoid(value)


def _sigmoid(value: Any) -> Any:
    b = value.builder
    return b.fdiv(b.full(value.shape, 1.0), 1 + (-value).exp(fast="approx"), fast="approx")


def of_slices(tile: TileShape, element: Any = F16) -> Module:
    """`matmul(x, y, z, m, n, k, ldx, ldy, ldz, x0, y0)`: z = x y of parts of larger matrices, which
    begin `x0` and `y0` columns into rows of length `ldx` and `ldy`."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xyz"}
    numbers = dict.fromkeys(("m", "n", "k", "ldx", "ldy", "ldz", "x0", "y0"), I32)
    with b.kernel("matmul", **kinds, **numbers) as (x, y, z, m, n, k, ldx, ldy, ldz, x0, y0):
        i, j, depth = _indices(b, tile, m, n)
        acc = b.var(b.full((tile.m, tile.n), 0.0, F32))
        with b.for_(0, k, tile.k) as at:
            left = _load(x + x0, i, (depth + at)[None, :], ldx, (m, k))
            right = _load(y + y0, (depth + at)[:, None], j, ldy, (k, n))
            acc.set(b.dot(left, right, acc.get()))
        _store(z, i, j, ldz, (m, n), acc.get().to(element))
    return b.module()


def int8(tile: TileShape, result: Any = BF16) -> Module:
    """`matmul(x, y, xs, ys, z, m, n, k)`: z [m, n] = (xs [m] x [m, k]) (ys [n] y [n, k])ᵀ, x and y
    being i8 and scales f32."""
    b = Builder()
    kinds = {"x": _buffer(I8), "y": _buffer(I8), "xs": _buffer(F32), "ys": _buffer(F32)}
    kinds["z"] = _buffer(result)
    with b.kernel("matmul", **kinds, m=I32, n=I32, k=I32) as (x, y, xs, ys, z, m, n, k):
        i, j, depth = _indices(b, tile, m, n)
        acc = b.var(b.full((tile.m, tile.n), 0, I32))
        with b.for_(0, k, tile.k) as at:
            left = _load(x, i, (depth + at)[None, :], k, (m, k), 0)
            right = _load(y, j, (depth + at)[:, None], k, (n, k), 0)
            acc.set(b.dot(left, right, acc.get()))
        rows, columns = (xs + i).load(i < m, 0.0), (ys + j).load(j < n, 0.0)
        _store(z, i, j, n, (m, n), (acc.get().to(F32) * rows * columns).to(result))
    return b.module()


def int4_weights(tile: TileShape, group: int, element: Any = F16) -> Module:
    """`matmul(x, w, scales, z, m, n, k)`: z [m, n] = x [m, k] ((w - 8) scales)ᵀ; w [n, k] of 4 bits
    has two along k in a byte, the lower first, scales [n, k / group]. `tile.k` divides `group`, or
    `group` divides `tile.k`. The weights are operand A, from registers, and z is written
    transposed."""
    b = Builder()
    kinds = {"x": _buffer(element), "w": _buffer(I8), "scales": _buffer(element)}
    kinds["z"] = _buffer(element)
    with b.kernel("matmul", **kinds, m=I32, n=I32, k=I32) as (x, w, scales, z, m, n, k):
        j, i, depth = _indices(b, TileShape(tile.n, tile.m, tile.k), n, m)
        acc = b.var(b.full((tile.n, tile.m), 0.0, F32))
        bytes_ = b.arange(tile.k // 2)[None, :]
        with b.for_(0, k, tile.k) as at:
            pairs = _load(w, j, bytes_ + at // 2, k // 2, (n, k // 2), 0)
            weights = (unpack_int4(pairs) - 8).to(element)
            scale = _group_scales(b, scales, j, n, k // group, at, tile.k, group)
            right = _load(x, i, (depth + at)[:, None], k, (m, k))
            acc.set(b.dot(weights * scale, right, acc.get()))
        _store(z, i, j, n, (m, n), acc.get().to(element))
    return b.module()


def mxfp8_weights(tile: TileShape) -> Module:
    """`matmul(x, w, powers, z, m, n, k)`: z [m, n] = x [m, k] (w 2^(powers - 127))ᵀ; x and z are
    bf16, w [n, k] is e4m3 with a power of two for every 32 along k, powers [n, k / 32] in f8e8m0
    (OCP Microscaling Formats 1.0, MXFP8). The weights are operand A."""
    b = Builder()
    kinds = {"x": _buffer(BF16), "w": _buffer(F8E4M3), "powers": _buffer(F8E8M0)}
    kinds["z"] = _buffer(BF16)
    with b.kernel("matmul", **kinds, m=I32, n=I32, k=I32) as (x, w, powers, z, m, n, k):
        j, i, depth = _indices(b, TileShape(tile.n, tile.m, tile.k), n, m)
        acc = b.var(b.full((tile.n, tile.m), 0.0, F32))
        group, groups = b.arange(tile.k // 32)[None, :], k // 32
        with b.for_(0, k, tile.k) as at:
            weights = _load(w, j, (depth + at)[None, :], k, (n, k))
            power = _load(powers, j, group + at // 32, groups, (n, groups), 1.0)
            right = _load(x, i, (depth + at)[:, None], k, (m, k))
            result = b.dot_scaled(weights, right, acc.get(), power, lhs="e4m3", rhs="bf16")
            acc.set(result)
        _store(z, i, j, n, (m, n), acc.get().to(BF16))
    return b.module()


def unpack_int4(pairs: Any) -> Any:
    """Numbers of 4 bits, 0 to 15, two from each byte of `pairs`, the lower one first."""
    b, (rows, columns) = pairs.builder, pairs.shape
    return b.join(pairs & 15, pairs.lshr(4) & 15).reshape(rows, 2 * columns)


def _group_scales(
    b: Builder, scales: Any, rows: Any, extent: Any, lead: Any, at: Any, depth: int, group: int
) -> Any:
    """The scales of a tile's rows, each for `group` elements along K."""
    each = max(1, depth // group)
    column = (b.arange(each) + at // group)[None, :]
    inside = (rows < extent) & (column < lead)
    load = (scales + (rows * lead + column)).load(inside, 0.0)
    wide = load[:, :, None].broadcast_to(rows.shape[0], each, depth // each)
    return wide.reshape(rows.shape[0], depth)


# Shared functions ------------------------------------------------------------------------------


def _indices(b: Builder, tile: TileShape, m: Any, n: Any) -> tuple[Any, Any, Any]:
    """Rows of this instance's tile as a column, its columns as a row, and steps of K."""
    tiles_m, tiles_n = (m + (tile.m - 1)) // tile.m, (n + (tile.n - 1)) // tile.n
    pid = b.program_id(axis=0)
    first = pid // (tiles_n * GROUP) * GROUP
    size = b.smin(tiles_m - first, GROUP)
    within = pid % (tiles_n * GROUP)
    i = (b.arange(tile.m) + (first + within % size) * tile.m)[:, None]
    j = (b.arange(tile.n) + within // size * tile.n)[None, :]
    return i, j, b.arange(tile.k)


def _load(
    base: Any, slow: Any, fast: Any, lead: Any, extents: tuple[Any, Any], other: Any = 0.0
) -> Any:
    """The elements at `slow * lead + fast`, and `other` where an index is not below its extent."""
    return (base + (slow * lead + fast)).load((slow < extents[0]) & (fast < extents[1]), other)


def _store(base: Any, i: Any, j: Any, lead: Any, extents: tuple[Any, Any], value: Any) -> None:
    (base + (i * lead + j)).store(value, (i < extents[0]) & (j < extents[1]))


def _buffer(element: Any) -> Any:
    return arg(pointer(element), aligned=16, noalias=True)
