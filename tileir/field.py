"""The kinds of fields of an op, a closed list, and their declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, cast

import attrs

from tileir.errors import is_text, verify_error
from tileir.signature import Pattern
from tileir.types import Type, as_tuple
from tileir.values import Operand, Value, is_operand


def not_operand(item: object) -> str:
    """The error for `item`, which is not a valid operand."""
    inside = getattr(item, "value", None)
    hint = "; give its `.value`" if is_operand(inside) else ""
    return f"not {item!r}{hint}"


def type_of(op: Any, name: str, item: object) -> Type:
    """The type of `item`, the operand `name` of `op`. Raises TIR0105 if `item` is no operand."""
    if is_operand(item):
        return item.type
    raise op.fail("TIR0105", f"{name} must be an operand, {not_operand(item)}", name)


def check_values(op: Any, results: tuple[object, ...]) -> None:
    """Raise TIR0105 for `op` unless each of `results` is a `Value`."""
    for value in results:
        if not isinstance(value, Value):
            raise op.fail("TIR0105", f"a result must be a Value, not {value!r}", "results")


class FieldKind(Enum):
    """The closed list of what an op's field may be; the grammar knows these and no op."""

    OPERAND = "operand"
    OPTIONAL = "optional operand"
    VARIADIC = "variadic operands"
    PAIRS = "pairs of operands"
    SYMBOL = "symbol"
    SUCCESSOR = "successor"
    RESULT_TYPE = "result type"
    ATTRIBUTE = "attribute"


class Field:
    """One declared field of an op class.

    `second` is for `PAIRS`: the type pattern of each pair's second operand; `pattern` is that of
    the first. `since` is the version of the language that an attribute appeared in.
    """

    def __init__(
        self, name: str, kind: FieldKind, pattern: Pattern | None,
        attribute: AttributeKind | None, default: Any, second: Pattern | None = None,
        since: tuple[int, int] = (1, 0),
    ) -> None:  # fmt: skip
        self.name, self.kind, self.default, self.since = name, kind, default, since
        self.pattern, self.second, self.attribute = pattern, second, attribute

    @property
    def spelling(self) -> str:
        """The name of the field in the text. `predicate_`, which would clash with `Op.predicate`,
        is written `predicate`."""
        return self.name.rstrip("_")

    def pattern_at(self, index: int) -> Pattern | None:
        """The pattern of operand `index` of this field."""
        return self.second if self.kind is FieldKind.PAIRS and index % 2 else self.pattern


class AttributeKind:
    """The syntax of an attribute's value.

    `form` is `int`, `bool`, `float`, `string`, `enum`, `ints`, `strings`, `symbol`, `type`,
    `combiner` (enum word or `@symbol`), or `layout`. `since` is the version that a value appeared
    in, where that is later than its attribute.
    """

    def __init__(
        self, form: str, enum: type[Enum] | None = None,
        since: Mapping[Enum, tuple[int, int]] | None = None,
    ) -> None:  # fmt: skip
        self.form, self.enum, self.since = form, enum, since or {}


INT, BOOL_ATTRIBUTE, FLOAT, STRING = (AttributeKind(f) for f in ("int", "bool", "float", "string"))
INTS, STRINGS, SYMBOL = (AttributeKind(f) for f in ("ints", "strings", "symbol"))
TYPE, LAYOUT = (AttributeKind(f) for f in ("type", "layout"))


def one_of(enum: type[Enum], since: Mapping[Enum, tuple[int, int]] | None = None) -> AttributeKind:
    """An attribute written as one bare word, the value of a member of `enum`."""
    return AttributeKind("enum", enum, since)


def combiner(
    enum: type[Enum], since: Mapping[Enum, tuple[int, int]] | None = None
) -> AttributeKind:
    """A bare word of `enum`, or `@name` of a function in the module (then a `str`)."""
    return AttributeKind("combiner", enum, since)


def operand(pattern: Pattern) -> Any:
    """A required operand whose type fits `pattern`."""
    return attrs.field(metadata={"kind": FieldKind.OPERAND, "pattern": pattern})


