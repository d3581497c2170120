"""Calls of scalar functions, addresses of globals."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.types import Tile


def _call(lowering: Lowering, op: Any) -> list[Fragment]:
    types = [*(v.type for v in op.arguments), *op.types]
    if any(isinstance(t, Tile) for t in types):
        raise lowering.refuse(op, f"@{op.callee} takes or returns tiles: inline it before")
    operands = [(v.type, lowering.scalar(v)) for v in op.arguments]
    return [[x] for x in lowering.thread.call(f"f.{op.callee}", op.types, operands)]


def _global_address(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.global_address(op.result.type, op.name)]]


RULES: dict[str, Rule] = {
    "call": _call,
    "global_address": _global_address,
}
