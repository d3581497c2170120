"""Every legal use of an op at a shape: the cells of the op by type by shape matrix.

Types come from the signature's patterns; what `verify` refuses is left out. Only the relation of
an op's shapes to each other, which no pattern states, is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any, cast

import attrs

from tileir.errors import VerifyError
from tileir.field import Field, FieldKind
from tileir.op import Op
from tileir.signature import (
    STORABLE,
    Bindings,
    Each,
    ElementOf,
    Elements,
    ExactType,
    OneOf,
    PointeeOf,
    Shaped,
    TypeVariable,
)
from tileir.types import (
    F32,
    SCALARS,
    AddressSpace,
    Descriptor,
    Element,
    Scalar,
    Tile,
    Type,
    pointer,
    shape_of,
    tile,
)
from tileir.values import Value

Shape = tuple[int, ...]
SHAPES: tuple[Shape, ...] = (
    (), (1,), (7,), (16,), (48,), (128,), (3, 5), (16, 16), (1, 64), (4, 8, 16),
)  # fmt: skip
"""The shapes every op must work at, odd ones included."""

SKIPPED = frozenset({"br", "cond_br", "ret", "unreachable", "call", "inline_asm"})
"""Ops whose meaning depends on other functions or blocks, or outside the program."""


def cells(op: type[Op], shape: Shape) -> Iterator[Op]:
    """Ops of class `op`, on fresh values, for every combination of element types at `shape`, and
    for every value of each enumerated attribute, one at a time."""
    if op.mnemonic in SKIPPED:
        return
    for plan in _plans(op, shape):
        types = _assignments(op, plan, list(_value_fields(op)), {})
        for assignment, settings in product(types, list(_settings(op, plan))):
            result = _make(op, assignment, settings)
            if result is not None:
                yield result


def _make(op: type[Op], assignment: dict[str, Any], settings: dict[str, Any]) -> Op | None:
    arguments: dict[str, Any] = dict(settings)
    for field in _value_fields(op):
        types = assignment[field.name]
        if field.kind is FieldKind.RESULT_TYPE:
            arguments[field.name] = types[0]
        elif field.kind in (FieldKind.VARIADIC, FieldKind.PAIRS):
            arguments[field.name] = tuple([Value(t) for t in types])
        else:
            arguments[field.name] = Value(types[0]) if types else None
    for field in op.fields(FieldKind.SYMBOL):
        arguments[field.name] = "symbol"
    try:
        return op(**arguments)
    except VerifyError:
        return None


def _value_fields(op: type[Op]) -> tuple[Field, ...]:
    return tuple(f for f in op.schema if f.kind not in (FieldKind.ATTRIBUTE, FieldKind.SYMBOL))


# Types ----------------------------------------------------------------------------------------


def _assignments(
    op: type[Op], plan: dict[str, Any], fields: list[Field], bound: Bindings
) -> Iterator[dict[str, Any]]:
    """For each field, a tuple of types: one, or as many as the plan gives shapes for."""
    if not fields:
        yield {}
        return
    field, later = fields[0], fields[1:]
    for types, now in _field_types(op, field, plan, bound):
        for assigned in _assignments(op, plan, later, now):
            yield {field.name: types, **assigned}


def _field_types(
    op: type[Op], field: Field, plan: dict[str, Any], bound: Bindings
) -> Iterator[tuple[tuple[Type, ...], Bindings]]:
    if field.kind is FieldKind.OPTIONAL and field.name not in plan:
        yield (), bound
        if op.mnemonic in _WITHOUT_OPTIONS:
            return
    shapes = plan.get(field.name, plan[""])
    many = field.kind in (FieldKind.VARIADIC, FieldKind.PAIRS)
    yield from _several(op, field, list(shapes) if many else [shapes], bound, 0)


def _several(
    op: type[Op], field: Field, shapes: list[Shape], bound: Bindings, index: int
) -> Iterator[tuple[tuple[Type, ...], Bindings]]:
    if index == len(shapes):
        yield (), bound
        return
    pattern = field.pattern_at(index)
    for candidate in _candidates(pattern, shapes[index], bound):
        now = dict(bound)
        if cast(Any, pattern).match(candidate, now) is None:
            for following, final in _several(op, field, shapes, now, index + 1):
                yield (candidate, *following), final


def _candidates(pattern: Any, shape: Shape, bound: Bindings) -> Iterator[Type]:
    if isinstance(pattern, ExactType):
        yield pattern.type
    elif isinstance(pattern, OneOf):
        if shape:
            yield from (Descriptor(Tile(e, shape)) for e in _elements(STORABLE, plain=True))
    elif isinstance(pattern, (ElementOf, PointeeOf)):
        result = pattern.build(bound)
        elements = [result] if result is not None else list(_elements(_EVERY))
        yield from elements
    elif isinstance(pattern, Shaped):
        like = bound.get(pattern.like.name)
        where = shape if like is None else shape_of(like)
        allowed = pattern.element
        yield from (tile(e, where) for e in _elements(allowed))
    elif isinstance(pattern, (TypeVariable, Each)):
        where = () if pattern.scalar is True else shape
        known_as = bound.get(pattern.name) if isinstance(pattern, TypeVariable) else None
        if known_as is not None:
            yield known_as
        else:
            yield from (tile(e, where) for e in _elements(pattern.allowed))


_EVERY = Elements("every", frozenset(SCALARS.values()), pointers=True)


def _elements(allowed: Scalar | Elements, *, plain: bool = False) -> list[Element]:
    """The members of a set in a fixed order. A set of pointers alone (as for memory) is represented
    by one pointer to each scalar type; a set that also has pointers, by one to f32."""
    if not isinstance(allowed, Elements):
        return [allowed]
    elements: list[Element] = [s for s in SCALARS.values() if s in allowed.scalars]
    if allowed.pointers and not plain:
        storable = [s for s in SCALARS.values() if s in STORABLE.scalars]
        generic = pointer(F32, AddressSpace.GENERIC)
        elements += [pointer(F32)] if elements else [*map(pointer, storable), generic]
    return elements


# Attributes -----------------------------------------------------------------------------------


def _settings(op: type[Op], plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    base = dict(plan.get("attributes", {}))
    fields = [f for f in op.fields(FieldKind.ATTRIBUTE) if f.name not in base]
    for field in fields:
        if field.default is attrs.NOTHING and _choices(field):
            base[field.name] = _choices(field)[0]
    yield base
    for field in fields:
        for choice in _choices(field):
            if choice not in (field.default, base.get(field.name)):
                yield {**base, field.name: choice}


def _choices(field: Field) -> list[Any]:
    kind = cast(Any, field.attribute)
    if kind.enum is not None:
        return list(kind.enum)
    return [False, True] if kind.form == "bool" else []


# Shapes ---------------------------------------------------------------------------------------

Plans = Callable[[Shape], list[dict[str, Any]]]
_WITHOUT_OPTIONS = frozenset({"dot_scaled"})


def _plans(op: type[Op], shape: Shape) -> Iterator[dict[str, Any]]:
    """Shapes by field name ("" for all others) and required attributes, for results or operands
    of `shape`."""
    plans = _PLANS.get(op.mnemonic)
    for plan in [{}] if plans is None else plans(shape):
        yield {"": shape, **plan}


def _along(shape: Shape, **fields: Any) -> list[dict[str, Any]]:
    return [{"attributes": {"axis": d}, **fields} for d in range(len(shape))]


def _expand_dims(shape: Shape) -> list[dict[str, Any]]:
    return [{"attributes": {"axis": d}} for d in range(len(shape) + 1)] if shape else []


def _permute(shape: Shape) -> list[dict[str, Any]]:
    rank = len(shape)
    orders = {tuple(range(rank)), tuple(reversed(range(rank))), (*range(1, rank), 0)}
    return [{"attributes": {"order": order}} for order in sorted(orders)] if rank else []


def _reshape(shape: Shape) -> list[dict[str, Any]]:
    targets = [(prod(shape),), tuple(reversed(shape)), (1, *shape)]
    return [{"to": target} for target in targets] if shape else []


def _broadcast(shape: Shape) -> list[dict[str, Any]]:
    sources = [(*shape[:d], 1, *shape[d + 1 :]) for d in range(len(shape))]
    return [{"value": source, "to": shape} for source in [*sources, shape] if source]


def _slice(shape: Shape) -> list[dict[str, Any]]:
    if not shape:
        return []
    half = tuple(max(1, n // 2) for n in shape)
    strided = {"strides": tuple(2 if n > 1 else 1 for n in shape)}
    parts: list[dict[str, Any]] = [{}, {"attributes": strided}]
    offsets = ((),) * len(shape)
    return [{"to": half, "small": half, "offsets": offsets, **part} for part in parts]


def _dot(shape: Shape) -> list[dict[str, Any]]:
    if len(shape) < 2:
        return []
    *batch, m, n = shape
    return [{"a": (*batch, m, k), "b": (*batch, k, n), "c": shape} for k in (7, 16)]


def _dot_scaled(shape: Shape) -> list[dict[str, Any]]:
    if len(shape) < 2:
        return []
    *batch, m, n = shape
    plain = {"a": (*batch, m, 32), "b": (*batch, 32, n), "c": shape}
    packed = {"a": (*batch, m, 16), "b": (*batch, 16, n), "c": shape}
    scales = {"a_scale": (*batch, m, 1), "b_scale": (*batch, n, 2)}
    return [plain, {**plain, **scales}, {**packed, **scales}]


def _blocks(shape: Shape) -> list[dict[str, Any]]:
    return [{"indices": ((),) * len(shape), "dimensions": ((),) * (2 * len(shape))}]


def _rows(shape: Shape) -> list[dict[str, Any]]:
    if len(shape) != 2:
        return []
    return [{"descriptor": (1, shape[1]), "index": shape[:1], "value": shape}]


_PLANS: dict[str, Plans] = {
    "splat": lambda s: [{"value": (), "to": s}],
    "broadcast": _broadcast,
    "reshape": _reshape,
    "expand_dims": _expand_dims,
    "trans": _permute,
    "split": lambda s: [{"value": (*s, 2)}],
    "cat": lambda s: _along(s),
    "gather": lambda s: _along(s),
    "extract_slice": _slice,
    "insert_slice": _slice,
    "unsplat": lambda s: [{"value": (1,) * len(s)}] if s else [],
    "psi": lambda s: [{"arms": (s, s, s, s)}, {"arms": ((), s, s, s)}],
    "reduce": lambda s: _along(s, values=(s,)),
    "scan": lambda s: _along(s, values=(s,)),
    "histogram": lambda s: [{"to": (16,)}],
    "dot": _dot,
    "dot_scaled": _dot_scaled,
    "extern_elementwise": lambda s: [
        {"values": (s,), "to": s, "attributes": {"symbol": "__nv_expf"}}
    ],
    "multiple_of": lambda s: [{"attributes": {"values": (1,) * max(1, len(s))}}],
    "contiguous": lambda s: [{"attributes": {"values": (1,) * max(1, len(s))}}],
    "constant_run": lambda s: [{"attributes": {"values": (1,) * max(1, len(s))}}],
    "print": lambda s: [{"values": (s,)}],
    "make_descriptor": _blocks,
    "descriptor_load": _blocks,
    "descriptor_store": _blocks,
    "descriptor_reduce": _blocks,
    "descriptor_gather": _rows,
    "descriptor_scatter": _rows,
}
