"""Scalarization of one element of a tile: address arithmetic and masks at one coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tileir.effects import Effects
from tileir.field import SEVERAL, FieldKind
from tileir.layout import Vector
from tileir.op import Op
from tileir.types import Tile, element_of, shape_of
from tileir.values import Constant, Operand, Undef, Value


class Scalarizer:
    """Emits the scalar ops of elements of tiles defined by `definitions`. `ops` are the emitted
    ops, in order, and `origins` the op of a tile that each is an element of; `leaves` are the
    scalars they are computed from. With `traps`, ops that may trap are among them: those of all
    elements were executed before."""

    def __init__(self, definitions: Mapping[Value, Op], traps: bool = False) -> None:
        self.definitions, self.traps = definitions, traps
        self.ops: list[Op] = []
        self.leaves: list[Value] = []
        self.origins: dict[Op, Op] = {}
        self._elements: dict[tuple[Operand, Vector], Operand | None] = {}

    def at(self, operand: Operand, index: Vector) -> Operand | None:
        """The element of `operand` at `index`; None where it depends on more than arithmetic. A
        scalar is its own only element."""
        if not isinstance(operand.type, Tile):
            if isinstance(operand, Value):
                self.leaves.append(operand)
            return operand
        if isinstance(operand, Constant):
            return Constant(element_of(operand.type), operand.bits)
        if isinstance(operand, Undef):
            return None
        key = (operand, index)
        if key not in self._elements:
            op = self.definitions.get(operand)
            self._elements[key] = None if op is None else self._scalarize(op, operand, index)
        return self._elements[key]

    def define(self, operand: Operand, index: Vector, element: Operand | None) -> None:
        """Let `element` be that of `operand` at `index`."""
        self._elements[operand, index] = element

    def _scalarize(self, op: Op, operand: Value, index: Vector) -> Operand | None:
        if op.predicate is not None or (op.effects and not self._has_trapped(op)):
            return None
        if op.elementwise:
            return self._elementwise(op, operand, index)
        attributes: Any = op
        if op.mnemonic == "make_range":
            element = cast(Any, operand.type).element
            return Constant(element, (attributes.start + index[0]) & ((1 << element.bits) - 1))
        source = _source_index(attributes, index)
        return None if source is None else self.at(op.inputs[0], source)

    def _has_trapped(self, op: Op) -> bool:
        return self.traps and op.effects is Effects.TRAP

    def _elementwise(self, op: Op, operand: Value, index: Vector) -> Operand | None:
        if op.fields(FieldKind.OPTIONAL, *SEVERAL):
            return None
        elements: dict[Operand, Operand] = {}
        for old in op.inputs:
            element = self.at(old, index)
            if element is None:
                return None
            elements[old] = element
        scalar = op.with_fields(**op.map_fields(elements.__getitem__, element_of), results=())
        self.ops.append(scalar)
        self.origins[scalar] = op
        return scalar.results[op.results.index(operand)]


def _source_index(op: Any, index: Vector) -> Vector | None:
    """The index in the operand of a shape op of the element at `index` of its result."""
    shape = shape_of(op.inputs[0].type) if op.inputs else ()
    if op.mnemonic == "splat":
        return ()
    if op.mnemonic == "broadcast":
        return tuple(0 if n == 1 else x for x, n in zip(index, shape, strict=True))
    if op.mnemonic == "expand_dims":
        return (*index[: op.axis], *index[op.axis + 1 :])
    if op.mnemonic == "trans":
        order = op.order or tuple(reversed(range(len(index))))
        return tuple(index[order.index(d)] for d in range(len(index)))
    if op.mnemonic == "reshape":
        return _reshape_index(index, shape_of(op.results[0].type), shape)
    return None


def _reshape_index(index: Vector, old: Vector, new: Vector) -> Vector:
    """The index in shape `new` of the element at `index` of shape `old`, in row-major order."""
    number = 0
    for x, n in zip(index, old, strict=True):
        number = number * n + x
    coordinate: list[int] = []
    for n in reversed(new):
        coordinate.append(number % n)
        number //= n
    return tuple(reversed(coordinate))
