"""Laws of integers: of the ring modulo 2^n, of bits, of comparisons, of choice."""

from __future__ import annotations

from tileir.passes.laws.law import Bound, Law
from tileir.types import Type, element_of
from tileir.values import Constant, Operand

_SWAPPED = {
    "eq": "eq", "ne": "ne", "slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle",
    "ult": "ugt", "ule": "uge", "ugt": "ult", "uge": "ule",
}  # fmt: skip
_TRUE_OF_EQUALS = ("eq", "sle", "sge", "ule", "uge")


def width(type: Type) -> int:
    """Bits of an element of `type`."""
    return element_of(type).bits  # type: ignore[union-attr]


def bits(operand: Operand) -> int:
    """A literal as an unsigned number."""
    assert isinstance(operand, Constant)
    return operand.bits


def as_signed(operand: Operand) -> int:
    """A literal as a signed number."""
    number, n = bits(operand), width(operand.type)
    return number - (1 << n) if number >> (n - 1) else number


def log2(operand: Operand) -> int | None:
    """The exponent of a literal that is a positive power of two as a signed number, else None."""
    number = as_signed(operand)
    return number.bit_length() - 1 if number > 0 and not number & (number - 1) else None


def _low_mask(bound: Bound) -> int | None:
    exponent = log2(bound["C"])
    return None if exponent is None else (1 << exponent) - 1


def _shifts_add(bound: Bound) -> bool:
    return bits(bound["C"]) + bits(bound["D"]) < width(bound["C"].type)


def _high_bits(bound: Bound) -> int | None:
    n, count = width(bound["C"].type), bits(bound["C"])
    return ((1 << n) - 1) >> count << count if count < n else None


def _low_bits(bound: Bound) -> int | None:
    n, count = width(bound["C"].type), bits(bound["C"])
    return ((1 << n) - 1) >> count if count < n else None


def _multiplication_fits(bound: Bound) -> bool:
    product = bits(bound["C"]) * bits(bound["D"])
    return 0 < product < 1 << width(bound["C"].type)


