"""Comparisons and selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.backend.codegen.lowering import Rule, scalar_of
from tileir.backend.codegen.rules.elementwise import elementwise
from tileir.types import I1

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread


def _compare(t: Thread, op: Any, a: Handle, b: Handle) -> tuple[Handle, Handle]:
    result = t.compare(op.predicate_.value, scalar_of(op.lhs.type), a, b)
    return result, t.binary("xor", I1, result, t.constant(I1, 1))


def _select(t: Thread, op: Any, condition: Handle, a: Handle, b: Handle) -> Handle:
    return t.select(scalar_of(op.result.type), condition, a, b)


RULES: dict[str, Rule] = {
    "icmp": elementwise(_compare),
    "fcmp": elementwise(_compare),
    "select": elementwise(_select),
}
