"""The common shapes of a line, read by one expression.

Reads what the printer writes for an op or a phi, and nothing else: whatever is unusual or wrong
about a line is left to `tileir.textual.statements`, which reads the same grammar.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from tileir.errors import Location, ParseError, TileirError
from tileir.field import SEVERAL, Field, FieldKind, Successor, attribute_schema
from tileir.op import Op, lookup
from tileir.textual.attributes import read_dict
from tileir.textual.lexer import NAME, Cursor
from tileir.textual.literals import OPERAND_KINDS, LiteralTypes, literal
from tileir.textual.scope import POISON, ValueScope, hint
from tileir.textual.types import read_types
from tileir.types import Type
from tileir.values import Operand, Value

LINE = re.compile(
    rf"  (?:@(%{NAME}) )?(?:((?:%{NAME}|_)(?:, (?:%{NAME}|_))*) = )?([a-z][\w.]*)"
    r"(?: ([\w(.$-][^%{}\n;\"@#\[\]]*?))?(?: ([%@\[][^{}\n;\"#]*?))?(?: (\{[^{};\n\"#]*\}))?"
    r'(?: loc\("([^"\\\n]*)":(\d{1,9}):(\d{1,9})\))?\n',
    re.ASCII,
)
LABEL_LINE = re.compile(r"([A-Za-z_][\w.$-]*):\n", re.ASCII)

_TIGHT_COMMA = re.compile(r" ?,(?: |(?=\S))", re.ASCII)
_LABEL = re.compile(r"[A-Za-z_][\w.$-]*|\d+", re.ASCII)
_SYMBOL = re.compile(r"@(?!(?:true|false|undef)\Z)[A-Za-z_.$][\w.$-]*", re.ASCII)
_LITERAL = re.compile(
    r"-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf|nan)|true|false|null|undef", re.ASCII
)
_NOTHING: dict[str, Any] = {}


def usual_form(line: str) -> tuple[re.Match[str], int, str | None] | None:
    """`line` spaced as the printer does, matched by `LINE`, if it has that form then: with its
    first column and its comment. Strings are left alone."""
    code, mark, comment = line.partition(";")
    if '"' in code:
        return None
    code = code.replace("\t", " ").replace("\r", " ")
    if not code.isascii() or not code.isprintable():
        return None
    words = code.split()
    if not words:
        return None
    head, equals, rest = " ".join(words).partition("=")
    if equals and head[:1] in ("%", "_", "@") and "{" not in head:
        head, rest = head.rstrip() + " = ", rest.lstrip()
    else:
        rest = equals + rest
    spaced = _TIGHT_COMMA.sub(", ", head + rest)
    match = LINE.match(f"  {spaced}\n")
    column = len(code) - len(code.lstrip(" ")) + 1
    return None if match is None else (match, column, comment if mark else None)


@attrs.frozen(eq=False, repr=False)
class _LineShape:
    """What is known of a line from its mnemonic and type alone."""

    op: type[Op]
    types: tuple[Type, ...]
    fields: tuple[Field, ...]
    """What the constructor takes before attributes, stated types included."""
    slots: tuple[Field, ...]
    """Those of them that are written after the type."""
    stated_at: int
    """Where the constructor takes the stated type; -1 where it takes none."""
    plain: bool
    """Every field is a single operand, and one type is stated at most."""
    required: int
    most: int
    needed: frozenset[str]
    """Attributes without default."""
    names: tuple[tuple[int, Field], ...] = ()
    """The fields of symbols and labels, with their positions."""
    literal_types: dict[tuple[Type | None, ...], tuple[Type | None, ...]] = attrs.field(
        factory=dict
    )
    """By the types of the values among the operands: those of the others."""


class FastReader:
    """Reads lines of one module; remembers shapes, literals and attributes by their text."""

    def __init__(self, file: str, layouts: dict[str, object]) -> None:
        self.file, self.layouts = file, layouts
        self._shapes: dict[tuple[str, str | None], _LineShape | None] = {}
        self._attributes: dict[tuple[type[Op], str], dict[str, Any] | None] = {}
        self._types: dict[str | None, tuple[Type, ...] | None] = {None: ()}
        self._literals: dict[tuple[Type, str], Operand | None] = {}

    def read(
        self, match: re.Match[str], scope: ValueScope, line: int, comments: tuple[str, ...],
        column: int = 3,
    ) -> Op | None:  # fmt: skip
        """The op on the matched line, its results defined; None to read it the other way."""
        predicate, names, mnemonic, type_text, operands, attribute_text, *place = match.groups()
        if names is None and type_text is not None:
            operands = type_text if operands is None else f"{type_text} {operands}"
            type_text = None
        key = (mnemonic, type_text)
        try:
            shape = self._shapes[key]
        except KeyError:
            shape = self._shapes[key] = self._shape(*key)
        if shape is None:
            return None
        arguments = self._arguments(shape, operands, scope)
        attributes = self._attribute_values(shape, attribute_text)
        if arguments is None or attributes is None:
            return None
        results = self._results(shape, names, scope)
        if results is None:
            return None
        guard = None
        if predicate is not None:
            guard = scope.values.get(predicate[1:])
            if guard is None or guard is POISON:
                return None
        at = Location(self.file, line, column, False) if place[0] is None else _location(place)
        try:
            result = shape.op(
                *arguments, **attributes, results=results, predicate=guard, comments=comments,
                location=at,
            )  # fmt: skip
        except TileirError:
            return None
        if len(result.results) != len(results):
            return None
        if names is not None:
            for name, value in zip(names.split(", "), results, strict=True):
                if name != "_":
                    scope.values[name[1:]] = value
        return result

    def phi(
        self, match: re.Match[str], scope: ValueScope
    ) -> tuple[str, Value, dict[str, Operand]] | None:
        """Of a phi on the matched line whose values are all known: its name, its value (not yet
        defined), and the value for each predecessor; None to read it the other way."""
        _, names, mnemonic, type_text, operands, attributes, place, *_ = match.groups()
        if mnemonic != "phi" or match[1] or names is None or not operands or attributes or place:
            return None
        types = self.types(type_text)
        if types is None or len(types) != 1 or not names.startswith("%") or "," in names:
            return None
        incoming: dict[str, Operand] = {}
        for entry in operands[1:-1].split("], ["):
            text, _, label = entry.partition(", ")
            value = scope.values.get(text[1:]) if text[:1] == "%" else self.literal(text, types[0])
            if value is None or value.type is not types[0] or _LABEL.fullmatch(label) is None:
                return None
            incoming[label] = value
        if names[1:] in scope.values or len(incoming) != operands.count("["):
            return None
        return names[1:], Value(types[0], hint(names[1:])), incoming

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
        types, values = shape.types, scope.values
        if "," not in names:
            name = names[1:]
            if name in values or len(types) != 1:
                return None
            return (Value(types[0], hint(name) if name else None),)
        parts = names.split(", ")
        named = [p for p in parts if p != "_"]
        if len(parts) != len(types) or len(set(named)) != len(named):
            return None
        if any(p[1:] in values for p in named):
            return None
        return tuple([Value(t, hint(p[1:]) or None) for p, t in zip(parts, types, strict=True)])

    # Operands -------------------------------------------------------------------------------------

    def _arguments(
        self, shape: _LineShape, text: str | None, scope: ValueScope
    ) -> list[Any] | None:
        parts = [] if text is None else text.split(", ")
        if not shape.required <= len(parts) <= shape.most:
            return None
        if not shape.plain:
            return self._mixed_arguments(shape, parts, scope)
        values = self._values(shape, parts, scope)
        if values is not None and shape.stated_at >= 0:
            values.insert(shape.stated_at, shape.types[0])
        return values

    def _values(self, shape: _LineShape, parts: list[str], scope: ValueScope) -> list[Any] | None:
        """A value or literal per part."""
        values = scope.values
        result: list[Any] = []
        literals = False
        for part in parts:
            value = values.get(part[1:]) if part[:1] == "%" else None
            if value is None:
                literals = True
                result.append(part)
            elif value is POISON:
                return None
            else:
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
        named: dict[str, Any] = {}
        texts = parts
        for at, field in shape.names:
            if at >= len(parts):
                return None
            symbol = field.kind is FieldKind.SYMBOL
            if (_SYMBOL if symbol else _LABEL).fullmatch(parts[at]) is None:
                return None
            named[field.name] = parts[at][1:] if symbol else Successor(parts[at])
        if named:
            positions = [at for at, _ in shape.names]
            texts = [text for at, text in enumerate(parts) if at not in positions]
        if shape.slots and shape.slots[-1].kind is FieldKind.PAIRS and not _unbracket(texts):
            return None
        values = self._values(shape, texts, scope)
        return None if values is None else _constructor_arguments(shape, named, values)

    # Attributes, shapes ---------------------------------------------------------------------------

    def _attribute_values(self, shape: _LineShape, text: str | None) -> dict[str, Any] | None:
        if text is None:
            return None if shape.needed else _NOTHING
        key = (shape.op, text)
        if key not in self._attributes:
            self._attributes[key] = self._parsed_attributes(shape, text)
        return self._attributes[key]

    def _parsed_attributes(self, shape: _LineShape, text: str) -> dict[str, Any] | None:
        schema = attribute_schema(shape.op)
        try:
            result = read_dict(Cursor(text, self.file), schema, self.layouts, shape.op.mnemonic)
        except ParseError:
            return None
        if not result.keys() >= shape.needed:
            return None
        return {schema[name].name: value for name, value in result.items()}

    def _shape(self, mnemonic: str, type_text: str | None) -> _LineShape | None:
        if mnemonic == "phi":  # no op: `lookup` would load every family before it says so
            return None
        cls = lookup(mnemonic)
        types = self.types(type_text)
        if cls is None or types is None:
            return None
        fields = tuple(f for f in cls.schema if f.kind is not FieldKind.ATTRIBUTE)
        slots = tuple(f for f in fields if f.kind is not FieldKind.RESULT_TYPE)
        kinds = [f.kind for f in fields]
        stated_at = kinds.index(FieldKind.RESULT_TYPE) if FieldKind.RESULT_TYPE in kinds else -1
        alone = stated_at < 0 or fields[stated_at].pattern is not None
        if stated_at >= 0 and ((alone and not types) or FieldKind.OPTIONAL in kinds[:stated_at]):
            return None
        optional = kinds.count(FieldKind.OPTIONAL)
        several = sum(kind in SEVERAL for kind in kinds)
        singles = (FieldKind.OPERAND, FieldKind.OPTIONAL)
        needed = [f.spelling for f in cls.schema if f.default is attrs.NOTHING and f.attribute]
        return _LineShape(
            cls, types, fields, slots, stated_at,
            plain=alone and all(f.kind in singles for f in slots),
            required=len(slots) - optional - several,
            most=1 << 20 if several else len(slots),
            needed=frozenset(needed),
            names=tuple((i, f) for i, f in enumerate(slots) if f.kind not in OPERAND_KINDS),
        )  # fmt: skip

    def _read_types(self, text: str) -> tuple[Type, ...] | None:
        cursor = Cursor(text, self.file)
        try:
            types = read_types(cursor, self.layouts)
        except ParseError:
            return None
        return types if cursor.token.kind == "end" else None


def _literal_types(
    shape: _LineShape, operand_types: tuple[Type | None, ...]
) -> tuple[Type | None, ...]:
    operands = [f for f in shape.slots if f.kind in OPERAND_KINDS]
    last = len(operands) - 1
    places = [(operands[min(i, last)], max(0, i - last)) for i in range(len(operand_types))]
    types = LiteralTypes(shape.op, shape.types)
    for place, type_ in zip(places, operand_types, strict=True):
        if type_ is not None:
            types.learn(*place, type_)
    return tuple([types.of(*place) for place in places])


def _constructor_arguments(shape: _LineShape, named: dict[str, Any], items: list[Any]) -> list[Any]:
    arguments: list[Any] = []
    at = 0
    for field in shape.fields:
        if field.kind is FieldKind.RESULT_TYPE:
            arguments.append(shape.types if field.pattern is None else shape.types[0])
        elif field.name in named:
            arguments.append(named[field.name])
        elif field.kind in SEVERAL:
            arguments.append(tuple(items[at:]))
        else:
            arguments.append(items[at] if at < len(items) else None)
            at += 1
    return arguments


def _unbracket(texts: list[str]) -> bool:
    """Take the brackets off `[a`, `b]`, ...; whether they were all there."""
    for index, text in enumerate(texts):
        second = index % 2
        bracket, bare = (text[-1:], text[:-1]) if second else (text[:1], text[1:])
        if bracket != "[]"[second] or "[" in bare or "]" in bare:
            return False
        texts[index] = bare
    return len(texts) % 2 == 0


def _location(place: list[str | Any]) -> Location:
    return Location(place[0], int(place[1]), int(place[2]))
