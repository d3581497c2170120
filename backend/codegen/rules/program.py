"""Where a program instance stands in the grid, what it may assume, and clocks."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.types import I64


def _program_id(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.program_id(op.axis)]]


def _program_count(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.program_count(op.axis)]]


def _assume(lowering: Lowering, op: Any) -> list[Fragment]:
    """A promise is used by analyses, before; it costs nothing here."""
    return []


def _hint(lowering: Lowering, op: Any) -> list[Fragment]:
    return [lowering.fragment(op.value)]


def _clock(lowering: Lowering, op: Any) -> list[Fragment]:
    register = {"clock": "clock64", "globaltimer": "globaltimer"}[op.mnemonic]
    return [[lowering.thread.effect(f"mov.u64 $0, %{register};", I64, ())]]


RULES: dict[str, Rule] = {
    "program_id": _program_id,
    "num_programs": _program_count,
    "assume": _assume,
    "multiple_of": _hint,
    "contiguous": _hint,
    "constant_run": _hint,
    "clock": _clock,
    "globaltimer": _clock,
}
