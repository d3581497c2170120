"""Rules of the range analysis: ranges of an op's results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSet, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from tileir.op import Op
from tileir.ops.program import GRID_LIMITS
from tileir.types import Type, element_of, shape_of
from tileir.values import Constant, Undef

Range: TypeAlias = tuple[int, int]
"""Least and greatest number, both included."""

Rule: TypeAlias = Callable[[Any, Sequence[Any], MutableSet[Op]], Sequence["Range | None"]]
"""Maps an op, the ranges of its inputs (None for other types than integers) and the set of ops that
do not wrap to ranges."""


def width(type: Type) -> int:
    """Bits of an integer type's element. Raises TypeError where it is not an integer."""
    element: Any = element_of(type)
    if not getattr(element, "is_integer", False):
        raise TypeError(f"{type} is not an integer")
    return element.bits


@lru_cache(4096)
def full(type: Type) -> Range:
    """Everything that fits in an element of `type`."""
    half = 1 << (width(type) - 1)
    return (-half, half - 1)


def hull(parts: Iterable[Range]) -> Range:
    """The least range around all of `parts`."""
    lows, highs = zip(*parts, strict=True)
    return (min(lows), max(highs))


def of_literal(literal: Constant | Undef) -> Range:
    """One number; undef can be any."""
    least, greatest = full(literal.type)
    if isinstance(literal, Undef):
        return (least, greatest)
    number = literal.bits if literal.bits <= greatest else literal.bits - 2 * (greatest + 1)
    return (number, number)


def _fitting(op: Any, low: int, high: int, exact: MutableSet[Op]) -> Range:
    """The range of an exact result taken modulo 2^n."""
    least, greatest = full(op.result.type)
    if least <= low and high <= greatest:
        exact.add(op)
        return (low, high)
    exact.discard(op)
    overflow = getattr(op, "overflow", None)
    if overflow is not None and overflow.value in ("nsw", "nsw_nuw"):
        low, high = max(low, least), min(high, greatest)
        return (low, high) if low <= high else (least, greatest)
    return (least, greatest)


