"""Arguments of builder methods, and their conversion to the fields of an op.

There is one `MethodSignature` per op class, derived from its fields. It states the arguments, the
conversion of Python objects to the value of each field, and the type of a Python number, which
follows from the other arguments.
"""

from __future__ import annotations

import inspect
import keyword
import numbers
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import attrs

from tileir.builder.builder_value import Wrapped
from tileir.builder.errors import mistake
from tileir.field import READING, SEVERAL, Field, FieldKind
from tileir.op import Op
from tileir.signature import Pattern
from tileir.types import (
    F32,
    I32,
    Buffer,
    Descriptor,
    Opaque,
    Pointer,
    Scalar,
    Tile,
    Type,
    element_of,
)
from tileir.values import Constant, Operand, Undef, Value, constant

if TYPE_CHECKING:
    from tileir.builder.builder import Builder

TYPES = (Scalar, Pointer, Tile, Descriptor, Buffer, Opaque)
"""The classes of types an argument may have."""


@attrs.frozen
class UntypedNumber:
    """A Python number whose type follows from the other arguments."""

    number: int | float | bool


@attrs.frozen(eq=False)
class MethodSignature:
    """The conversion of calls of one builder method to ops of the class `kind`."""

    kind: type[Op]
    positional: tuple[Field, ...]
    by_keyword: Mapping[str, Field]
    by_name: Mapping[str, Field]
    simple: int
    """Number of arguments where all are required operands, else -1."""

    def fields(
        self, builder: Builder, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Values for the fields of `kind`. Raises BuildError."""
        by_name = self._by_name(arguments, keywords)
        values = {
            field.name: _field_value(builder, self, field, by_name[field.name])
            for field in self.kind.schema
            if field.name in by_name
        }
        self._type_numbers(values)
        return values

    def operand_fields(self, operands: tuple[Any, ...], type: Type | None) -> dict[str, Any]:
        """The fields of `operands` (Exprs or operands, in order) and of the result type; operands
        that are left out at the end are None."""
        fields: dict[str, Any] = {}
        items = iter(operands)
        for field in self.positional:
            if field.kind in SEVERAL:
                fields[field.name] = tuple([_bare(item) for item in next(items, ())])
            elif field.kind is FieldKind.RESULT_TYPE:
                fields[field.name] = type
            else:
                fields[field.name] = _bare(next(items, None))
        return fields

    def member(self, name: str, value: Any) -> Any:
        """An attribute's enum member for its word; any other value as it is."""
        kind = self.by_name[name].attribute
        is_word = isinstance(value, str) and kind is not None and kind.enum is not None
        return word(cast(Any, kind).enum, value) if is_word else value

    def _by_name(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by field name. Raises BuildError for a repeated or missing argument."""
        if len(arguments) > len(self.positional):
            most = len(self.positional)
            raise self.misuse(f"takes {most} arguments by position, not {len(arguments)}")
        result = {f.name: a for f, a in zip(self.positional, arguments, strict=False)}
        for name, argument in keywords.items():
            field = self.by_keyword.get(name)
            if field is None:
                raise self.misuse(f"has no argument {name}")
            if field.name in result:
                raise self.misuse(f"has two values for {name}")
            result[field.name] = argument
        for field in self.kind.schema:
            if field.name not in result and field.default is attrs.NOTHING:
                raise self.misuse(f"needs {keyword_of(field)}")
        return result

    def misuse(self, what: str) -> Exception:
        """A BuildError about a call of this method."""
        names = ", ".join(self.by_keyword)
        return mistake("TIR0803", f"{self.kind.mnemonic} {what}; its arguments are: {names}")

    def _type_numbers(self, values: dict[str, Any]) -> None:
        """Replace each `UntypedNumber` by a literal of the type the signature gives it."""
        if not any(type(n) is UntypedNumber for v in values.values() for n in _each(v)):
            return
        bound: dict[str, Type] = {}
        for field in self.kind.schema:
            for index, item in enumerate(_each(values.get(field.name))):
                pattern = field.pattern_at(index)
                if pattern is not None and (item_type := _type_of(item)) is not None:
                    pattern.match(item_type, bound)
        for field in self.kind.schema:
            if field.kind in READING and field.name in values:
                values[field.name] = self._typed_value(field, values[field.name], bound)

    def _typed_value(self, field: Field, value: Any, bound: dict[str, Type]) -> Any:
        if isinstance(value, tuple):
            items = cast(tuple[Any, ...], value)
            return tuple([self._literal(field, i, v, bound) for i, v in enumerate(items)])
        return self._literal(field, 0, value, bound)

    def _literal(self, field: Field, index: int, item: Any, bound: dict[str, Type]) -> Any:
        if type(item) is not UntypedNumber:
            return item
        pattern = field.pattern_at(index)
        result = None if pattern is None else pattern.build(bound) or _only_scalar(pattern, item)
        if result is None:
            raise mistake(
                "TIR0802",
                f"{self.kind.mnemonic}: nothing here says the type of {field.name} = "
                f"{item.number}; write it as b.constant(type, {item.number})",
            )
        return literal(result, item.number)


def plan_of(kind: type[Op]) -> MethodSignature:
    """The signature of the method for an op class: operands, types, symbols and edges by position
    in the order of the fields; everything also by keyword."""
    positional = tuple(f for f in kind.schema if f.kind is not FieldKind.ATTRIBUTE)
    simple = all(f.kind is FieldKind.OPERAND for f in positional)
    required = any(f.default is attrs.NOTHING for f in kind.schema if f.kind is FieldKind.ATTRIBUTE)
    return MethodSignature(
        kind,
        positional,
        {keyword_of(f): f for f in kind.schema},
        {f.name: f for f in kind.schema},
        len(positional) if simple and not required else -1,
    )


def keyword_of(field: Field) -> str:
    """The keyword of a field: its name as in text, with `_` where Python reserves the word."""
    name = field.name.rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) else name


def literal(type: Type, number: int | float | bool) -> Constant:
    """`number` as a literal of `type`. Raises BuildError where it does not fit."""
    element = element_of(type)
    if not isinstance(element, (Scalar, Pointer)):
        raise mistake("TIR0802", f"{type} has no literals, so {number} cannot stand here")
    try:
        return constant(type, number)
    except (OverflowError, TypeError) as error:
        raise mistake("TIR0802", f"{number} is no {element}: {error}") from None


def as_number(item: object) -> int | float | bool | None:
    """A Python or numpy number as a Python number; None for everything else."""
    if isinstance(item, (bool, int, float)):
        return item
    if isinstance(item, numbers.Integral):
        return int(item)
    if isinstance(item, numbers.Real):
        return float(item)
    is_flag = type(item).__name__ in ("bool", "bool_") and type(item).__module__ == "numpy"
    return bool(item) if is_flag else None


# Fields ------------------------------------------------------------------------------------


def _field_value(builder: Builder, plan: MethodSignature, field: Field, value: Any) -> Any:
    return _CONVERT[field.kind](builder, plan, field, value)


def _operand(
    builder: Builder, plan: MethodSignature, field: Field, value: Any
) -> Operand | UntypedNumber:
    if isinstance(value, Wrapped):
        return value.value
    if isinstance(value, (Value, Constant, Undef)):
        return value
    number = as_number(value)
    if number is None:
        message = f"wants a value or a number for {keyword_of(field)}, not {value!r}"
        raise plan.misuse(message)
    return UntypedNumber(number)


def _optional(builder: Builder, plan: MethodSignature, field: Field, value: Any) -> Any:
    return None if value is None else _operand(builder, plan, field, value)


def _operands(builder: Builder, plan: MethodSignature, field: Field, value: Any) -> tuple[Any, ...]:
    if isinstance(value, (Wrapped, Value, Constant, Undef)) or not isinstance(value, Iterable):
        value = (value,)
    return tuple([_operand(builder, plan, field, item) for item in cast(Iterable[Any], value)])


def _pairs(builder: Builder, plan: MethodSignature, field: Field, value: Any) -> tuple[Any, ...]:
    flat: list[Any] = []
    for item in cast(Iterable[Any], value):
        flat.extend(cast(Any, item) if isinstance(item, (tuple, list)) else (item,))
    return _operands(builder, plan, field, flat)


def _symbol(builder: Builder, plan: MethodSignature, field: Field, value: Any) -> str:
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if not isinstance(name, str):
        raise plan.misuse(f"needs the name of a symbol for {keyword_of(field)}, not {value!r}")
    return name


def _result_type(builder: Builder, plan: MethodSignature, field: Field, value: Any) -> Any:
    if field.pattern is None:  # the types of all results
        return (value,) if isinstance(value, TYPES) else tuple(value)
    if not isinstance(value, TYPES):
        raise plan.misuse(f"needs a type for {keyword_of(field)}, not {value!r}")
    return value


def _attribute(builder: Builder, plan: MethodSignature, field: Field, value: Any) -> Any:
    kind = field.attribute
    if kind is None:
        return value
    if kind.enum is not None and isinstance(value, str):
        return word(kind.enum, value)
    if kind.form == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return tuple(cast(Any, value)) if isinstance(value, list) else value


def word(enum: type[Enum], text: str) -> Enum | str:
    """The member of `enum` written `text`; the name of a function where it is none."""
    if text.startswith("@"):
        return text[1:]
    try:
        return enum(text)
    except ValueError:
        return text


def _as_given(builder: Builder, plan: MethodSignature, field: Field, value: Any) -> Any:
    return value


_CONVERT: dict[FieldKind, Callable[[Any, MethodSignature, Field, Any], Any]] = {
    FieldKind.OPERAND: _operand,
    FieldKind.OPTIONAL: _optional,
    FieldKind.VARIADIC: _operands,
    FieldKind.PAIRS: _pairs,
    FieldKind.SYMBOL: _symbol,
    FieldKind.RESULT_TYPE: _result_type,
    FieldKind.ATTRIBUTE: _attribute,
    FieldKind.SUCCESSOR: _as_given,
}


def _only_scalar(pattern: Pattern, item: UntypedNumber) -> Type | None:
    """i32 for a whole number if `pattern` only allows scalar integers."""
    fits = [pattern.match(t, {}) is None for t in (I32, F32, _ROW)]
    return I32 if fits == [True, False, False] and isinstance(item.number, int) else None


_ROW = Tile(I32, (2,))


def _bare(item: Any) -> Any:
    return item.value if isinstance(item, Wrapped) else item


def check_parameters(function: Callable[..., Any], count: int) -> None:
    """Raises BuildError if `function` does not take `count` arguments by position."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError as error:
        raise mistake("TIR0803", f"the combiner is called with {count} scalars: {error}") from None
    except ValueError:  # a built-in function without a signature
        return


def check_type(value: Any, what: str) -> Type:
    """`value`, which must be the type of `what`. Raises BuildError if it is not a type."""
    if not isinstance(value, TYPES):
        raise mistake("TIR0803", f"{what} needs a type, as F32, not {value!r}")
    return value


def _each(value: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], value) if isinstance(value, tuple) else (value,)


def _type_of(item: Any) -> Type | None:
    if isinstance(item, (Value, Constant, Undef)):
        return item.type
    return item if isinstance(item, TYPES) else None