def optional(pattern: Pattern) -> Any:
    """An operand that may be left out (None; written `none` where others follow)."""
    meta = {"kind": FieldKind.OPTIONAL, "pattern": pattern}
    return attrs.field(default=None, metadata=meta)


def variadic(pattern: Pattern) -> Any:
    """Any number of operands, each fitting `pattern`; the last operand field."""
    meta = {"kind": FieldKind.VARIADIC, "pattern": pattern}
    return attrs.field(default=(), converter=as_tuple, metadata=meta)


def pairs(first: Pattern, second: Pattern) -> Any:
    """Any number of operand pairs, written `[a, b]` each and stored flat: (a, b, a, b, ...)."""
    meta = {"kind": FieldKind.PAIRS, "pattern": first, "second": second}
    return attrs.field(default=(), converter=as_tuple, metadata=meta)


def symbol() -> Any:
    """The name of a function or global of the module, written `@name`."""
    return attrs.field(metadata={"kind": FieldKind.SYMBOL})


def successor() -> Any:
    """A `Successor`: block label and the arguments for its parameters."""
    return attrs.field(metadata={"kind": FieldKind.SUCCESSOR})


def result_type(pattern: Pattern) -> Any:
    """The type of the first result, where operands do not determine it. Written once, as the
    result's type."""
    return attrs.field(metadata={"kind": FieldKind.RESULT_TYPE, "pattern": pattern})


def result_types() -> Any:
    """The types of all results (a tuple), for ops such as `call` that state them all."""
    return attrs.field(
        converter=as_tuple, metadata={"kind": FieldKind.RESULT_TYPE, "pattern": None}
    )


def attribute(
    kind: AttributeKind, default: Any = attrs.NOTHING, *, since: tuple[int, int] = (1, 0),
    kw_only: Literal[True] = True,
) -> Any:  # fmt: skip
    """A compile-time property, written `{name = value}`; omitted where it equals `default`.
    Constructors take it by name, which `kw_only` tells type checkers."""
    meta = {"kind": FieldKind.ATTRIBUTE, "attribute": kind, "since": since}
    return attrs.field(default=default, kw_only=kw_only, metadata=meta)


@attrs.frozen(weakref_slot=False)
class Successor:
    """An edge: the label of a block and one argument per block parameter."""

    label: str
    arguments: tuple[Operand, ...] = attrs.field(default=(), converter=as_tuple)

    def __attrs_post_init__(self) -> None:
        for argument in self.arguments:
            if not is_operand(argument):
                message = f"{self.label}: an argument must be an operand, {not_operand(argument)}"
                raise verify_error("TIR0105", message)

    def __repr__(self) -> str:
        return f"<edge to {self.label}: {len(self.arguments)} arguments>"


SHARED_RANGE = Field("shared", FieldKind.ATTRIBUTE, None, INTS, None)
"""The attribute that any op of a lowered module may have: `Op.shared`."""


@lru_cache(maxsize=1024)
def attribute_schema(op: Any) -> dict[str, Field]:
    """The attributes of an op class by the names text gives them."""
    return {f.spelling: f for f in (*op.fields(FieldKind.ATTRIBUTE), SHARED_RANGE)}


def check_shared_range(self: Any) -> None:
    """Raise TIR0106 unless `self.shared` is a range: an offset and a size in bytes."""
    range_ = self.shared
    if (
        type(range_) is not tuple
        or list(map(type, range_)) != [int, int]
        or range_[0] < 0
        or range_[1] < 1
    ):
        message = f"shared must be an offset and a size in bytes, not {range_!r}"
        raise self.fail("TIR0106", message, "shared")


_PYTHON_FORMS: dict[str, tuple[type, ...]] = {
    "int": (int,), "bool": (bool,), "float": (float, int), "string": (str,), "symbol": (str,),
    "ints": (tuple,), "strings": (tuple,), "type": (object,), "layout": (object,),
}  # fmt: skip


