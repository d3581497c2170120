"""Reduction of large angles by the bits of 2/pi that matter (Payne and Hanek, "Radian reduction for
trigonometric functions", 1983)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tileir.backend.codegen.libm.double_word import Pair, constant, fast_sum, times
from tileir.backend.codegen.libm.expression import Term, flip_sign, sign_bit, where
from tileir.types import F32, I32, I64

_TWO_OVER_PI = (
    0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
    0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08,
)  # fmt: skip
"""2/pi times 2^1152, most significant word first."""
_HALVES = tuple((w >> s) & 0xFFFFFFFF for w in _TWO_OVER_PI for s in (32, 0))
_PI_HALF = (1.5707963267948966, 6.123233995736766e-17)


def reduce32(x: Term) -> tuple[Term, Term]:
    """The quadrant and the remainder of an f32 of 2^16 or more. The 24 bits of the significand are
    multiplied by 96 bits of 2/pi, starting where the result is below 4; this yields the fraction to
    64 bits."""
    bits = x.bits()
    start = (bits.unsigned_shift(23) & 255) - 128
    high, middle, low = _window(start, (0, *_HALVES[:6]), 5, 2)
    significand = (((bits & 0x7FFFFF) | 0x800000) << 8).cast("zext", I64)
    wide = [w.cast("zext", I64) for w in (high, middle, low)]
    product = (significand * wide[2]).unsigned_shift(32) + significand * wide[1]
    product = product + ((significand * wide[0]) << 32)
    size = ((product << 2).floating() * 8.5153039502163873e-20).cast("fptrunc", F32)
    return _apply_sign(x, _nearest_quadrant(product), size)


def reduce64(x: Term) -> tuple[Term, Pair]:
    """The quadrant and the remainder of an f64 of 2^20 or more: 53 bits are multiplied by 192,
    which yields the fraction to 128 bits."""
    bits = x.bits()
    start = (bits.unsigned_shift(52) & 0x7FF) - 1024
    high, middle, low = _window(start, (0, *_TWO_OVER_PI), 6, 4)
    significand = ((bits & ((1 << 52) - 1)) | (1 << 52)) << 11
    top = significand * high + _multiply_high(significand, middle)
    bottom = significand * middle
    total = bottom + _multiply_high(significand, low)
    top = top + total.compare("ult", bottom).cast("zext", I64)
    first, second = _fraction((top << 2) | total.unsigned_shift(62), total << 2)
    product = times((first, second), constant(x, _PI_HALF))
    quadrant, result = _apply_sign(x, _nearest_quadrant(top), product[0])
    return quadrant, (result, flip_sign(product[1], sign_bit(x)))


def _apply_sign(x: Term, quadrant: Term, size: Term) -> tuple[Term, Term]:
    """The result with the sign of `x`; NaN if `x` is not finite."""
    negative = sign_bit(x)
    finite = abs(x) < float("inf")
    result = where(finite, flip_sign(size, negative), float("nan"))
    return where(negative, -quadrant, quadrant), result


def _nearest_quadrant(product: Term) -> Term:
    """The nearest quadrant, from the upper 64 bits of the fraction."""
    nearest = product.unsigned_shift(62) + (product.unsigned_shift(61) & 1)
    return nearest.cast("trunc", I32)


def _fraction(high: Term, low: Term) -> Pair:
    """A signed 128-bit fraction of 1 as a pair of floats."""
    negative = high < 0
    flip = where(negative, high.like(-1), 0)
    high, low = high ^ flip, low ^ flip
    parts = (high.unsigned_shift(32), high & 0xFFFFFFFF, low.unsigned_shift(32), low & 0xFFFFFFFF)
    a, b, c, d = (p.floating() * 2.0 ** -(32 * i + 32) for i, p in enumerate(parts))
    total, error = fast_sum(a, b)
    total, error = fast_sum(total, error + c)
    total, error = fast_sum(total, error + d)
    return flip_sign(total, negative), flip_sign(error, negative)


def _multiply_high(a: Term, b: Term) -> Term:
    """The upper half of an unsigned product."""
    text = "mul.hi.u64 $0, $1, $2;"
    return a.as_term(a.thread.instruction(text, I64, [(I64, a.handle), (I64, b.handle)]))


def _window(start: Term, table: Sequence[int], log_word: int, log_count: int) -> list[Term]:
    """Three words of `table` from bit `start` on. The words are selected by binary search and then
    shifted."""
    index, shift = start >> log_word, start & ((1 << log_word) - 1)
    words: list[Term] = [start.like(w) for w in table]
    for step in (1 << bit for bit in reversed(range(log_count))):
        is_set = (index & step).same(step)
        words = [where(is_set, words[i + step], words[i]) for i in range(3 + step)]
    last = (1 << log_word) - 1
    return [
        (a << shift) | b.unsigned_shift(1).unsigned_shift(last - shift) for a, b in pairwise(words)
    ]
