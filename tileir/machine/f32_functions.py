"""Functions of f32 and narrower, in f64 to 2^-38: cheaper than the ones good for f64.

2^x is 2^k times a power of 2^(1/32) from a table times a polynomial (Tang 1989); the table is
computed with integers, so that it depends on no library.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import numpy as np

from tileir.machine.exponential import LN2
from tileir.machine.tensor import Array

_STEPS = 32
_PER_OCTAVE = float(_STEPS)
_BLOCK = 8192


def _roots() -> Array:
    """2^(j/32), correctly rounded: square roots of square roots of 2^j, in integers."""
    bits = 200
    result = []
    for j in range(_STEPS):
        root = 1 << (bits * 32 + j)
        for _ in range(5):
            root = isqrt(root)
        result.append(root / (1 << bits))
    return np.array(result)


# Numbers as arrays of rank 0: numpy takes these without conversion.
_TABLE = _roots()
_STEP = LN2[0] / _STEPS
_POLYNOMIAL = tuple([np.array(_STEP**n / f) for n, f in ((1, 1.0), (2, 2.0), (3, 6.0), (4, 24.0))])
_ONE, _LOW_BITS, _SHIFT = np.array(1.0), np.array(_STEPS - 1), np.array(47)


def _power(steps: Array) -> Array:
    """2^(steps / 32) for steps of at most 32000 in size; `steps` is overwritten. Whole octaves
    are added to the exponent: nothing leaves the normal numbers."""
    near = np.rint(steps)
    np.subtract(steps, near, out=steps)
    total = steps * _POLYNOMIAL[3]
    for c in _POLYNOMIAL[2::-1]:
        total += c
        total *= steps
    total += _ONE
    shifted = near.astype(np.int64)
    part = shifted & _LOW_BITS
    total *= _TABLE.take(part)
    shifted -= part
    shifted <<= _SHIFT
    bits = np.asarray(total).view(np.int64)
    bits += shifted
    return bits.view(np.float64)


def _exponential(scale: float) -> Callable[[Array], Array]:
    high = np.array(1000.0 / scale * _STEPS)
    low, multiplier = -high, np.array(scale)

    def compute(x: Array) -> Array:
        steps = np.asarray(np.minimum(x, high))
        np.maximum(steps, low, out=steps)
        steps *= multiplier
        return _power(steps)

    return compute


exp = _exponential(_PER_OCTAVE / LN2[0])
exp2 = _exponential(_PER_OCTAVE)


def in_blocks(compute: Callable[..., Array], *operands: Array) -> Array:
    """`compute` on chunks that stay in a CPU's cache."""
    size = operands[0].size
    if size <= 2 * _BLOCK:
        return np.asarray(compute(*operands))
    flat = [x.reshape(-1) for x in operands]
    result = np.empty(size)
    for start in range(0, size, _BLOCK):
        part = slice(start, start + _BLOCK)
        result[part] = compute(*[x[part] for x in flat])
    return result.reshape(operands[0].shape)


KERNELS: dict[str, Callable[[Array], Array]] = {"exp": exp, "exp2": exp2}
"""Kernels by mnemonic."""
