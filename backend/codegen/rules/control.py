"""Branches, return, calls of scalar functions."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.backend.nvptx.text import llvm_type
from tileir.types import Tile


def _branch(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.line(f"br {lowering.edge(op.target)}")
    return []


def _cond_branch(lowering: Lowering, op: Any) -> list[Fragment]:
    condition = lowering.scalar(op.condition)
    then, otherwise = lowering.edge(op.then), lowering.edge(op.otherwise)
    lowering.thread.line(f"br i1 {condition}, {then}, {otherwise}")
    return []


def _return(lowering: Lowering, op: Any) -> list[Fragment]:
    kinds = [llvm_type(v.type) for v in op.values]
    handles = [lowering.scalar(v) for v in op.values]
    if lowering.leaving is not None:
        lowering.thread.line(f"br label %{lowering.leaving}")
    elif not handles:
        lowering.thread.line("ret void")
    elif len(handles) == 1:
        lowering.thread.line(f"ret {kinds[0]} {handles[0]}")
    else:
        whole, kind = "undef", f"{{{', '.join(kinds)}}}"
        for i, (k, x) in enumerate(zip(kinds, handles, strict=True)):
            whole = lowering.thread.emit(f"insertvalue {kind} {whole}, {k} {x}, {i}")
        lowering.thread.line(f"ret {kind} {whole}")
    return []


def _unreachable(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.line("unreachable")
    return []


def _call(lowering: Lowering, op: Any) -> list[Fragment]:
    types = [*(v.type for v in op.arguments), *op.types]
    if any(isinstance(t, Tile) for t in types):
        raise lowering.refuse(op, f"@{op.callee} takes or returns tiles: inline it before")
    operands = [(v.type, lowering.scalar(v)) for v in op.arguments]
    return [[x] for x in lowering.thread.call(f"f.{op.callee}", op.types, operands)]


RULES: dict[str, Rule] = {
    "br": _branch,
    "cond_br": _cond_branch,
    "ret": _return,
    "unreachable": _unreachable,
    "call": _call,
}
