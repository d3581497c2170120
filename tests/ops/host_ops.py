"""Ops that the host computes for a launch, one for every attribute."""

from __future__ import annotations

from typing import Any

from tileir.op import lookup
from tileir.ops.arith import IntegerPredicate
from tileir.ops.division import DivRounding
from tileir.types import F16, I1, I8, I16, I32, I64, Pointer, Scalar
from tileir.values import Value


def ops_of_every_attribute(name: str, kind: Scalar) -> list[Any]:
    """Ops `name` on values of this type, one for every attribute."""
    cls: Any = lookup(name)
    x, y, c = Value(kind), Value(kind), Value(I1)
    match name:
        case "icmp":
            return [cls(x, y, predicate_=p) for p in IntegerPredicate]
        case "sdiv":
            return [cls(x, y, rounding=r) for r in DivRounding]
        case "select":
            return [cls(c, x, y)]
        case "neg":
            return [cls(x)]
        case "sext" | "zext":
            return [cls(v, I64) for v in (x, c) if v.type is not I64]
        case "trunc":
            return [cls(x, small) for small in (I1, I8, I16, I32) if small.bits < kind.bits]
        case "getelementptr":
            return [cls(Value(Pointer(pointee)), y) for pointee in (I8, F16, I64)]
        case _:
            return [cls(x, y)]