ARITHMETIC = (
    Law("add(x, 0) = x"),
    Law("sub(x, 0) = x"),
    Law("sub(x, x) = 0"),
    Law("sub(0, x) = neg(x)"),
    Law("neg(neg(x)) = x"),
    Law("sub(x, C) = add(x, neg(C))"),
    Law("add(x, neg(y)) = sub(x, y)"),
    Law("sub(x, neg(y)) = add(x, y)"),
    Law("add(sub(x, y), y) = x"),
    Law("sub(add(x, y), y) = x"),
    Law("sub(x, add(x, y)) = neg(y)"),
    Law("sub(x, sub(x, y)) = y"),
    Law("add(add(x, C), D) = add(x, add(C, D))"),
    Law("sub(C, add(x, D)) = sub(sub(C, D), x)"),
    Law("add(sub(C, x), D) = sub(add(C, D), x)"),
    Law("mul(x, 0) = 0"),
    Law("mul(x, 1) = x"),
    Law("mul(x, -1) = neg(x)"),
    Law("mul(neg(x), neg(y)) = mul(x, y)"),
    Law("mul(mul(x, C), D) = mul(x, mul(C, D))"),
    Law("iabs(y: iabs(x)) = y"),
    Law("iabs(neg(x)) = iabs(x)"),
)
DIVISION = (
    Law("sdiv(x, 1){rounding = *} = x"),
    Law("udiv(x, 1){rounding = *} = x"),
    Law("sdiv(x, -1){rounding = *} = neg(x)"),
    Law("sdiv(0, x){rounding = *} = 0"),
    Law("udiv(0, x){rounding = *} = 0"),
    Law("sdiv(x, x){rounding = *} = 1"),
    Law("udiv(x, x){rounding = *} = 1"),
    Law("srem(x, 1){rounding = *} = 0"),
    Law("urem(x, 1) = 0"),
    Law("srem(0, x){rounding = *} = 0"),
    Law("urem(0, x) = 0"),
    Law("srem(x, x){rounding = *} = 0"),
    Law("urem(x, x) = 0"),
    Law("urem(x, C) = and(x, M)", let={"M": _low_mask}),
    Law("srem(x, C){rounding = floor} = and(x, M)", let={"M": _low_mask}),
    Law("udiv(x, C) = lshr(x, K)", let={"K": lambda b: log2(b["C"])}),
    Law("udiv(x, C){rounding = floor} = lshr(x, K)", let={"K": lambda b: log2(b["C"])}),
    Law("sdiv(x, C){rounding = floor} = ashr(x, K)", let={"K": lambda b: log2(b["C"])}),
    Law("udiv(udiv(x, C), D) = udiv(x, mul(C, D))", where=_multiplication_fits),
)
BITS = (
    Law("and(x, x) = x"),
    Law("and(x, 0) = 0"),
    Law("and(x, -1) = x"),
    Law("or(x, x) = x"),
    Law("or(x, 0) = x"),
    Law("or(x, -1) = -1"),
    Law("xor(x, x) = 0"),
    Law("xor(x, 0) = x"),
    Law("xor(xor(x, y), y) = x"),
    Law("and(and(x, C), D) = and(x, and(C, D))"),
    Law("or(or(x, C), D) = or(x, or(C, D))"),
    Law("xor(xor(x, C), D) = xor(x, xor(C, D))"),
    Law("and(z: and(x, y), y) = z"),
    Law("or(z: or(x, y), y) = z"),
    Law("and(or(x, y), y) = y"),
    Law("or(and(x, y), y) = y"),
    Law("and(xor(x, -1), x) = 0"),
    Law("or(xor(x, -1), x) = -1"),
    Law("shl(x, 0) = x"),
    Law("lshr(x, 0) = x"),
    Law("ashr(x, 0) = x"),
    Law("shl(0, x) = 0"),
    Law("lshr(0, x) = 0"),
    Law("ashr(0, x) = 0"),
    Law("shl(shl(x, C), D) = shl(x, add(C, D))", where=_shifts_add),
    Law("lshr(lshr(x, C), D) = lshr(x, add(C, D))", where=_shifts_add),
    Law("ashr(ashr(x, C), D) = ashr(x, add(C, D))", where=_shifts_add),
    Law("lshr(shl(x, C), C) = and(x, M)", let={"M": _low_bits}),
    Law("shl(lshr(x, C), C) = and(x, M)", let={"M": _high_bits}),
    Law("shl(ashr(x, C), C) = and(x, M)", let={"M": _high_bits}),
)
SELF_EXTREMES = tuple(
    law
    for op, other in (("smin", "smax"), ("smax", "smin"), ("umin", "umax"), ("umax", "umin"))
    for law in (
        Law(f"{op}(x, x) = x"),
        Law(f"{op}(z: {op}(x, y), y) = z"),
        Law(f"{op}({other}(x, y), y) = y"),
        Law(f"{op}({op}(x, C), D) = {op}(x, {op}(C, D))"),
    )
)
EXTREMES = (
    *SELF_EXTREMES,
    Law("umin(x, 0) = 0"),
    Law("umin(x, -1) = x"),
    Law("umax(x, 0) = x"),
    Law("umax(x, -1) = -1"),
)
SELF_COMPARISON = tuple(
    Law(f"icmp(x, x){{predicate = {word}}} = {'true, false' if holds else 'false, true'}")
    for word in _SWAPPED
    for holds in (word in _TRUE_OF_EQUALS,)
)
SWAPPED_COMPARISON = tuple(
    Law(f"icmp(C, x){{predicate = {word}}} = p: icmp(x, C){{predicate = {swapped}}}, p#1",
        where=lambda b: type(b["x"]) is not Constant)
    for word, swapped in _SWAPPED.items()
)  # fmt: skip
COMPARISON = (
    *SELF_COMPARISON,
    *SWAPPED_COMPARISON,
    Law("icmp(x, 0){predicate = ult} = false, true"),
    Law("icmp(x, 0){predicate = uge} = true, false"),
)
COMPLEMENTS = tuple(
    law
    for cmp in ("icmp", "fcmp")
    for law in (
        Law(f"xor(p: {cmp}(x, y), true) = p#1"),
        Law(f"xor(p: {cmp}#1(x, y), true) = p#0"),
        Law(f"and(p: {cmp}(x, y), p#1) = false"),
        Law(f"or(p: {cmp}(x, y), p#1) = true"),
        Law(f"xor(p: {cmp}(x, y), p#1) = true"),
        Law(f"select(p: {cmp}(x, y), false, true) = p#1"),
    )
)
CHOICE = (
    Law("select(true, x, y) = x"),
    Law("select(false, x, y) = y"),
    Law("select(p, x, x) = x"),
    Law("select(p, true, false) = p"),
    Law("select(xor(p, true), x, y) = select(p, y, x)"),
    Law("select(p, select(p, x, y), z) = select(p, x, z)"),
    Law("select(p, x, select(p, y, z)) = select(p, x, z)"),
    Law("psi(p, x) = x"),
    Law("psi(p, x, q, x) = x"),
)
CASTS = (
    Law("trunc(zext(x)) = x"),
    Law("trunc(sext(x)) = x"),
    Law("trunc(trunc(x)) = trunc(x)"),
    Law("trunc(zext(x)) = trunc(x)"),
    Law("trunc(sext(x)) = trunc(x)"),
    Law("trunc(zext(x)) = zext(x)"),
    Law("trunc(sext(x)) = sext(x)"),
    Law("zext(zext(x)) = zext(x)"),
    Law("sext(sext(x)) = sext(x)"),
    Law("sext(zext(x)) = zext(x)"),
    Law("bitcast(bitcast(x)) = x"),
    Law("bitcast(bitcast(x)) = bitcast(x)"),
    Law("ptrtoint(inttoptr(x)) = x"),
    Law("inttoptr(y: ptrtoint(x)) = x", where=lambda b: width(b["y"].type) == 64),
    Law("addrspacecast(addrspacecast(x)) = x"),
)
POINTERS = (
    Law("getelementptr(x, 0) = x"),
    Law(
        "getelementptr(getelementptr(x, C), D) = getelementptr(x, add(C, D))",
        where=lambda b: (
            b["C"].type is b["D"].type
            and abs(as_signed(b["C"]) + as_signed(b["D"])) < 1 << (width(b["C"].type) - 1)
        ),
    ),
)
INTEGERS = (
    *ARITHMETIC, *DIVISION, *BITS, *EXTREMES, *COMPARISON, *COMPLEMENTS, *CHOICE, *CASTS, *POINTERS
)  # fmt: skip
"""Every law of integers, predicates and pointers."""
