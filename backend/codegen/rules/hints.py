"""Hints that the program states for analyses. They emit no code."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule


def _assume(lowering: Lowering, op: Any) -> list[Fragment]:
    return []


def _hint(lowering: Lowering, op: Any) -> list[Fragment]:
    return [lowering.fragment(op.value)]


RULES: dict[str, Rule] = {
    "assume": _assume,
    "multiple_of": _hint,
    "contiguous": _hint,
    "constant_run": _hint,
}
