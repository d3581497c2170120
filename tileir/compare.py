"""Structural equality: two modules that mean the same by the same ops, names of values aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileir.field import FieldKind, Successor
from tileir.ir import Block, Function, Global, Module
from tileir.op import Op
from tileir.values import Value


def structurally_equal(a: Module, b: Module) -> bool:
    """Whether `a` and `b` have the same symbols, blocks, ops, attributes and comments, in the
    same order, and values that correspond one to one. Names of values and unwritten locations
    do not count."""
    return (
        (a.version, a.stage, a.comments, a.header_comments)
        == (b.version, b.stage, b.comments, b.header_comments)
        and _same_entries(a.metadata, b.metadata)
        and list(a.globals) == list(b.globals)
        and list(a.functions) == list(b.functions)
        and all(_same_global(a.globals[n], b.globals[n]) for n in a.globals)
        and all(_same_function(a.functions[n], b.functions[n]) for n in a.functions)
    )


def _same_entries(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return list(a) == list(b) and all(type(a[k]) is type(b[k]) and a[k] == b[k] for k in a)


def _same_global(a: Global, b: Global) -> bool:
    fields = ("element", "count", "constant", "space", "visibility", "linkage", "alignment",
              "external", "comments")  # fmt: skip
    return all(getattr(a, f) == getattr(b, f) for f in fields) and _initial(a) == _initial(b)


def _initial(g: Global) -> Any:
    """A list of equal literals is the same as one literal, which fills all elements."""
    return None if g.initial is None else (g.initial * g.count)[: g.count]


def _same_function(a: Function, b: Function) -> bool:
    fields = ("results", "kernel", "visibility", "linkage", "inline", "alignment", "comments")
    if any(getattr(a, f) != getattr(b, f) for f in fields):
        return False
    if not _same_entries(a.attributes, b.attributes) or list(a.blocks) != list(b.blocks):
        return False
    if [(p.type, p.attributes) for p in a.parameters] != [
        (p.type, p.attributes) for p in b.parameters
    ]:
        return False
    pairs = {p.value: q.value for p, q in zip(a.parameters, b.parameters, strict=True)}
    return _pair_blocks(a, b, pairs) and all(
        _same_op(p, q, pairs) for p, q in zip(a.ops, b.ops, strict=True)
    )


def _pair_blocks(a: Function, b: Function, pairs: dict[Value, Value]) -> bool:
    """Record which value of `b` each of `a` is; whether blocks and results agree in number."""
    for p, q in zip(a.blocks.values(), b.blocks.values(), strict=True):
        if not _pair_block(p, q, pairs):
            return False
    return len(set(pairs.values())) == len(pairs)


def _pair_block(a: Block, b: Block, pairs: dict[Value, Value]) -> bool:
    if len(a.ops) != len(b.ops) or a.comments != b.comments:
        return False
    values = [*a.parameters, *(v for op in a.ops for v in op.results)]
    right = [*b.parameters, *(v for op in b.ops for v in op.results)]
    if [v.type for v in values] != [v.type for v in right]:
        return False
    pairs.update(zip(values, right, strict=True))
    return True


def _same_op(a: Op, b: Op, pairs: Mapping[Value, Value]) -> bool:
    if type(a) is not type(b) or len(a.results) != len(b.results) or a.comments != b.comments:
        return False
    if _location_in_source(a) != _location_in_source(b) or not _same_operand(
        a.predicate, b.predicate, pairs
    ):
        return False
    if a.shared != b.shared:
        return False
    return all(_same_field(f.kind, getattr(a, f.name), getattr(b, f.name), pairs) for f in a.schema)


def _location_in_source(op: Op) -> Any:
    return op.location if op.location is not None and op.location.written else None


def _same_field(kind: FieldKind, a: Any, b: Any, pairs: Mapping[Value, Value]) -> bool:
    if kind in (FieldKind.ATTRIBUTE, FieldKind.SYMBOL, FieldKind.RESULT_TYPE):
        return type(a) is type(b) and a == b
    if isinstance(a, Successor) and isinstance(b, Successor):
        return a.label == b.label and _same_operands(a.arguments, b.arguments, pairs)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and _same_operands(a, b, pairs)
    return _same_operand(a, b, pairs)


def _same_operands(a: tuple[Any, ...], b: tuple[Any, ...], pairs: Mapping[Value, Value]) -> bool:
    return len(a) == len(b) and all(_same_operand(x, y, pairs) for x, y in zip(a, b, strict=True))


def _same_operand(a: Any, b: Any, pairs: Mapping[Value, Value]) -> bool:
    return pairs.get(a) is b if isinstance(a, Value) else a == b
