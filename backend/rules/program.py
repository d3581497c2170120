"""Where a program instance stands in the grid."""

from __future__ import annotations

from typing import Any

from tileir.backend.lowering import Fragment, Lowering, Rule


def _program_id(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.program_id(op.axis)]]


def _program_count(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.program_count(op.axis)]]


RULES: dict[str, Rule] = {"program_id": _program_id, "num_programs": _program_count}
