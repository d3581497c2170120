"""Kernels of integers at the ends of each width and near powers of two, against Python's."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.machine.integers import KERNELS

KINDS = (np.int8, np.int16, np.int32, np.int64)


def numbers(bits: int) -> list[int]:
    """Numbers around 0, every other power of two, and the ends."""
    near = {s * (1 << n) + d for n in range(0, bits - 1, 2) for s in (1, -1) for d in (-1, 0, 1)}
    half = 1 << (bits - 1)
    return sorted(n for n in near | {0, half - 1, half - 2, -half, 1 - half} if -half <= n < half)


def quotient(a: int, b: int, rounding: str) -> int:
    exact = a // b
    up = a % b != 0 and (rounding == "ceil" or (rounding == "zero" and exact < 0))
    return exact + up


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rounding", ["zero", "floor", "ceil"])
def test_quotients_and_remainders(kind: type, rounding: str) -> None:
    bits = np.dtype(kind).itemsize * 8
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    pairs = [(a, b) for a in numbers(bits) for b in numbers(bits) if b and (a, b) != (-half, -1)]
    x, y = (np.array(side, kind) for side in zip(*pairs, strict=True))
    expected = [quotient(a, b, rounding) for a, b in pairs]
    assert KERNELS["sdiv"](x, y, rounding=rounding).tolist() == expected
    if rounding != "ceil":
        rest = [a - b * quotient(a, b, rounding) for a, b in pairs]
        assert KERNELS["srem"](x, y, rounding=rounding).tolist() == rest
    if rounding != "floor":
        unsigned = [quotient(a & mask, b & mask, rounding) for a, b in pairs]
        result = KERNELS["udiv"](x, y, rounding=rounding)
        assert [n & mask for n in result.tolist()] == unsigned


@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_counted(kind: type) -> None:
    bits = np.dtype(kind).itemsize * 8
    some = numbers(bits)
    x, mask = np.array(some, kind), (1 << bits) - 1
    assert KERNELS["clz"](x).tolist() == [bits - (n & mask).bit_length() for n in some]
    assert KERNELS["ctpop"](x).tolist() == [(n & mask).bit_count() for n in some]


@pytest.mark.parametrize("kind", KINDS)
def test_high_halves_of_multiplications(kind: type) -> None:
    bits = np.dtype(kind).itemsize * 8
    mask = (1 << bits) - 1
    pairs = [(a, b) for a in numbers(bits) for b in numbers(bits)]
    x, y = (np.array(side, kind) for side in zip(*pairs, strict=True))
    assert KERNELS["smulhi"](x, y).tolist() == [(a * b) >> bits for a, b in pairs]
    unsigned = [((a & mask) * (b & mask)) >> bits for a, b in pairs]
    assert [n & mask for n in KERNELS["umulhi"](x, y).tolist()] == unsigned
