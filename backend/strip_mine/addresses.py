"""Base pointers and distinctness of tiles of addresses."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.op import Op
from tileir.values import Operand, Value


def elements_distinct(operand: Operand, definitions: Mapping[Value, Op]) -> bool:
    """Whether the elements of a tile are known to be pairwise distinct: a range plus a uniform
    offset. Wrapping additions keep distinct elements distinct."""
    op = definitions.get(operand) if type(operand) is Value else None
    if op is None or op.predicate is not None:
        return False
    if op.mnemonic == "make_range":
        return True
    if op.mnemonic in ("reshape", "expand_dims", "trans", "sext", "zext"):
        return elements_distinct(op.inputs[0], definitions)
    if op.mnemonic in ("add", "getelementptr"):
        a, b = op.inputs
        for moved, by in ((a, b), (b, a)):
            if _uniform(by, definitions):
                return elements_distinct(moved, definitions)
    return False


def _uniform(operand: Operand, definitions: Mapping[Value, Op]) -> bool:
    op = definitions.get(operand) if type(operand) is Value else None
    return type(operand) is not Value or (op is not None and op.mnemonic == "splat")
