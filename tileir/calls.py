"""Nesting depth of calls."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.errors import Diagnostic, TileirError
from tileir.ir import Function, Module
from tileir.op import Op

MAX_CALL_DEPTH = 100
"""The largest depth of nested calls below a kernel. Every executor supports it."""


def check_call_depth(module: Module, kernel: Function, error: type[TileirError]) -> None:
    """Raise `error` (TIR0513) at the call with which the calls and combiners that `kernel` reaches
    nest more than `MAX_CALL_DEPTH` deep. The verifier reports recursive calls."""
    depths: dict[str, int] = {}
    waiting = [(kernel, list(_calls(module, kernel)))]
    entered = {kernel.name}
    while waiting:
        function, calls = waiting[-1]
        inner = [name for _, name in calls if name not in entered]
        if inner:
            entered.add(inner[0])
            callee = module.functions[inner[0]]
            waiting.append((callee, list(_calls(module, callee))))
            continue
        waiting.pop()
        depths[function.name] = max((1 + depths.get(name, 0) for _, name in calls), default=0)
        if depths[function.name] > MAX_CALL_DEPTH:
            op = next(op for op, name in calls if depths.get(name, 0) == MAX_CALL_DEPTH)
            message = f"calls nest more than {MAX_CALL_DEPTH} deep from here"
            raise error(Diagnostic("TIR0513", message, op.location))


def _calls(module: Module, function: Function) -> Iterator[tuple[Op, str]]:
    """The functions with a body that ops of `function` call or combine by."""
    for op in function.ops:
        for name in (getattr(op, "callee", None), getattr(op, "combiner", None)):
            if isinstance(name, str) and name in module.functions:
                yield op, name
