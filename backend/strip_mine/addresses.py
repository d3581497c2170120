"""Where tiles of pointers point to, as far as ops say."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.op import Op
from tileir.values import Operand, Value


def elements_distinct(operand: Operand, definitions: Mapping[Value, Op]) -> bool:
    """Whether the elements of a tile are certainly different numbers: a range, moved by what is
    the same for all of them. That sums wrap does not make two of them equal."""
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
