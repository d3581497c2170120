"""Properties of an op's class for the printer, computed once per class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any

import attrs

from tileir.field import SEVERAL, SHARED_RANGE, Field, FieldKind
from tileir.op import Op
from tileir.textual.attributes import format_label, format_symbol, format_value
from tileir.textual.literals import OPERAND_KINDS, LiteralTypes
from tileir.types import Type
from tileir.values import Operand, Value


@attrs.frozen(eq=False, repr=False)
class PrintPlan:
    """The properties of a class of ops that the printer needs."""

    mnemonic: str
    fields: tuple[Field, ...]
    """The fields after the result types, without attributes."""
    plain: bool
    """All of `fields` are operands, written in the order of `Op.inputs`."""
    optional: Callable[[Any], Any] | None
    """Reads those operands that may be left out, where there are several."""
    named: tuple[Field, ...]
    attributes: Callable[[Any], Any] | None
    defaults: Any
    stable: bool
    """Equal attributes are written alike: none is a float, whose zeros are equal."""


@lru_cache(maxsize=1024)
def plan_of(cls: type[Op]) -> PrintPlan:
    """The plan for ops of the class `cls`."""
    skipped = (FieldKind.ATTRIBUTE, FieldKind.RESULT_TYPE)
    fields = tuple(f for f in cls.schema if f.kind not in skipped)
    attributes = tuple(f for f in cls.schema if f.kind is FieldKind.ATTRIBUTE)
    operands = {FieldKind.OPERAND, FieldKind.OPTIONAL, FieldKind.VARIADIC}
    optional = [f.name for f in fields if f.kind is FieldKind.OPTIONAL]
    plain = operands.issuperset(f.kind for f in fields)
    if optional:
        plain = plain and fields[-1].kind is FieldKind.OPTIONAL
    defaults = tuple(f.default for f in attributes)
    return PrintPlan(
        cls.mnemonic, fields, plain, attrgetter(*optional) if len(optional) > 1 else None,
        attributes, attrgetter(*(f.name for f in attributes)) if attributes else None,
        defaults if len(defaults) != 1 else defaults[0],
        all(f.attribute is not None and f.attribute.form != "float" for f in attributes),
    )  # fmt: skip


def attributes_text(op: Op, plan: PrintPlan) -> str:
    """`{name = value, ...}` and a space before it; nothing where all are the defaults. The range in
    shared memory comes last."""
    shown = [
        f"{f.spelling} = {format_value(value, f.attribute)}"
        for f in plan.named
        if (value := getattr(op, f.name)) is not None and not _is(value, f.default)
    ]
    if op.shared is not None:
        shown.append(f"{SHARED_RANGE.name} = {format_value(op.shared, SHARED_RANGE.attribute)}")
    return f" {{{', '.join(shown)}}}" if shown else ""


def leading(optional: tuple[Any, ...]) -> bool:
    """Whether no absent operand comes before a present one."""
    absent = [v is None for v in optional]
    return absent == sorted(absent)


def field_texts(field: Field, value: Any, texts: Iterator[str]) -> Iterator[str]:
    """The texts of one field; those of its operands are taken from `texts`."""
    if field.kind is FieldKind.SYMBOL:
        yield format_symbol(value)
    elif field.kind is FieldKind.SUCCESSOR:
        yield format_label(value.label)
    elif field.kind is FieldKind.PAIRS:
        yield from (f"[{next(texts)}, {next(texts)}]" for _ in value[::2])
    elif field.kind is FieldKind.VARIADIC:
        yield from islice(texts, len(value))
    else:
        yield "none" if value is None else next(texts)


def bare_types(op: Op, plan: PrintPlan) -> list[Type | None]:
    """The type that a literal without one would have, for each input."""
    literals = LiteralTypes(type(op), tuple(v.type for v in op.results))
    inputs = list(_places(op, plan))
    for field, index, value in inputs:
        if type(value) is Value:
            literals.learn(field, index, value.type)
    result: list[Type | None] = []
    for field, index, value in inputs:
        result.append(literals.of(field, index))
        literals.learn(field, index, value.type)
    return result


def _is(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


def _places(op: Op, plan: PrintPlan) -> Iterator[tuple[Field, int, Operand]]:
    for field in plan.fields:
        if field.kind in OPERAND_KINDS:
            value = getattr(op, field.name)
            if value is not None:
                several = field.kind in SEVERAL
                yield from ((field, i, v) for i, v in enumerate(value if several else (value,)))