def expected_attribute(field: Field, value: Any) -> str | None:
    """The expected form of the attribute `field` if `value` is of another kind, else None."""
    kind = cast(AttributeKind, field.attribute)
    if value is None and field.default is None:
        return None
    if kind.enum is not None:
        fits = isinstance(value, kind.enum) or (kind.form == "combiner" and isinstance(value, str))
        if fits:
            return None
        words = ", ".join(str(m.value) for m in kind.enum)
        expected = f"one of {words}" + (" or @function" if kind.form == "combiner" else "")
    else:
        fits = isinstance(value, _PYTHON_FORMS[kind.form])
        fits &= not (kind.form in ("int", "float") and isinstance(value, bool))
        fits &= kind.form != "ints" or all(type(n) is int for n in cast(tuple[Any, ...], value))
        expected = kind.form
        if fits and kind.form == "string":
            fits, expected = is_text(value), "string that text can spell"
    return None if fits else expected


def _remap_one(old: Any, env: Mapping[Value, Operand]) -> Any:
    return env.get(old, old) if type(old) is Value else old


def _remap_many(old: tuple[Operand, ...], env: Mapping[Value, Operand]) -> Any:
    new = tuple([env.get(v, v) if type(v) is Value else v for v in old])
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new


def _remap_edge(old: Successor, env: Mapping[Value, Operand]) -> Any:
    new = _remap_many(old.arguments, env)
    return old if new is old.arguments else Successor(old.label, new)


REMAP: dict[FieldKind, Callable[[Any, Mapping[Value, Operand]], Any]] = {
    FieldKind.OPERAND: _remap_one,
    FieldKind.OPTIONAL: _remap_one,
    FieldKind.VARIADIC: _remap_many,
    FieldKind.PAIRS: _remap_many,
    FieldKind.SUCCESSOR: _remap_edge,
}
SEVERAL = (FieldKind.VARIADIC, FieldKind.PAIRS)
READING = (FieldKind.OPERAND, FieldKind.OPTIONAL, *SEVERAL)


def _alone(get: Any) -> Callable[[Any], tuple[Operand, ...]]:
    return lambda self: (get(self),)


def reader(schema: tuple[Field, ...]) -> Callable[[Any], tuple[Operand, ...]]:
    """The accessor of an op's inputs: one C call where every operand is required."""
    fields = [f for f in schema if f.kind in READING]
    names = [f.name for f in fields]
    if all(f.kind is FieldKind.OPERAND for f in fields) and names:
        return _getter(tuple(names))
    if [f.kind for f in fields] == [FieldKind.VARIADIC]:
        return attrgetter(*names)
    if len(fields) > 1 and not any(f.kind in SEVERAL for f in fields):
        get = attrgetter(*names)
        return lambda self: tuple([v for v in get(self) if v is not None])

    def read(self: Any) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        for field in fields:
            value = getattr(self, field.name)
            if field.kind in SEVERAL:
                operands.extend(value)
            elif value is not None:
                operands.append(value)
        return tuple(operands)

    return read


def _getter(paths: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """The accessor of the attributes at `paths`, as a tuple."""
    if not paths:
        return lambda self: ()
    get: Any = attrgetter(*paths)
    return _alone(get) if len(paths) == 1 else get


_ALIKE = ("int", "bool", "float")


def type_reader(schema: tuple[Field, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """The function that computes the cache key of an op's result types: the types of its operands,
    its stated result types, and its attributes, with the class of those that are equal across
    classes in Python (1, True and 1.0). It raises AttributeError if an operand is invalid: only
    operands have an `operand_type`."""
    fields = [f for f in schema if f.kind in READING]
    skipped = (*READING, FieldKind.SUCCESSOR)
    paths_of_values = tuple(f.name for f in schema if f.kind not in skipped)
    paths_of_values += tuple(
        f"{f.name}.__class__" for f in schema if f.attribute and f.attribute.form in _ALIKE
    )
    paths = (*paths_of_values, *(f"{f.name}.operand_type" for f in fields))
    if all(f.kind is FieldKind.OPERAND for f in fields) and paths:
        return _getter(paths)
    get_others = _getter(paths_of_values)
    readings = [(attrgetter(f.name), f.kind in SEVERAL) for f in fields]

    def read(self: Any) -> tuple[Any, ...]:
        key = get_others(self)
        for get_value, is_several in readings:
            value = get_value(self)
            if is_several:
                key += (tuple([v.operand_type for v in value]),)
            else:
                key += (None if value is None else value.operand_type,)
        return key

    return read
