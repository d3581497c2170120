"""Rounding a fraction into a format, by looking at every neighbour: slow and obvious."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

LAYOUT = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52),
          "float8_e5m2": (5, 2), "float8_e4m3fn": (4, 3), "float4_e2m1fn": (2, 1)}  # fmt: skip


def value_of(bits: int, exponent_bits: int, mantissa_bits: int) -> Fraction:
    """A magnitude's bits as a number, as if the largest exponent meant nothing special."""
    bias = (1 << (exponent_bits - 1)) - 1
    exponent, mantissa = bits >> mantissa_bits, bits & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return Fraction(mantissa) * Fraction(2) ** (1 - bias - mantissa_bits)
    whole = mantissa | (1 << mantissa_bits)
    return Fraction(whole) * Fraction(2) ** (exponent - bias - mantissa_bits)


@cache
def largest(name: str) -> int:
    """Bits of the largest finite magnitude."""
    exponent_bits, mantissa_bits = LAYOUT[name]
    everything = (1 << (exponent_bits + mantissa_bits)) - 1
    if name == "float4_e2m1fn":
        return everything
    return everything - 1 if name == "float8_e4m3fn" else everything - (1 << mantissa_bits)


def round_fraction(number: Fraction, dtype: Any, mode: str = "rn") -> float:
    """The member of `dtype` that `mode` rounds `number` to; infinite beyond the largest, or the
    largest where `mode` points there. `number` is not 0."""
    name = np.dtype(dtype).name
    exponent_bits, mantissa_bits = LAYOUT[name]
    size, sign = abs(number), -1 if number < 0 else 1
    low = below(size, exponent_bits, mantissa_bits)
    floor = value_of(low, exponent_bits, mantissa_bits)
    up = False
    if floor != size:
        middle = (floor + value_of(low + 1, exponent_bits, mantissa_bits)) / 2
        up = {
            "rn": size > middle or (size == middle and low & 1 == 1),
            "rz": False,
            "rp": sign > 0,
            "rm": sign < 0,
        }[mode]
    if low + up > largest(name) or low > largest(name):
        outwards = mode == "rn" or (mode == "rp" and sign > 0) or (mode == "rm" and sign < 0)
        if outwards:
            return math.copysign(math.inf, sign)
        return sign * float(value_of(largest(name), exponent_bits, mantissa_bits))
    return math.copysign(float(value_of(low + up, exponent_bits, mantissa_bits)), sign)


def below(size: Fraction, exponent_bits: int, mantissa_bits: int) -> int:
    """Bits of the largest magnitude not above `size`, by bisection."""
    low, high = 0, 1 << (exponent_bits + mantissa_bits + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if value_of(middle, exponent_bits, mantissa_bits) <= size:
            low = middle
        else:
            high = middle
    return low
