"""Distinctness and contiguity of tiles of addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileir.analysis.alignment import alignment
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, element_of
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


def exchanges_bytes(store: Op, loads: Iterable[Op], function: Function) -> bool:
    """Whether `store` stores bytes, along another dimension than one of `loads` loads them: each
    along the only dimension whose neighbours are known to have consecutive addresses."""
    if store.mnemonic != "store":
        return False
    kind = element_of(store.inputs[0].type)
    if not isinstance(kind, Pointer) or kind.pointee.bytes != 1:
        return False
    stored = _consecutive(store, function)
    loaded = (_consecutive(op, function) for op in loads if op.mnemonic == "load")
    return len(stored) == 1 and any(len(dims) == 1 and dims != stored for dims in loaded)


def _consecutive(access: Op, function: Function) -> list[int]:
    """The dimensions along which the addresses of `access` are consecutive."""
    runs = alignment(function).of(access.inputs[0]).contiguity
    return [dim for dim, run in enumerate(runs) if run > 1]
