"""Ops the backend makes."""

from __future__ import annotations

from typing import Any

from tileir.backend.conversion import convert
from tileir.backend.lowering import Fragment, Lowering, Rule


def _convert(lowering: Lowering, op: Any) -> list[Fragment]:
    source = op.source.type
    fragment = lowering.fragment(op.source)
    return [convert(lowering, op, fragment, source, op.layout)]


def _barrier(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.barrier()
    return []


RULES: dict[str, Rule] = {"gpu.convert_layout": _convert, "gpu.barrier": _barrier}
