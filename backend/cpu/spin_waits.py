"""Detection of kernels whose instances may wait for one another.

A thread runs one instance to its end before the next one, so an instance that waits for a later one
would wait forever. The interpreter interleaves instances.
"""

from __future__ import annotations

from typing import Any

from tileir.analysis.loops import loops
from tileir.ir import Function, Module
from tileir.op import Op


def may_spin_wait(module: Module) -> bool:
    """Whether a function of `module` repeatedly reads memory that other instances may write: in a
    loop, or in a function that a loop may call, by an atomic op whose old value it uses or by a
    volatile load."""
    functions = [f for f in module.functions.values() if not f.is_declaration]
    called = {name for f in functions for op in _looping(f) for name in _callees(op)}
    return any(
        _watches(op, f) for f in functions for op in (f.ops if f.name in called else _looping(f))
    )


def _looping(function: Function) -> list[Op]:
    labels = {x for loop in loops(function).by_header.values() for x in loop.blocks}
    return [op for x in labels for op in function.blocks[x].ops]


def _callees(op: Op) -> list[str]:
    name: Any = getattr(op, "callee", None)
    return [name] if isinstance(name, str) else []


def _watches(op: Any, function: Function) -> bool:
    if op.mnemonic == "load":
        return op.volatile
    if not op.mnemonic.startswith("atomic_") or not op.results:
        return False
    return any(op.results[0] in other.operands for other in function.ops)
