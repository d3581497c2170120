"""One element of a tile as a scalar: address arithmetic and masks, computed for one coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from tileir.field import FieldKind
from tileir.layout import Vector
from tileir.op import Op
from tileir.types import Tile, element_of, shape_of
from tileir.values import Constant, Operand, Undef, Value


@attrs.define
class Scalarizer:
    """Makes the scalar ops for elements of tiles that ops in `definitions` compute. `ops` is what
    was made, in order; `leaves` are the scalars it starts from."""

    definitions: Mapping[Value, Op]
    ops: list[Op] = attrs.field(factory=list)
    leaves: list[Value] = attrs.field(factory=list)
    _known: dict[tuple[Operand, Vector], Operand | None] = attrs.field(factory=dict)

    def at(self, operand: Operand, index: Vector) -> Operand | None:
        """The element of `operand` at `index`; None where it takes more than arithmetic. A scalar
        is its own only element."""
        if not isinstance(operand.type, Tile):
            if isinstance(operand, Value):
                self.leaves.append(operand)
            return operand
        if isinstance(operand, Constant):
            return Constant(element_of(operand.type), operand.bits)
        if isinstance(operand, Undef):
            return None
        key = (operand, index)
        if key not in self._known:
            op = self.definitions.get(operand)
            self._known[key] = None if op is None else self._made(op, operand, index)
        return self._known[key]

    def _made(self, op: Op, operand: Value, index: Vector) -> Operand | None:
        if op.predicate is not None or op.effects:
            return None
        if op.elementwise:
            return self._elementwise(op, operand, index)
        any_: Any = op
        if op.mnemonic == "make_range":
            element = cast(Any, operand.type).element
            return Constant(element, (any_.start + index[0]) & ((1 << element.bits) - 1))
        moved = _source(any_, index)
        return None if moved is None else self.at(op.inputs[0], moved)

    def _elementwise(self, op: Op, operand: Value, index: Vector) -> Operand | None:
        changes: dict[str, Any] = {}
        for field in op.schema:
            old = getattr(op, field.name)
            if field.kind is FieldKind.OPERAND:
                new = self.at(old, index)
                if new is None:
                    return None
                changes[field.name] = new
            elif field.kind is FieldKind.RESULT_TYPE:
                changes[field.name] = element_of(old)
            elif field.kind in (FieldKind.OPTIONAL, FieldKind.VARIADIC, FieldKind.PAIRS):
                return None
        made = attrs.evolve(op, **changes, results=())
        self.ops.append(made)
        return made.results[op.results.index(operand)]


def _source(op: Any, index: Vector) -> Vector | None:
    """Where the element at `index` of a shape op's result stands in its operand."""
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
        return _reshaped(index, shape_of(op.results[0].type), shape)
    return None


def _reshaped(index: Vector, old: Vector, new: Vector) -> Vector:
    """The coordinate in `new` of the same row-major number."""
    number = 0
    for x, n in zip(index, old, strict=True):
        number = number * n + x
    found: list[int] = []
    for n in reversed(new):
        found.append(number % n)
        number //= n
    return tuple(reversed(found))
