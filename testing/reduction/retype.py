"""Edits that make tiles smaller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tileir.analysis.cfg import cfg
from tileir.errors import VerifyError
from tileir.field import READING, SEVERAL, FieldKind, Successor
from tileir.ir import Block, Function, Module, Parameter
from tileir.op import Op
from tileir.testing.reduction.edit import zero
from tileir.types import Tile, Type, tile
from tileir.values import Constant, Operand, Undef, Value


def extents(module: Module) -> set[int]:
    """The extents of all tiles of `module`."""
    types = (type for function in module.functions.values() for type in _types(function))
    return {n for type in types if isinstance(type, Tile) for n in type.shape}


def shrink_extents(module: Module, sizes: Mapping[int, int]) -> Module:
    """`module` with extents replaced by `sizes` in all types. Raises VerifyError if no op remains
    that has these types."""
    functions = module.functions.items()
    return module.with_functions({name: _Retyping(sizes).function(f) for name, f in functions})


def with_scalars(module: Module) -> Module:
    """`module` with tiles replaced by scalars. Ops that do not exist for scalars are removed."""
    functions = module.functions.items()
    return module.with_functions({name: _Scalars({}).function(f) for name, f in functions})


def _types(function: Function) -> Iterator[Type]:
    yield from (p.type for p in function.parameters)
    yield from function.results
    for block in function.blocks.values():
        yield from (v.type for v in block.parameters)
        for op in block.ops:
            yield from (v.type for v in (*op.operands, *op.results))


class _Retyping:
    """Changes the types of one function, from the first op to the last."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes = sizes
        self.env: dict[Value, Operand] = {}

    def type(self, type: Type) -> Type:
        if not isinstance(type, Tile) or type.layout is not None:
            return type
        return tile(type.element, tuple(self.sizes.get(n, n) for n in type.shape))

    def value(self, value: Value) -> Value:
        """The value that replaces a defined value."""
        result = Value(self.type(value.type), value.name)
        self.env[value] = result
        return result

    def operand(self, operand: Operand) -> Operand:
        if isinstance(operand, Value):
            return self.env[operand]
        if isinstance(operand, Constant):
            return Constant(self.type(operand.type), operand.bits)
        return Undef(self.type(operand.type))

    def function(self, function: Function) -> Function:
        parameters = tuple(
            Parameter(self.value(p.value), p.attributes, p.location) for p in function.parameters
        )
        done = {label: self.block(function.blocks[label]) for label in cfg(function).order}
        return function.evolve(
            parameters=parameters,
            results=tuple(map(self.type, function.results)),
            blocks={label: done[label] for label in function.blocks},
        )

    def block(self, block: Block) -> Block:
        parameters = tuple(map(self.value, block.parameters))
        ops = [op for old in block.ops for op in self.ops(old)]
        return attrs.evolve(block, parameters=parameters, ops=ops)

    def ops(self, op: Op) -> list[Op]:
        """The replacements of `op`."""
        return [self.retype(op)]

    def retype(self, op: Op) -> Op:
        """`op` with operands and results of the new types."""
        changes: dict[str, Any] = {}
        for field in op.schema:
            value: Any = getattr(op, field.name)
            if value is None:
                continue
            if field.kind in READING:
                several = field.kind in SEVERAL
                changes[field.name] = (
                    tuple(map(self.operand, value)) if several else self.operand(value)
                )
            elif field.kind is FieldKind.RESULT_TYPE:
                several = isinstance(value, tuple)
                changes[field.name] = tuple(map(self.type, value)) if several else self.type(value)
            elif field.kind is FieldKind.SUCCESSOR:
                arguments = tuple(map(self.operand, value.arguments))
                changes[field.name] = Successor(value.label, arguments)
        if op.predicate is not None:
            changes["predicate"] = self.operand(op.predicate)
        results = tuple(map(self.value, op.results))
        return attrs.evolve(op, **changes, results=results)


class _Scalars(_Retyping):
    """Replaces tiles by scalars. An op that does not exist for scalars is replaced by an operand of
    the type of its result, or by zero."""

    def type(self, type: Type) -> Type:
        return type.element if isinstance(type, Tile) else type

    def ops(self, op: Op) -> list[Op]:
        try:
            scalar = self.retype(op)
        except (VerifyError, TypeError):
            scalar = None
        if scalar is not None and (op.elementwise or not _same_type(scalar)):
            return [scalar]
        operands = [self.operand(v) for v in (*_values(op), *op.inputs)]
        for result in op.results:
            type = self.type(result.type)
            self.env[result] = next((v for v in operands if v.type is type), zero(type))
        return []


def _values(op: Op) -> list[Operand]:
    return [v for v in reversed(op.inputs) if isinstance(v, Value)]


def _same_type(op: Op) -> bool:
    """Whether `op` only converts one operand to a result of the same type."""
    return len(op.inputs) == len(op.results) == 1 and op.inputs[0].type is op.results[0].type
