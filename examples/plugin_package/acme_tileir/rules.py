"""Lowering rules of this package's ops: one function serves PTX, the simulator and the CPU."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.lowering import Rule, scalar_of
from tileir.backend.codegen.rules.elementwise import elementwise
from tileir.backend.codegen.thread_interface import Handle, Thread
from tileir.values import constant


def _softsign(thread: Thread, op: Any, x: Handle) -> Handle:
    """One element: `x` and the result are virtual registers."""
    element = scalar_of(op.result.type)
    one = thread.constant(element, constant(element, 1.0).bits)
    size = thread.intrinsic("fabs", element, x)
    return thread.binary("fdiv", element, x, thread.binary("fadd", element, size, one))


RULES: dict[str, Rule] = {"acme.softsign": elementwise(_softsign)}
