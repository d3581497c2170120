"""Each rule of the range analysis against all pairs of numbers in random ranges of i8."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.analysis.range_rules import RULES, Range, full, width
from tileir.errors import TileirError
from tileir.machine import Machine, Tensor
from tileir.op import Op, lookup
from tileir.ops.arith import Overflow
from tileir.ops.division import DivRounding, RemRounding
from tileir.types import F32, I1, I8, I16, VOID, Descriptor, Pointer, Tile
from tileir.values import Value

EXACT = "the least range there is"
SOUND = "a range around it"

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("add", {}, EXACT), ("sub", {}, EXACT), ("mul", {}, EXACT),
    ("add", {"overflow": Overflow.NSW}, EXACT), ("sub", {"overflow": Overflow.NSW}, EXACT),
    ("mul", {"overflow": Overflow.NSW}, SOUND), ("mul", {"overflow": Overflow.NUW}, SOUND),
    *(("sdiv", {"rounding": r}, SOUND) for r in DivRounding),
    *(("udiv", {"rounding": r}, SOUND) for r in DivRounding),
    *(("srem", {"rounding": r}, SOUND) for r in RemRounding),
    ("urem", {}, SOUND), ("and", {}, SOUND), ("or", {}, SOUND), ("xor", {}, SOUND),
    ("smin", {}, EXACT), ("smax", {}, EXACT), ("umin", {}, SOUND), ("umax", {}, SOUND),
    ("shl", {}, SOUND), ("lshr", {}, SOUND), ("ashr", {}, SOUND),
    ("neg", {}, EXACT), ("iabs", {}, EXACT), ("ctpop", {}, SOUND), ("clz", {}, SOUND),
]  # fmt: skip


def op_of_ranges(mnemonic: str, count: tuple[int, int], attributes: dict[str, Any]) -> Op:
    cls = lookup(mnemonic)
    assert cls is not None
    unary = mnemonic in ("neg", "iabs", "ctpop", "clz")
    type_ = Tile(I8, count)
    return cls(*[Value(type_) for _ in range(1 if unary else 2)], **attributes)


def results_over(op: Op, ranges: list[Range]) -> tuple[list[int], list[int]] | None:
    """Results of `op` for all operands in `ranges`, and those as they are before wrapping for
    ops that may; None where one has no meaning."""
    axes = [np.arange(low, high + 1) for low, high in ranges]
    grids = np.meshgrid(*axes, indexing="ij") if len(axes) > 1 else [axes[0][:, None]]
    operands = [Tensor(np.ascontiguousarray(g.astype(np.int8))) for g in grids]
    try:
        result = op.evaluate(Machine(), *operands)
    except TileirError:
        return None
    defined = np.ones(result.data.shape, bool) if result.undef is None else ~result.undef
    numbers = [int(n) for n in result.data[defined].ravel()]
    wide = [g.astype(int) for g in grids]
    true = {
        "add": lambda: wide[0] + wide[1], "sub": lambda: wide[0] - wide[1],
        "mul": lambda: wide[0] * wide[1], "shl": lambda: wide[0] << wide[1],
        "neg": lambda: -wide[0], "iabs": lambda: abs(wide[0]),
    }.get(op.mnemonic)  # fmt: skip
    return numbers, [int(n) for n in true().ravel()] if true else []


def some_range(r: random.Random, mnemonic: str, index: int) -> Range:
    """Short ranges, many at the edges of the type and around zero."""
    low = r.choice((-128, 120, 0, -3, 1, r.randrange(-128, 127), r.randrange(0, 20)))
    if mnemonic in ("shl", "lshr", "ashr") and index:
        low = r.randrange(0, 7)
    limit = 7 if mnemonic in ("shl", "lshr", "ashr") and index else 127
    return low, min(limit, low + r.choice((0, 0, 1, 2, 6, 17)))


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("mnemonic", "attributes", "quality"), CASES)
def test_rule(mnemonic: str, attributes: dict[str, Any], quality: str) -> None:
    r = random.Random(mnemonic)
    tight = tried = 0
    for _ in range(250):
        unary = mnemonic in ("neg", "iabs", "ctpop", "clz")
        ranges = [some_range(r, mnemonic, i) for i in range(1 if unary else 2)]
        shape = tuple(high - low + 1 for low, high in (*ranges, (0, 0))[:2])
        op = op_of_ranges(mnemonic, (shape[0], shape[1]), attributes)
        result = results_over(op, ranges)
        if result is None or not result[0]:
            continue
        numbers, true = result
        exact = set[Op]()
        ((low, high),) = RULES[mnemonic](op, ranges, exact)  # type: ignore[misc]
        where = (ranges, low, high)
        assert full(I8)[0] <= low <= min(numbers) and max(numbers) <= high <= full(I8)[1], where
        wraps = any(not -128 <= n <= 127 for n in true)
        assert (op in exact) <= (not wraps), where
        tried += 1
        tight += (low, high) == (min(numbers), max(numbers)) or wraps
    assert tried > 60
    assert tight == tried if quality == EXACT else tight > tried // 30, (tight, tried)


@for_each(("mnemonic", "attributes", "ranges", "expected"), [
        ("udiv", {}, [(0, 127), (1, 1)], (0, 127)),
        ("udiv", {}, [(100, 127), (1, 9)], (11, 127)),
        ("udiv", {"rounding": DivRounding.CEIL}, [(0, 127), (1, 1)], (0, 127)),
        ("udiv", {"rounding": DivRounding.CEIL}, [(0, 127), (2, 2)], (0, 64)),
        ("udiv", {}, [(-128, -1), (1, 1)], (-128, 127)),
        ("urem", {}, [(5, 9), (1, 1)], (0, 0)),
        ("urem", {}, [(0, 100), (1, 7)], (0, 6)),
        ("urem", {}, [(0, 3), (1, 7)], (0, 3)),
        ("urem", {}, [(-3, 3), (1, 7)], (0, 6)),
        ("urem", {}, [(0, 100), (-5, -1)], (0, 100)),
        ("srem", {"rounding": RemRounding.FLOOR}, [(0, 100), (0, 7)], (0, 6)),
        ("srem", {"rounding": RemRounding.FLOOR}, [(0, 100), (1, 7)], (0, 6)),
        ("srem", {"rounding": RemRounding.FLOOR}, [(0, 3), (1, 7)], (0, 3)),
        ("srem", {"rounding": RemRounding.FLOOR}, [(-9, 3), (1, 7)], (0, 6)),
        ("srem", {"rounding": RemRounding.FLOOR}, [(-9, 3), (0, 7)], (0, 6)),
        ("srem", {"rounding": RemRounding.FLOOR}, [(-9, 3), (-7, -2)], (-6, 0)),
        ("srem", {}, [(0, 100), (1, 7)], (0, 6)),
        ("srem", {}, [(-100, 100), (1, 7)], (-6, 6)),
        ("srem", {}, [(0, 100), (1, 1)], (0, 0)),
        ("srem", {"rounding": RemRounding.FLOOR}, [(0, 100), (-7, -2)], (-6, 0)),
        ("srem", {"rounding": RemRounding.FLOOR}, [(-9, 9), (-7, 3)], (-6, 6)),
        ("srem", {}, [(-100, -1), (1, 7)], (-6, 0)),
    ])  # fmt: skip
def test_divisions_lose_nothing(
    mnemonic: str, attributes: dict[str, Any], ranges: list[Range], expected: Range
) -> None:
    op = op_of_ranges(mnemonic, (1, 1), attributes)
    assert RULES[mnemonic](op, ranges, set()) == (expected,)


@pytest.mark.parametrize("mnemonic", ["sext", "zext", "trunc"])
def test_casts(mnemonic: str) -> None:
    r = random.Random(mnemonic)
    narrow = mnemonic == "trunc"
    for _ in range(200):
        limits = (-300, 300) if narrow else (-128, 127)
        low = r.randrange(*limits)
        high = min(limits[1], low + r.choice((0, 1, 5, 200)))
        old, new = (I16, I8) if narrow else (I8, I16)
        count = high - low + 1
        cls = lookup(mnemonic)
        assert cls is not None
        op = cls(Value(Tile(old, (count,))), Tile(new, (count,)))
        dtype = np.int16 if narrow else np.int8
        result = op.evaluate(Machine(), Tensor(np.arange(low, high + 1).astype(dtype))).data
        ((least, greatest),) = RULES[mnemonic](op, [(low, high)], set())  # type: ignore[misc]
        assert full(new)[0] <= least <= result.min() and result.max() <= greatest <= full(new)[1]
        if mnemonic == "sext" or (low >= 0 and high <= 127):
            assert (least, greatest) == (low, high)


@pytest.mark.parametrize("element", [I1, I8, I16])
@pytest.mark.parametrize("shape", [None, (4, 4)])
def test_everything_that_fits(element: Any, shape: Any) -> None:
    kind = element if shape is None else Tile(element, shape)
    half = 1 << element.bits - 1
    assert (width(kind), full(kind)) == (element.bits, (-half, half - 1))


@pytest.mark.parametrize(
    "kind",
    [
        F32,
        Pointer(F32),
        Tile(Pointer(I8), (4,)),
        Tile(F32, (4,)),
        VOID,
        Descriptor(Tile(I8, (4, 16))),
    ],
)
def test_what_is_no_integer_has_no_range(kind: Any) -> None:
    with pytest.raises(TypeError, match="is not an integer"):
        width(kind)
