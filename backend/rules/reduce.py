"""Reductions and scans."""

from __future__ import annotations

from typing import Any

from tileir.backend.lower.lowering import Fragment, Lowering, Rule
from tileir.backend.lower.reduction import reduce_tile
from tileir.backend.lower.scan import scan_tile


def _reduce(lowering: Lowering, op: Any) -> list[Fragment]:
    return reduce_tile(lowering, op)


def _scan(lowering: Lowering, op: Any) -> list[Fragment]:
    if op.predicate is not None:
        raise lowering.refuse(op, "a scan under a predicate has no lowering")
    return scan_tile(lowering, op)


RULES: dict[str, Rule] = {"reduce": _reduce, "scan": _scan}
