"""Ternary float operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.backend.codegen.lowering import Rule
from tileir.backend.codegen.rules.elementwise import elementwise, result_element
from tileir.backend.codegen.rules.floats import extreme, rounded_instruction

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread


def _fma(t: Thread, op: Any, a: Handle, b: Handle, c: Handle) -> Handle:
    element = result_element(op)
    if op.rounding.value == "rn" and not op.ftz:
        return t.intrinsic("fma", element, a, b, c)
    return rounded_instruction(t, "fma", op, element, a, b, c)


def _clamp(t: Thread, op: Any, x: Handle, low: Handle, high: Handle) -> Handle:
    element = result_element(op)
    raised = extreme(t, "fmaxnum", element, x, low)
    clamped = extreme(t, "fminnum", element, raised, high)
    if op.nan.value == "none":
        return clamped
    return t.select(element, t.compare("uno", element, x, x), x, clamped)


RULES: dict[str, Rule] = {
    "fma": elementwise(_fma),
    "clampf": elementwise(_clamp),
}
