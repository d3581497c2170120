"""Divisions whose operands are in intervals that begin and end where their types do: the simulator
and the CPU against Python's integers, and what becomes of those of scalars."""

import itertools
import random

import numpy as np
import pytest

from tileir.backend.transforms.narrow_division import narrow_divisions
from tileir.executor import executor
from tileir.textual import parse

LIMITS = sorted(
    {x + d for x in (-(2**32), -(2**31), -128, 0, 2**31, 2**32) for d in (-1, 0, 1)}
    | {-(2**63), 2**63 - 1, -(2**63) + 1}
)
MODES = {"sdiv": ("zero", "floor", "ceil"), "srem": ("zero", "floor"),
         "udiv": ("zero", "ceil"), "urem": (None,)}  # fmt: skip
CASES = [(op, mode) for op, modes in MODES.items() for mode in modes]


EDGES = [
    ((0, 2**31), (1, 3)), ((-(2**31) - 1, 5), (1, 3)), ((-(2**31), 5), (-1, 3)),
    ((-(2**31) + 1, 5), (-1, -1)), ((5, 9), (1, 2**31)), ((-128, 127), (-(2**31) - 1, -1)),
    ((-128, 127), (1, 3)), ((1, 3), (-128, -1)), ((0, 2**31 - 1), (1, 2**31 - 1)),
]  # fmt: skip
"""Operands that 32 bits, or bits without a sign, just hold or just do not."""


def quotient_or_remainder(op: str, mode: str | None, a: int, b: int) -> int:
    """The result of 64 bits, with its sign."""
    if op[0] == "u":
        a, b = a % 2**64, b % 2**64
    q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if mode == "floor":
        q = a // b
    if mode == "ceil":
        q = -(-a // b)
    result = q if op.endswith("div") else a - q * b
    return (result + 2**63) % 2**64 - 2**63


def intervals(seed: int, count: int) -> list[tuple[int, int]]:
    draw = random.Random(seed)
    pairs = list(itertools.combinations_with_replacement(LIMITS, 2))
    return draw.sample(pairs, count)


def kernel(op: str, mode: str | None, bounds: list[tuple[int, int]], shape: str) -> str:
    """Of x[0] and x[1], or of a tile of each, kept within bounds[2 i] and bounds[2 i + 1], the
    result number i."""
    attribute = f" {{rounding = {mode}}}" if mode not in (None, "zero") else ""
    lines = ["tir 1.0\n", "define kernel void @k(i64* %x, i64* %out) {", "entry:"]
    at = "0" if not shape else "%r"
    if shape:
        lines += [f"  %r = make_range i32{shape}", f"  %xs = splat i64*{shape} %x",
                  f"  %os = splat i64*{shape} %out"]  # fmt: skip
    base, out = ("%x", "%out") if not shape else ("%xs", "%os")
    width = int(shape.strip("<>") or 1)
    for i, name in enumerate("ab"):
        lines += [f"  %{name}i = add i32{shape} {at}, {i * width}" if shape
                  else f"  %{name}i = add i32 0, {i}",
                  f"  %{name}p = getelementptr i64*{shape} {base}, %{name}i",
                  f"  %{name} = load i64{shape} %{name}p"]  # fmt: skip
    for i in range(len(bounds) // 2):
        for name, (low, high) in zip("ab", bounds[2 * i : 2 * i + 2], strict=True):
            lines += [f"  %{name}l{i} = smax i64{shape} %{name}, {low}",
                      f"  %{name}h{i} = smin i64{shape} %{name}l{i}, {high}"]  # fmt: skip
        lines += [f"  %q{i} = {op} i64{shape} %ah{i}, %bh{i}{attribute}",
                  f"  %oi{i} = add i32{shape} {at}, {i * width}",
                  f"  %op{i} = getelementptr i64*{shape} {out}, %oi{i}",
                  f"  store %op{i}, %q{i}"]  # fmt: skip
    return "\n".join([*lines, "  ret", "}", ""])


def numbers(bounds: list[tuple[int, int]]) -> list[int]:
    near = {e + d for pair in bounds for e in pair for d in (-1, 0, 1)} | set(LIMITS) | {-7, 5}
    return sorted(x for x in near if -(2**63) <= x < 2**63)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("op", "mode"), CASES)
@pytest.mark.parametrize("on", ["simt", "cpu"])
def test_tiles(op: str, mode: str | None, on: str) -> None:
    draw = random.Random(f"{op} {mode}")
    drawn = [b for b in intervals(7, 12) if b != (0, 0)]
    bounds = [b for pair in EDGES for b in pair] + drawn[: len(drawn) // 2 * 2]
    module = parse(kernel(op, mode, bounds, "<64>"))
    a, b = (np.array(draw.choices(numbers(bounds), k=64), np.int64) for _ in range(2))
    for low, high in bounds[1::2]:
        if low <= 0 <= high:  # no divisor is zero
            b[(b == 0) | ((b < low) & (low == 0)) | ((b > high) & (high == 0))] = low or high
    actual = np.zeros(32 * len(bounds), np.int64)
    executor(on).launch(module, "k", 1, [np.concatenate([a, b]), actual])
    for i in range(len(bounds) // 2):
        (al, ah), (bl, bh) = bounds[2 * i : 2 * i + 2]
        for x, y, result in zip(a, b, actual[64 * i : 64 * i + 64], strict=True):
            x, y = (min(max(int(v), lo), hi) for v, lo, hi in ((x, al, ah), (y, bl, bh)))
            if y:
                expected = quotient_or_remainder(op, mode, x, y)
                assert result == expected, (op, mode, bounds[2 * i : 2 * i + 2], x, y)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("op", "mode"), CASES)
def test_scalars(op: str, mode: str | None) -> None:
    """Only where 32 bits hold operands and result are these of 32 bits."""
    least = 0 if op[0] == "u" else -(2**31)
    pairs = list(itertools.combinations_with_replacement(LIMITS, 2))
    divisors = [p for p in pairs if p != (0, 0)]
    for (al, ah), (bl, bh) in [
        *zip(random.Random(op).sample(pairs, 40), divisors[::5], strict=False),
        *EDGES,
    ]:
        text = kernel(op, mode, [(al, ah), (bl, bh)], "")
        (division,) = (o for o in narrow_divisions(parse(text).kernel()).ops if o.mnemonic == op)
        if str(division.result.type) == "i32":
            assert least <= al and ah < 2**31 and least <= bl and bh < 2**31
            assert not (al == -(2**31) and bl <= -1 <= bh)
    whole, small = (least and least + 1, 2**31 - 1), (least, 2**31 - 1)
    text = kernel(op, mode, [whole, small], "")
    (division,) = (o for o in narrow_divisions(parse(text).kernel()).ops if o.mnemonic == op)
    assert str(division.result.type) == "i32"
