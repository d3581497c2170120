"""The text of floats: the fewest digits that stand for the same bits."""

from __future__ import annotations

import math
import random

import pytest

from tileir.textual.literals import format_bits, literal
from tileir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, Scalar
from tileir.values import Constant, decode, encode

KINDS = (F8E4M3, F8E5M2, F16, BF16, F32, F64)


def bits_of(kind: Scalar) -> list[int]:
    """All of a small format; of others zeros, subnormals, powers of two and their neighbours of
    both signs, those nearest to integers below 1000, and some at random."""
    every = 1 << kind.bits
    if kind.bits == 8:
        return list(range(every))
    choose = random.Random(kind.bits)
    powers = (sign * 2.0**n for n in range(-1074, 1024) for sign in (1, -1))
    patterns: set[int] = set()
    for power in powers:
        bits = encode(kind, power)
        if decode(kind, bits) == power:
            patterns |= {bits, bits - 1, bits + 1}
    subnormal = [choose.randrange(1 << choose.randint(1, kind.bits - 4)) for _ in range(400)]
    patterns |= {*subnormal, *(every // 2 + n for n in subnormal)}
    patterns |= {encode(kind, float(n)) for n in range(1000)}
    patterns |= {choose.randrange(every) for _ in range(2000)}
    return sorted(n % every for n in patterns)


def digits(text: str) -> int:
    """Significant digits of a decimal."""
    mantissa = text.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    return max(1, len(mantissa))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_float_is_written_with_the_fewest_digits(kind: Scalar) -> None:
    for bits in bits_of(kind):
        text = format_bits(kind, bits)
        assert literal(text, kind) == Constant(kind, bits), text
        value = decode(kind, bits)
        if isinstance(value, float) and math.isfinite(value) and kind is not F64:
            assert text.removesuffix(".0") == f"{value:.{digits(text)}g}"
            fewer = f"{value:.{max(1, digits(text) - 1)}g}"
            assert digits(text) == 1 or encode(kind, float(fewer)) != bits, (text, fewer)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_float_and_its_negative_have_the_same_digits(kind: Scalar) -> None:
    for bits in bits_of(kind):
        sign = 1 << kind.bits - 1
        if not bits & sign and math.isfinite(float(decode(kind, bits))):
            assert format_bits(kind, bits | sign) == "-" + format_bits(kind, bits)
