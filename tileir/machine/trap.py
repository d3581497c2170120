"""Reporting a program that has no meaning, at the op and lane where it lost it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.errors import Diagnostic, InterpretError
from tileir.machine.tensor import Lanes, Tensor
from tileir.op import Op


class Faults:
    """The lanes that run, and what happens where one of them cannot."""

    active: Lanes | None = None
    """Lanes of the current op's predicate, in the shape of its result (of its first operand for
    ops that touch memory or reduce); None: all."""

    def fault(self, code: str, message: str, op: Op | None) -> InterpretError:
        """The error to raise, at the op's place."""
        name = f"{op.mnemonic}: " if op is not None else ""
        place = None if op is None else op.location
        return InterpretError(Diagnostic(code, name + message, place))

    def trap(self, code: str, message: str, lanes: Lanes, op: Op | None, *reads: Tensor) -> None:
        """Raise InterpretError naming the first of `lanes` that runs and whose operands `reads`
        are defined; return where there is none."""
        if self.active is not None:
            lanes = lanes & self.active
        for tensor in reads:
            if tensor.undef is not None:
                lanes = lanes & ~tensor.undef
        if lanes.any():
            raise self.fault(code, message + _element(lanes), op)


def _element(lanes: Any) -> str:
    if not np.ndim(lanes):
        return ""
    first = np.unravel_index(int(np.argmax(lanes)), lanes.shape)
    return f" in element {', '.join(str(int(i)) for i in first)}"
