"""Matmuls whose bits depend on no BLAS, yet run on one.

Operands are cut into slices of so few bits that every sum of products of two slices is an integer
below 2^53 times a power of two: exact in f64 in whatever order a BLAS adds (Ozaki, Ogita, Oishi
and Rump 2012). The sums are then added from the largest slices down, in f64.
"""

from __future__ import annotations

import numpy as np

from tileir.machine.float_formats import BF16, F32, F64, canonical, round_to, widen
from tileir.machine.tensor import Array

_MOST_SLICES = 6
_FINE, _SAFE = 2.0**24, 2.0**53 * (1 - 2.0**-30)
_ONE_THREAD = 1 << 18
"""Multiplications that OpenBLAS does on one thread (its GEMM_MULTITHREAD_THRESHOLD)."""


def product(a: Array, b: Array) -> Array:
    """`a @ b` in f64 of f64 operands: exact sums, added largest first. Where an operand is infinite
    or NaN, or a row's numbers spread over too many bits, products are added in order of K."""
    if is_exact(a, b):
        return multiply(a, b) + 0.0
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return in_order(a, b)
    bits = (53 - max(1, (a.shape[-1] - 1).bit_length())) // 2
    left, right = slices(a, bits, -1), slices(b, bits, -2)
    if left is None or right is None:
        return in_order(a, b)
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    for rank in range(len(left) + len(right) - 1):
        for i, part in enumerate(left):
            if 0 <= rank - i < len(right):
                total += multiply(part, right[rank - i])
    return total + 0.0


def is_exact(a: Array, b: Array) -> bool:
    """Whether no sum of products, however ordered, needs more than 53 bits: all operands are
    multiples of powers of two that are not too small against the largest sum there can be, which
    the norms of rows and columns bound (Cauchy and Schwarz)."""
    left = _unit(a)
    right = _unit(b) if left else 0
    if not right:
        return False
    rows, columns = np.add.reduce(a * a, axis=-1), np.add.reduce(b * b, axis=-2)
    most = float(np.maximum.reduce(rows, axis=None)) * float(np.maximum.reduce(columns, axis=None))
    return most < ((left * right) / _FINE / _FINE * _SAFE) ** 2


def _unit(data: Array) -> int:
    """The largest power of two, in units of 2^-24, that divides all of `data`, and not more than
    2^52 of them; 0 where there is none."""
    steps = data * _FINE
    integers = steps.astype(np.int64)
    if np.count_nonzero(integers != steps):
        return 0
    every = int(np.bitwise_or.reduce(integers, axis=None)) | 1 << 52
    return every & -every


def multiply(a: Array, b: Array) -> Array:
    """`a @ b`, in bands of rows so small that a BLAS does each on the calling thread: for tiles,
    waking others costs more than they help, and much more where cores are shared."""
    rows = max(1, _ONE_THREAD // (b.shape[-1] * b.shape[-2]))
    if a.shape[-2] <= rows:
        return a @ b
    array = np.empty((*a.shape[:-1], b.shape[-1]))
    for start in range(0, a.shape[-2], rows):
        band = slice(start, start + rows)
        np.matmul(a[..., band, :], b, out=array[..., band, :])
    return array


def slices(data: Array, bits: int, axis: int) -> list[Array] | None:
    """Numbers that add up to `data` exactly; within one along `axis` all are multiples of one
    power of two, fewer than 2^`bits` of it. None where more than a few are needed."""
    arrays: list[Array] = []
    remainder = data
    while remainder.any():
        if len(arrays) == _MOST_SLICES:
            return None
        top = np.frexp(np.abs(remainder).max(axis=axis, keepdims=True))[1]
        if int(top.min(initial=0)) < -300 or int(top.max(initial=0)) > 300:
            return None
        unit = np.ldexp(1.0, top - bits)
        part = np.trunc(remainder / unit) * unit
        arrays.append(part)
        remainder = remainder - part
    return arrays


def in_order(a: Array, b: Array) -> Array:
    """`a @ b` in f64, products rounded and added in order of K."""
    total = a[..., :, 0, None] * b[..., 0, None, :]
    for k in range(1, a.shape[-1]):
        total = total + a[..., :, k, None] * b[..., k, None, :]
    return total


def split_bf16(data: Array, parts: int) -> list[Array]:
    """An f32 as a sum of this number of bf16 numbers, largest first; the rest is dropped. All are
    computed in f64."""
    return _split(data, parts, lambda x: round_to(x, BF16))


def round_tf32(data: Array) -> Array:
    """f64 holding f32 numbers rounded to 10 bits after the point, ties away (PTX cvt.rna.tf32)."""
    bits = data.astype(F32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(F32)
    return np.where(np.isfinite(data), rounded.astype(F64), data)


def _split(data: Array, parts: int, rounded: object) -> list[Array]:
    remainder, arrays = widen(data), []
    for _ in range(parts):
        part = widen(rounded(remainder))  # type: ignore[operator]
        arrays.append(part)
        remainder = np.where(np.isfinite(part), remainder - part, 0.0)
    return arrays


def split_tf32(data: Array) -> list[Array]:
    """f32 as a sum of two tf32 numbers, largest first, the rest dropped; all in f64."""
    return _split(data, 2, round_tf32)


def pairs(a: Array, b: Array, precision: str) -> list[tuple[Array, Array]]:
    """The products that `precision` adds, smallest first."""
    if precision == "tf32":
        return [(round_tf32(widen(a)), round_tf32(widen(b)))]
    if precision == "ieee":
        return [(widen(a), widen(b))]
    if precision == "tf32x3":
        left, right = split_tf32(a), split_tf32(b)
    else:
        parts = 2 if precision == "bf16x3" else 3
        left, right = split_bf16(a, parts), split_bf16(b, parts)
    ranks = [(i, rank - i) for rank in range(len(left) - 1, -1, -1) for i in range(rank, -1, -1)]
    return [(left[i], right[j]) for i, j in ranks]


def float_dot(a: Array, b: Array, c: Array, precision: str) -> Array:
    """`a @ b + c`, rounded once from f64 to `c`'s format."""
    parts = [product(x, y) for x, y in pairs(a, b, precision)]
    total = parts[0]
    for larger in parts[1:]:
        total = total + larger
    if len(parts) > 1:
        total = np.where(np.isfinite(parts[-1]), total, parts[-1])
    total = total + widen(c)
    return canonical(total) if c.dtype == F64 else round_to(total, c.dtype)


def integer_dot(a: Array, b: Array, c: Array) -> Array:
    """`a @ b + c` of small integers in f64, modulo 2^32."""
    total = multiply(a.astype(F64), b.astype(F64))
    return (total.astype(np.int64) + c).astype(np.int32)
