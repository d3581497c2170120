"""Merges of predicated values: a chain of selects, in which the last arm has priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.backend.codegen.lowering import Rule, scalar_of
from tileir.backend.codegen.rules.elementwise import elementwise

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread


def _psi(t: Thread, op: Any, *arms: Handle) -> Handle:
    selected = arms[1]
    for predicate, value in zip(arms[2::2], arms[3::2], strict=True):
        selected = t.select(scalar_of(op.result.type), predicate, value, selected)
    return selected


RULES: dict[str, Rule] = {"psi": elementwise(_psi)}
