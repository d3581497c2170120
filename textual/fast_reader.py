"""The common shapes of a line, read by one expression, however it is spaced.

It reads ops and phis of the forms that the printer writes. Unusual and invalid lines are left to
`tileir.textual.statements`, which reads the same grammar."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

import attrs

from tileir.errors import Location, ParseError, TileirError
from tileir.field import SEVERAL, FieldKind, Successor, attribute_schema
from tileir.op import Op, lookup
from tileir.textual.attributes import read_dict
from tileir.textual.lexer import GAP, NAME, TYPE, Cursor, comment_text
from tileir.textual.literals import OPERAND_KINDS, LiteralTypes, literal
from tileir.textual.scope import POISON, ValueScope
from tileir.textual.types import MAX_DEPTH, read_types
from tileir.types import Pointer, Scalar, Tile, Type
from tileir.values import Operand, Value

BRACES = r'\{[^{};"\n]*(?:"[^"\\\n]*"[^{};"\n]*)*\}'
PLACE = r'loc\("([^"\\\n]*)":(\d{1,9}):(\d{1,9})\)'
LINE = re.compile(
    rf"({GAP}*)(?:@(%{NAME}){GAP}+)?"
    rf"(?:((?:%{NAME}|_)(?:{GAP}*,{GAP}*(?:%{NAME}|_))*){GAP}*={GAP}*)?([a-z][\w.]*)"
    rf"(?(3){GAP}+({TYPE}))"
    r'(?:[ \t\r]+([\w%@\[.$-][^{}\n;"#]*(?:(?<=@)"[^"\\\n]+"[^{}\n;"#]*)*(?<![ \t\r])))?'
    rf"(?:{GAP}*({BRACES}))?(?:{GAP}*{PLACE})?{GAP}*(?:;([^\n]*))?\n",
    re.ASCII,
)
"""An op or a phi. Its groups: indentation, predicate, results, mnemonic, types (where there are
results), operands, attributes, file, line and column, comment."""
BETWEEN = re.compile(
    rf"({GAP}*+)(?:({NAME}){GAP}*+:|(\}}))?{GAP}*+(?:;([^\n]*))?\n((?:{GAP}*+\n)*+)", re.ASCII
)
"""A label, the end of a function, or neither; with a comment, or without; and empty lines. Its
groups: indentation, label, end, comment, empty lines."""

_LABEL = re.compile(r"(?a)[A-Za-z_][\w.$-]*|\d+")
SYMBOL = r'@(?:(?!(?:true|false|undef)(?![\w.$-]))[A-Za-z_.$][\w.$-]*|"[^"\\\n]+")'
_LITERAL = re.compile(
    r"-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf|nan)|true|false|null|undef", re.ASCII
)
_TILE = re.compile(r"([a-z]\w*\**)<(\d{1,9}(?:, \d{1,9})*)>", re.ASCII)
_NAMES = re.compile(rf"%{NAME}|_", re.ASCII)
_AROUND = re.compile(rf"(?:(?<!{GAP}){GAP}++)?([\[\],]){GAP}*+")
_NOTHING: dict[str, Any] = {}
_KEPT = 200
"""Characters of the longest types that are remembered after the module is read."""


class _OpForm:
    """The properties of a line that follow from its mnemonic."""

    def __init__(self, op: type[Op]) -> None:
        self.op = op
        self.fields = tuple(f for f in op.schema if f.kind is not FieldKind.ATTRIBUTE)
        """The constructor's arguments before attributes, including explicit types."""
        self.slots = tuple(f for f in self.fields if f.kind is not FieldKind.RESULT_TYPE)
        """The fields that are written after the type."""
        kinds = [f.kind for f in self.fields]
        stated_at = kinds.index(FieldKind.RESULT_TYPE) if FieldKind.RESULT_TYPE in kinds else -1
        self.stated_at = stated_at
        """The position of the explicit type among the constructor's arguments; -1 if it takes
        none."""
        alone = stated_at < 0 or self.fields[stated_at].pattern is not None
        self.needs_type = stated_at >= 0 and alone
        """A single type is stated."""
        singles = (FieldKind.OPERAND, FieldKind.OPTIONAL)
        self.plain = alone and all(f.kind in singles for f in self.slots)
        """Every field is a single operand, and one type is stated at most."""
        several = sum(kind in SEVERAL for kind in kinds)
        self.required = len(self.slots) - kinds.count(FieldKind.OPTIONAL) - several
        self.most = 1 << 20 if several else len(self.slots)
        self.needed = frozenset(
            f.spelling for f in op.schema if f.default is attrs.NOTHING and f.attribute
        )
        """Attributes without default."""
        self.names = tuple((i, f) for i, f in enumerate(self.slots) if f.kind not in OPERAND_KINDS)
        """The fields of symbols and labels, with their positions."""
        self.values_first = [at for at, _ in self.names] != list(range(len(self.names)))
        """Values stand before some of those."""
        self.type_after_optional = stated_at >= 0 and FieldKind.OPTIONAL in kinds[:stated_at]
        """An optional operand, which may be absent, comes before the explicit type."""


