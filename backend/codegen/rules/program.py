"""The position of a program instance in the grid, and clock registers."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.types import I64


def _program_id(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.program_id(op.axis)]]


def _program_count(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.program_count(op.axis)]]


def _clock(lowering: Lowering, op: Any) -> list[Fragment]:
    register = {"clock": "clock64", "globaltimer": "globaltimer"}[op.mnemonic]
    return [[lowering.thread.effect(f"mov.u64 $0, %{register};", I64, ())]]


RULES: dict[str, Rule] = {
    "program_id": _program_id,
    "num_programs": _program_count,
    "clock": _clock,
    "globaltimer": _clock,
}
