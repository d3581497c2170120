"""Effects of functions, including the functions that they call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tileir.effects import ACCESSES, Effects
from tileir.ir import Function, Module
from tileir.op import Op


def synchronises(op: Op) -> bool:
    """Whether other instances may see or change what `op` does: an atomic or volatile access. A
    barrier concerns one instance, and a fence orders nothing without these."""
    return Effects.SYNC in op.effects and bool(op.effects & ACCESSES)


def pausing_functions(module: Module) -> set[str]:
    """Names of the functions that synchronise, themselves or through calls."""
    callers: dict[str, set[str]] = {}
    pausing: list[str] = []
    for name, function in module.functions.items():
        for op in function.ops:
            if op.mnemonic == "call":
                callers.setdefault(cast(Any, op).callee, set()).add(name)
            elif synchronises(op):
                pausing.append(name)
    result: set[str] = set()
    while pausing:
        name = pausing.pop()
        if name not in result:
            result.add(name)
            pausing.extend(callers.get(name, ()))
    return result


def effects_of(functions: Mapping[str, Function], name: str) -> Effects:
    """The effects of running a function, including the functions that it calls."""
    effects, seen, waiting = Effects.PURE, {name}, [name]
    while waiting:
        function = functions.get(waiting.pop())
        for op in function.ops if function else ():
            if op.mnemonic == "call":
                callee = cast(Any, op).callee
                waiting.extend({callee} - seen)
                seen.add(callee)
            else:
                effects |= op.effects & ~Effects.CONTROL
    return effects