def _add(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (a, b), (c, d) = facts
    return (_fitting(op, a + c, b + d, exact),)


def _sub(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (a, b), (c, d) = facts
    return (_fitting(op, a - d, b - c, exact),)


def _mul(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    corners = [x * y for x in facts[0] for y in facts[1]]
    return (_fitting(op, min(corners), max(corners), exact),)


def _shl(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (low, high), (least, most) = facts
    if not 0 <= least <= most < width(op.result.type):
        return (full(op.result.type),)
    ends = [x << s for x in (low, high) for s in (least, most)]
    return (_fitting(op, min(ends), max(ends), exact),)


def _neg(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    ((low, high),) = facts
    return (_fitting(op, -high, -low, exact),)


def _abs(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    ((low, high),) = facts
    least = 0 if low <= 0 <= high else min(abs(low), abs(high))
    return (_fitting(op, least, max(abs(low), abs(high)), exact),)


def _divide(number: int, divisor: int, rounding: str) -> int:
    quotient = number // divisor
    inexact = number % divisor != 0
    up = rounding == "ceil" or (rounding == "zero" and quotient < 0)
    return quotient + (inexact and up)


def _sdiv(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (low, high), (least, most) = facts
    if least > 0:
        ends = [_divide(x, y, op.rounding.value) for x in (low, high) for y in (least, most)]
        return ((min(ends), max(ends)),)
    bound = max(abs(low), abs(high))
    floor, ceiling = full(op.result.type)
    return ((max(-bound, floor), min(bound, ceiling)),)


def _udiv(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (low, high), (least, most) = facts
    floor, ceiling = full(op.result.type)
    rounding = "ceil" if op.rounding.value == "ceil" else "floor"
    if low < 0:
        high = 2 * ceiling + 1
        low = 0
    if least < 0:
        return ((0, min(high, ceiling)),) if high <= ceiling else ((floor, ceiling),)
    result = (_divide(low, max(most, 1), rounding), _divide(high, max(least, 1), rounding))
    return (result if result[1] <= ceiling else (floor, ceiling),)


def _srem(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (low, high), (least, most) = facts
    bound = max(abs(least), abs(most)) - 1
    if op.rounding.value == "zero":
        return ((max(low, -bound) if low < 0 else 0, min(high, bound) if high > 0 else 0),)
    if least >= 0 and low >= 0:
        return ((0, min(high, bound)),)
    return ((0 if least >= 0 else -bound, bound if most > 0 else 0),)


def _urem(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (low, high), (least, most) = facts
    if least >= 0:
        return ((0, max(0, most - 1 if low < 0 else min(high, most - 1))),)
    return ((0, high) if low >= 0 else full(op.result.type),)


def _and(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    limits = [high for low, high in facts if low >= 0]
    return ((0, min(limits)) if limits else full(op.result.type),)


def _or(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    """Bits above the longest operand's are its sign, or zero."""
    (a, b), (c, d) = facts
    above = 1 << max((n if n >= 0 else ~n).bit_length() for n in (a, b, c, d))
    if min(a, c) >= 0:
        return ((max(a, c) if op.mnemonic == "or" else 0, above - 1),)
    negative = op.mnemonic == "or" and min(b, d) < 0
    return ((-above, -1 if negative else above - 1),)


def _smin(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (a, b), (c, d) = facts
    return ((min(a, c), min(b, d)),)


def _smax(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (a, b), (c, d) = facts
    return ((max(a, c), max(b, d)),)


def _umin(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    if min(low for low, _ in facts) >= 0:
        return _smin(op, facts, exact)
    limits = [high for low, high in facts if low >= 0]
    return ((0, min(limits)) if limits else full(op.result.type),)


def _umax(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    return _smax(op, facts, exact) if min(f[0] for f in facts) >= 0 else (full(op.result.type),)


def _lshr(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (low, high), (least, most) = facts
    bits = width(op.result.type)
    if least < 0 or most >= bits:
        least, most = 0, bits - 1
    if low >= 0:
        return ((low >> most, high >> least),)
    return ((0, ((1 << bits) - 1) >> least) if least else full(op.result.type),)


def _ashr(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    (low, high), (least, most) = facts
    bits = width(op.result.type)
    if least < 0 or most >= bits:
        least, most = 0, bits - 1
    ends = [x >> s for x in (low, high) for s in (least, most)]
    return ((min(ends), max(ends)),)


def _count(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    bits = width(op.result.type)
    return ((0, bits) if bits >= 8 else full(op.result.type),)


def _zext(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    ((low, high),) = facts
    return ((low, high) if low >= 0 else (0, (1 << width(op.inputs[0].type)) - 1),)


def _sext(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    return facts


def _trunc(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    ((low, high),) = facts
    least, greatest = full(op.result.type)
    return ((low, high) if least <= low and high <= greatest else (least, greatest),)


def _make_range(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    return ((op.start, op.start + shape_of(op.to)[0] - 1),)


def _program_id(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    return ((0, GRID_LIMITS[op.axis] - 1),)


def _num_programs(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
    return ((1, GRID_LIMITS[op.axis]),)


def _elements_of(count: int | None) -> Rule:
    """The rule of an op that moves elements of its first `count` operands (None: of all)."""

    def rule(op: Any, facts: Sequence[Range], exact: MutableSet[Op]) -> Sequence[Range]:
        return (hull(facts[:count]),) * len(op.results)

    return rule


def _select(op: Any, facts: Sequence[Any], exact: MutableSet[Op]) -> Sequence[Range]:
    return (hull(facts[1:]),)


def _psi(op: Any, facts: Sequence[Any], exact: MutableSet[Op]) -> Sequence[Range]:
    return (hull(facts[1::2]),)


def _reduce(op: Any, facts: Sequence[Any], exact: MutableSet[Op]) -> Sequence[Range | None]:
    """An extremum has the range of the elements, and so have bits that `mul`, `and` or `or`
    combine. The bounds of a total are multiplied by the extent, unless it may wrap."""
    word = getattr(op.combiner, "value", "")
    ranges: list[Range | None] = []
    for value, fact in zip(op.results, facts, strict=True):
        result = None if fact is None else full(value.type)
        if fact is not None and (word in ("smin", "smax") or (word in _BITWISE and _is_bit(fact))):
            result = fact
        elif fact is not None and word == "add":
            result = _total(op, fact)
        ranges.append(result)
    return ranges


_BITWISE = ("mul", "and", "or")
"""The combiners of 0 and 1 whose results are 0 or 1, next to the extremes."""


def _is_bit(fact: Range) -> bool:
    return 0 <= fact[0] and fact[1] <= 1


def _total(op: Any, fact: Range) -> Range:
    axis: int = op.axis
    count = shape_of(op.values[0].type)[axis]
    low, high = min(fact[0], count * fact[0]), max(fact[1], count * fact[1])
    least, greatest = full(op.values[0].type)
    return (low, high) if least <= low and high <= greatest else (least, greatest)


_FIRST, _BOTH = _elements_of(1), _elements_of(None)

RULES: dict[str, Rule] = {
    "add": _add, "sub": _sub, "mul": _mul, "shl": _shl, "neg": _neg, "iabs": _abs,
    "sdiv": _sdiv, "udiv": _udiv, "srem": _srem, "urem": _urem,
    "and": _and, "or": _or, "xor": _or, "lshr": _lshr, "ashr": _ashr,
    "smin": _smin, "smax": _smax, "umin": _umin, "umax": _umax, "ctpop": _count, "clz": _count,
    "zext": _zext, "sext": _sext, "trunc": _trunc, "select": _select, "psi": _psi,
    "make_range": _make_range, "program_id": _program_id, "num_programs": _num_programs,
    "split": _FIRST, "gather": _FIRST, "extract_slice": _FIRST,
    "join": _BOTH, "cat": _BOTH, "insert_slice": _elements_of(2),
    "reduce": _reduce, "scan": _reduce,
}  # fmt: skip


def rule_of(op: Op) -> Rule | None:
    """The rule for `op`; None where nothing is known."""
    return _FIRST if op.moves_elements or op.is_identity else RULES.get(op.mnemonic)
