"""Reductions."""

from __future__ import annotations

from typing import Any

from tileir.backend.lowering import Fragment, Lowering, Rule
from tileir.backend.reduction import reduce_tile


def _reduce(lowering: Lowering, op: Any) -> list[Fragment]:
    if op.predicate is not None:
        raise lowering.refuse(op, "a predicate must be lowered before (pass lower-predicates)")
    return reduce_tile(lowering, op)


RULES: dict[str, Rule] = {"reduce": _reduce}