@lru_cache(1024)
def _form_of(op: type[Op]) -> _OpForm:
    """The form of lines with `op`, in any module."""
    return _OpForm(op)


class _LineShape:
    """The properties of a line that follow from its mnemonic and type."""

    def __init__(self, form: _OpForm, types: tuple[Type, ...]) -> None:
        self.form, self.types = form, types
        self.literal_types: dict[tuple[Type | None, ...], tuple[Type | None, ...]] = {}
        """The types of literals among the operands, by the types of the values among them."""
        self.arguments: dict[str, list[Any]] = {}
        """The constructor's arguments, by the text of operands without values."""


class FastReader:
    """Reads lines of one module; remembers shapes, literals and attributes by their text."""

    def __init__(self, file: str, layouts: dict[str, object]) -> None:
        self.file, self.layouts = file, layouts
        self._forms: dict[str, _OpForm | None] = {}
        self._shapes: dict[tuple[str, str | None], _LineShape | None] = {}
        self._labels: dict[str, Successor | None] = {}
        self._symbols: dict[str, str | None] = {}
        self._attributes: dict[tuple[type[Op], str], dict[str, Any] | None] = {}
        self._types: dict[str | None, tuple[Type, ...] | None] = {None: ()}
        self._literals: dict[tuple[Type, str], Operand | None] = {}

    def read(
        self, match: re.Match[str], scope: ValueScope, line: int, comments: tuple[str, ...]
    ) -> Op | None:
        """The op on the matched line, its results defined; None if the general parser has to read
        the line."""
        (indent, predicate, names, mnemonic, type_text, operands, attribute_text,
         file, row, column, comment) = match.groups()  # fmt: skip
        try:
            shape = self._shapes[mnemonic, type_text]
        except KeyError:
            shape = self._shapes[mnemonic, type_text] = self._shape(mnemonic, type_text)
        if shape is None:
            return None
        form = shape.form
        arguments = self._arguments(shape, operands, scope)
        attributes = _NOTHING
        if attribute_text is not None or form.needed:
            attributes = self._attribute_values(form, attribute_text)
        if arguments is None or attributes is None:
            return None
        results = self._results(shape, names, scope)
        if results is None:
            return None
        guard = None
        if predicate is not None:
            guard = self._value(predicate[1:], scope)
            if guard is None:
                return None
        if file is None:
            at = Location(self.file, line, len(indent) + 1, False)
        else:
            at = Location(file, int(row), int(column))
        if comment is not None:
            comments = (*comments, comment_text(comment))
        try:
            result = form.op(
                *arguments, **attributes, results=results, predicate=guard, comments=comments,
                location=at,
            )  # fmt: skip
        except TileirError:
            return None
        if len(result.results) != len(results):
            return None
        if len(results) == 1:
            if names != "_":
                scope.bind(names[1:], results[0])
        elif names is not None:
            for name, value in zip(_NAMES.findall(names), results, strict=True):
                if name != "_":
                    scope.bind(name[1:], value)
        return result

    def phi(
        self, match: re.Match[str], scope: ValueScope
    ) -> tuple[str, Value, dict[str, Operand]] | None:
        """The phi on the matched line: its name, its value, which is not yet defined, and the value
        for each predecessor. None if the general parser has to read the line."""
        _, predicate, names, _, type_text, operands, attributes, file, *_ = match.groups()
        if predicate or names is None or not operands or attributes or file:
            return None
        types = self.types(type_text)
        if types is None or len(types) != 1 or not names.startswith("%") or "," in names:
            return None
        result = scope.forward_value(names[1:], types[0])
        if result is None:
            return None
        incoming = None
        if ", " in operands:
            incoming = self._incoming(operands, names, result, scope)
        if incoming is None:
            spaced = _without_gaps(operands).replace(",", ", ")
            incoming = self._incoming(spaced, names, result, scope)
        return None if incoming is None else (names[1:], result, incoming)

    def _incoming(
        self, text: str, name: str, result: Value, scope: ValueScope
    ) -> dict[str, Operand] | None:
        """The values of the phi `name` by predecessor."""
        incoming: dict[str, Operand] = {}
        for entry in text[1:-1].split("], ["):
            spelt, _, label = entry.partition(", ")
            if spelt[:1] != "%":
                value = self.literal(spelt, result.type)
            else:
                value = result if spelt == name else self._value(spelt[1:], scope)
            if value is None or value.type is not result.type or not _LABEL.fullmatch(label):
                return None
            incoming[label] = value
        return incoming if len(incoming) == text.count("[") == text.count("]") else None

    def _value(self, name: str, scope: ValueScope) -> Value | None:
        """The value called `name`, which may be defined later; None if no valid line defines it."""
        value = scope.values.get(name)
        if value is None:
            value = scope.ahead(name, self.types)
        return None if value is POISON else value

    def types(self, text: str | None) -> tuple[Type, ...] | None:
        """The types that `text` spells; None where it spells none."""
        try:
            return self._types[text]
        except KeyError:
            types = self._types[text] = self._read_types(text or "")
            return types

    def literal(self, text: str, type: Type) -> Operand | None:
        """The literal of `type` that `text` spells; None where it spells none."""
        key = (type, text)
        try:
            return self._literals[key]
        except KeyError:
            spelt = _LITERAL.fullmatch(text) is not None
            operand = self._literals[key] = literal(text, type) if spelt else None
            return operand

    def _results(
        self, shape: _LineShape, names: str | None, scope: ValueScope
    ) -> tuple[Value, ...] | None:
        if names is None:
            return None if shape.types else ()
        types = shape.types
        if "," not in names:
            if len(types) != 1:
                return None
            value = scope.forward_value(names[1:], types[0])
            return None if value is None else (value,)
        parts = _NAMES.findall(names)
        bound_names = [p for p in parts if p != "_"]
        if len(parts) != len(types) or len(set(bound_names)) != len(bound_names):
            return None
        result = tuple([scope.forward_value(p[1:], t) for p, t in zip(parts, types, strict=True)])
        return None if None in result else cast("tuple[Value, ...]", result)

    # Operands -------------------------------------------------------------------------------------

    def _arguments(
        self, shape: _LineShape, text: str | None, scope: ValueScope
    ) -> list[Any] | None:
        if text is None or "%" not in text:
            arguments = shape.arguments.get(text or "")
            if arguments is None:
                arguments = self._read_arguments(shape, text, scope)
                if arguments is not None:
                    shape.arguments[text or ""] = arguments
            return arguments
        return self._read_arguments(shape, text, scope)

    def _read_arguments(
        self, shape: _LineShape, text: str | None, scope: ValueScope
    ) -> list[Any] | None:
        if text is None:
            return self._arguments_of(shape, [], scope)
        parts = text.split(", ")
        arguments = self._arguments_of(shape, parts, scope)
        if arguments is None:
            tight = _without_gaps(text).split(",")
            if tight != parts:
                return self._arguments_of(shape, tight, scope)
        return arguments

    def _arguments_of(
        self, shape: _LineShape, parts: list[str], scope: ValueScope
    ) -> list[Any] | None:
        form = shape.form
        if not form.required <= len(parts) <= form.most:
            return None
        if not form.plain:
            return self._mixed_arguments(shape, parts, scope)
        values = self._values(shape, parts, scope)
        if values is not None and form.stated_at >= 0:
            values.insert(form.stated_at, shape.types[0])
        return values

    def _values(self, shape: _LineShape, parts: list[str], scope: ValueScope) -> list[Any] | None:
        """A value or literal per part."""
        values = scope.values
        result: list[Any] = []
        literals = False
        for part in parts:
            if part[:1] != "%":
                literals = True
                result.append(part)
                continue
            value = values.get(part[1:]) or self._value(part[1:], scope)
            if value is None or value is POISON:
                return None
            result.append(value)
        return self._with_literals(shape, result) if literals else result

    def _with_literals(self, shape: _LineShape, items: list[Any]) -> list[Any] | None:
        key = tuple([v.type if type(v) is Value else None for v in items])
        types = shape.literal_types.get(key)
        if types is None:
            types = shape.literal_types[key] = _literal_types(shape, key)
        for index, item in enumerate(items):
            if type(item) is str:
                type_ = types[index]
                literal = None if type_ is None else self.literal(item, type_)
                if literal is None:
                    return None
                items[index] = literal
        return items

    def _mixed_arguments(
        self, shape: _LineShape, parts: list[str], scope: ValueScope
    ) -> list[Any] | None:
        """The constructor's arguments where symbols, labels or several operands are among them."""
        by_field: dict[str, Any] = {}
        form, texts = shape.form, parts
        if form.names:
            if form.names[-1][0] >= len(parts):
                return None
            for at, field in form.names:
                name = self._name(parts[at], field.kind)
                if name is None:
                    return None
                by_field[field.name] = name
            if len(by_field) == len(form.fields):
                return list(by_field.values())  # in the order of the fields
            if form.values_first:
                named_at = [at for at, _ in form.names]
                texts = [text for at, text in enumerate(parts) if at not in named_at]
            else:
                texts = parts[len(form.names) :]
        if form.slots and form.slots[-1].kind is FieldKind.PAIRS and not _unbracket(texts):
            return None
        values: list[Any] | None = []
        if texts:
            values = self._values(shape, texts, scope)
        return None if values is None else _constructor_arguments(shape, by_field, values)

    def _name(self, text: str, kind: FieldKind) -> str | Successor | None:
        """The symbol, or the edge to the label, that `text` spells; None where it spells none."""
        if kind is FieldKind.SUCCESSOR:
            if text not in self._labels:
                self._labels[text] = Successor(text) if _LABEL.fullmatch(text) else None
            return self._labels[text]
        if text not in self._symbols:
            self._symbols[text] = (
                text[1:].strip('"') if re.fullmatch(SYMBOL, text, re.ASCII) else None
            )
        return self._symbols[text]

    # Attributes, shapes ---------------------------------------------------------------------------

    def _attribute_values(self, form: _OpForm, text: str | None) -> dict[str, Any] | None:
        if text is None:
            return None if form.needed else _NOTHING
        key = (form.op, text)
        if key not in self._attributes:
            self._attributes[key] = self._parsed_attributes(form, text)
        return self._attributes[key]

    def _parsed_attributes(self, form: _OpForm, text: str) -> dict[str, Any] | None:
        schema = attribute_schema(form.op)
        try:
            result = read_dict(Cursor(text, self.file), schema, self.layouts, form.op.mnemonic)
        except ParseError:
            return None
        if not result.keys() >= form.needed:
            return None
        return {schema[name].name: value for name, value in result.items()}

    def _shape(self, mnemonic: str, type_text: str | None) -> _LineShape | None:
        if mnemonic not in self._forms:
            # `phi` is not an op: `lookup` would load every family before it says so
            cls = None if mnemonic == "phi" else lookup(mnemonic)
            self._forms[mnemonic] = None if cls is None else _form_of(cls)
        form, types = self._forms[mnemonic], self.types(type_text)
        if form is None or form.type_after_optional or types is None:
            return None
        return _LineShape(form, types) if types or not form.needs_type else None

    def _read_types(self, text: str) -> tuple[Type, ...] | None:
        if "#" in text or len(text) > _KEPT:
            return _read_types(text, self.layouts)
        return _types_without_aliases(text)


