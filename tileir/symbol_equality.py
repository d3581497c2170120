"""Symbols for the linker: their types, equality, and renaming."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeVar

import attrs

from tileir.ir import Block, Function, Global, Module, Parameter, usual_space
from tileir.op import FieldKind, Op
from tileir.values import Value

_S = TypeVar("_S", Function, Global)


def type_of(symbol: Function | Global) -> str:
    """The type of a symbol as text: `i32 (f32*, i32)`, `constant f32[16]`."""
    if isinstance(symbol, Global):
        words = ["constant"] if symbol.constant else []
        if symbol.space != usual_space(symbol.constant):
            words.append(f"addrspace({int(symbol.space)})")
        return " ".join([*words, f"{symbol.element}[{symbol.count}]"])
    results = ", ".join(map(str, symbol.results)) or "void"
    parameters = ", ".join(str(p.type) for p in symbol.parameters)
    return f"{'kernel ' if symbol.kernel else ''}{results} ({parameters})"


def fingerprint(function: Function) -> Hashable:
    """Equal for two functions that differ in names of values, locations and comments alone."""
    numbers: dict[Any, int] = {p.value: i for i, p in enumerate(function.parameters)}
    labels = {label: i for i, label in enumerate(function.blocks)}
    for block in function.blocks.values():
        for value in (*block.parameters, *(r for op in block.ops for r in op.results)):
            numbers[value] = len(numbers)
    body = tuple(
        (tuple(p.type for p in b.parameters), tuple(_op_key(op, numbers, labels) for op in b.ops))
        for b in function.blocks.values()
    )
    attributes = tuple(p.attributes for p in function.parameters)
    return type_of(function), attributes, tuple(sorted(function.attributes.items())), body


def _op_key(op: Op, numbers: Mapping[Any, int], labels: Mapping[str, int]) -> Hashable:
    def operand(value: Any) -> Any:
        return ("%", numbers.get(value)) if isinstance(value, Value) else value

    inputs = tuple(operand(v) for v in op.operands)
    edges = tuple((labels.get(s.label), len(s.arguments)) for s in op.successors)
    counted = (FieldKind.OPTIONAL, FieldKind.VARIADIC, FieldKind.PAIRS)
    shape = tuple(_presence(getattr(op, f.name)) for f in op.fields(*counted))
    kinds = (FieldKind.ATTRIBUTE, FieldKind.SYMBOL, FieldKind.RESULT_TYPE)
    facts = tuple(getattr(op, f.name) for f in op.fields(*kinds))
    types = tuple(r.type for r in op.results)
    return op.mnemonic, inputs, shape, edges, facts, types, op.predicate is not None


def _presence(field: Any) -> int:
    return len(field) if isinstance(field, tuple) else int(field is not None)


def rename_symbols(module: Module, changes: Mapping[str, str]) -> Module:
    """`module` with symbols renamed, in their definitions and wherever ops name them."""

    def rename(symbols: Mapping[str, _S]) -> dict[str, _S]:
        pairs = ((changes.get(name, name), symbol) for name, symbol in symbols.items())
        return {n: s if s.name == n else attrs.evolve(s, name=n) for n, s in pairs}

    functions = {name: _rename_in(f, changes) for name, f in rename(module.functions).items()}
    return module.evolve(functions=functions, globals=rename(module.globals))


def _rename_in(function: Function, changes: Mapping[str, str]) -> Function:
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        ops = tuple([_rename_op(op, changes) for op in block.ops])
        same = all(a is b for a, b in zip(ops, block.ops, strict=True))
        blocks[label] = block if same else attrs.evolve(block, ops=ops)
    return function.with_blocks(blocks)


def _rename_op(op: Op, changes: Mapping[str, str]) -> Op:
    symbols = {name: changes[old] for name, old in symbol_fields(op) if old in changes}
    return op.evolve(**symbols) if symbols else op


def symbol_fields(op: Op) -> Iterator[tuple[str, str]]:
    """Fields of `op` that name a symbol, with the symbol's name."""
    for field in op.fields(FieldKind.SYMBOL, FieldKind.ATTRIBUTE):
        is_symbol = field.kind is FieldKind.SYMBOL
        if field.attribute is not None:
            is_symbol = field.attribute.form in ("symbol", "combiner")
        value = getattr(op, field.name)
        if is_symbol and type(value) is str:
            yield field.name, value


def callee_declarations(function: Function) -> Iterator[Function]:
    """Declarations of the functions that `function` calls, as its calls have them."""
    calls: dict[str, Any] = {op.callee: op for op in function.ops if op.mnemonic == "call"}  # type: ignore[attr-defined]
    for name, op in calls.items():
        parameters = (Parameter(Value(v.type)) for v in op.arguments)
        yield Function(name, parameters, op.types, location=op.location)  # type: ignore[arg-type]
