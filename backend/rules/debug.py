"""Assertions and opaque code. A failed assertion ends the kernel with an error."""

from __future__ import annotations

from typing import Any

from tileir.backend.lowering import Fragment, Lowering, Rule
from tileir.types import I1, Tile


def _assert(lowering: Lowering, op: Any) -> list[Fragment]:
    thread, kind = lowering.thread, op.condition.type
    failed: str | None = None
    for register, handle in enumerate(lowering.fragment(op.condition)):
        bad = thread.binary("xor", I1, handle, thread.constant(I1, 1))
        if isinstance(kind, Tile):
            inside = lowering.inside(kind.layout, kind.shape, register)
            if inside == "false":
                continue
            if inside is not None:
                bad = thread.select(I1, inside, bad, thread.constant(I1, 0))
        if op.predicate is not None:
            held = lowering.fragment(op.predicate)
            holds = held[register if isinstance(op.predicate.type, Tile) else 0]
            bad = thread.select(I1, holds, bad, thread.constant(I1, 0))
        failed = bad if failed is None else thread.binary("or", I1, failed, bad)
    if failed is not None:
        thread.when(failed, (), lambda: _stop(lowering))
    return []


def _stop(lowering: Lowering) -> list[str]:
    lowering.thread.trap()
    return []


RULES: dict[str, Rule] = {"assert": _assert}
