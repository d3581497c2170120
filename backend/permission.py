"""Permissions of a program to run foreign code."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from tileir.backend.legal import brings_code
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Module
from tileir.op import Op

KINDS = ("inline_asm", "extern")
"""The permissions: inline assembly, functions of libraries."""


def check_permitted(module: Module, permit: Collection[str]) -> None:
    """Raise `CompileError`: TIR0712 at each op of `module` whose foreign code is not among
    `permit`, TIR0719 for invalid foreign code."""
    ops = [op for function in module.functions.values() for op in function.ops]
    ops = [op for op in ops if brings_code(op)]
    if not ops:
        return
    diagnostics = list(_forbidden(ops, permit))
    if diagnostics:
        raise CompileError(*diagnostics)
    from tileir.backend.assembly import check_outside  # few kernels have foreign code

    check_outside(ops, (f.name for f in module.functions.values() if f.kernel))


def library_calls(module: Module) -> dict[str, Op]:
    """The library functions that `module` calls, except those that correspond to an op, each with
    its first call."""
    ops = (op for function in module.functions.values() for op in function.ops)
    calls: dict[str, Op] = {}
    for op in ops:
        if brings_code(op) and _kind(op) == "extern":
            calls.setdefault(op.symbol, op)  # type: ignore[attr-defined]
    return calls


def _forbidden(ops: Iterable[Op], permit: Collection[str]) -> Iterator[Diagnostic]:
    for op in ops:
        kind = _kind(op)
        if kind is not None and kind not in permit:
            what = f"the function {op.symbol}" if kind == "extern" else "inline assembly"  # type: ignore[attr-defined]
            message = f"{op.mnemonic}: {what} needs permission: permit = ({kind!r},)"
            yield Diagnostic("TIR0712", message, op.location)


def _kind(op: Any) -> str | None:
    """The permission that `op` needs, None if it needs none. Functions of libdevice with a
    corresponding op need none."""
    if op.mnemonic == "inline_asm":
        return "inline_asm"
    if op.mnemonic == "extern_elementwise":
        from tileir.backend.codegen.rules.math import (
            libdevice,  # a slow import, needed only for this op
        )

        return "extern" if libdevice(op) is None else None
    return None