def _read_types(text: str, layouts: dict[str, object]) -> tuple[Type, ...] | None:
    cursor = Cursor(text, "")
    try:
        types = read_types(cursor, layouts)
    except ParseError:
        return None
    return types if cursor.token.kind == "end" else None


@lru_cache(4096)
def _types_without_aliases(text: str) -> tuple[Type, ...] | None:
    """The types that `text` spells, in any module; None where it spells none."""
    tile = _TILE.fullmatch(text)
    if tile is not None:
        elements, shape = _types_without_aliases(tile[1]), tuple(map(int, tile[2].split(", ")))
        element = elements[0] if elements else None
        fits = 0 not in shape and len(shape) <= MAX_DEPTH
        if fits and isinstance(element, (Scalar, Pointer)):
            return (Tile(element, shape),)
    return _read_types(text, {})


def _without_gaps(text: str) -> str:
    """`text` without gaps before and after brackets and commas."""
    has_gap = " " in text or "\t" in text or "\r" in text
    return _AROUND.sub(r"\1", text) if has_gap else text


def _literal_types(
    shape: _LineShape, operand_types: tuple[Type | None, ...]
) -> tuple[Type | None, ...]:
    operands = [f for f in shape.form.slots if f.kind in OPERAND_KINDS]
    last = len(operands) - 1
    places = [(operands[min(i, last)], max(0, i - last)) for i in range(len(operand_types))]
    types = LiteralTypes(shape.form.op, shape.types)
    for place, type_ in zip(places, operand_types, strict=True):
        if type_ is not None:
            types.learn(*place, type_)
    return tuple([types.of(*place) for place in places])


def _constructor_arguments(
    shape: _LineShape, by_field: dict[str, Any], items: list[Any]
) -> list[Any]:
    arguments: list[Any] = []
    at = 0
    for field in shape.form.fields:
        kind = field.kind
        if kind is FieldKind.RESULT_TYPE:
            arguments.append(shape.types if field.pattern is None else shape.types[0])
        elif field.name in by_field:
            arguments.append(by_field[field.name])
        elif kind in SEVERAL:
            arguments.append(tuple(items[at:]))
        else:
            arguments.append(items[at] if at < len(items) else None)
            at += 1
    return arguments


def _unbracket(texts: list[str]) -> bool:
    """Remove the brackets of `[a`, `b]`, ...; returns whether all of them were present."""
    for index, text in enumerate(texts):
        second = index % 2
        bracket, bare = (text[-1:], text[:-1]) if second else (text[:1], text[1:])
        if bracket != "[]"[second] or "[" in bare or "]" in bare:
            return False
        texts[index] = bare
    return len(texts) % 2 == 0
