"""Roles: functions that some of a kernel's warps run."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule


def _role(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.role(lowering, op)
    return []


def _join(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.join()
    return []


RULES: dict[str, Rule] = {"gpu.role": _role, "gpu.join": _join}
