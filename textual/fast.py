"""The common shape of an op's line, read by one expression.

Reads what the printer writes for an op of values and literals, and nothing else: whatever is
unusual or wrong about a line is left to `tileir.textual.statements`, which reads the same grammar.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from tileir.errors import Location, ParseError, TileirError
from tileir.field import FieldKind
from tileir.op import Op, lookup
from tileir.textual.attributes import read_dict
from tileir.textual.lexer import NAME, Cursor, Token
from tileir.textual.literals import LiteralTypes, read_literal
from tileir.textual.scope import POISON, Scope, hint
from tileir.textual.statements import attribute_schema
from tileir.textual.types import read_types
from tileir.types import Type
from tileir.values import Operand, Value

LINE = re.compile(
    rf"  (?:((?:%{NAME}|_)(?:, (?:%{NAME}|_))*) = )?([a-z][\w.]*)"
    r"(?: ([a-z(][^%{}\n;\"@#]*?))?(?: (%[^{}\n;\"@\[\]#]*?))?(?: (\{[^{};\n\"#]*\}))?\n"
)
_LITERAL = re.compile(
    r"-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf|nan)|true|false|null|undef"
)
_NOTHING: dict[str, Any] = {}


@attrs.frozen(slots=True)
class _Shape:
    """What is known of a line from its mnemonic and type alone."""

    op: type[Op]
    types: tuple[Type, ...]
    stated_at: int
    """Where the constructor takes the stated type; -1 where it takes none."""
    required: int
    most: int
    needed: frozenset[str]
    """Attributes without default."""


class FastReader:
    """Reads lines of one module; remembers shapes and attributes by their text."""

    def __init__(self, file: str, layouts: dict[str, object]) -> None:
        self.file, self.layouts = file, layouts
        self._shapes: dict[tuple[str, str | None], _Shape | None] = {}
        self._attributes: dict[tuple[type[Op], str], dict[str, Any] | None] = {}

    def read(
        self, match: re.Match[str], scope: Scope, line: int, comments: tuple[str, ...]
    ) -> Op | None:
        """The op on the matched line, its results defined; None to read it the other way."""
        names, mnemonic, type_text, operands, attribute_text = match.groups()
        key = (mnemonic, type_text)
        try:
            shape = self._shapes[key]
        except KeyError:
            shape = self._shapes[key] = self._shape(*key)
        if shape is None:
            return None
        arguments = self._operands(shape, operands, scope)
        attributes = self._attribute_values(shape, attribute_text)
        if arguments is None or attributes is None:
            return None
        results = self._results(shape, names, scope)
        if results is None:
            return None
        if shape.stated_at >= 0:
            arguments.insert(shape.stated_at, shape.types[0])
        try:
            made = shape.op(
                *arguments, **attributes, results=results, comments=comments,
                location=Location(self.file, line, 3, False),
            )  # fmt: skip
        except TileirError:
            return None
        if len(made.results) != len(results):
            return None
        if names is not None:
            for name, value in zip(names.split(", "), results, strict=True):
                if name != "_":
                    scope.values[name[1:]] = value
        return made

    def _results(self, shape: _Shape, names: str | None, scope: Scope) -> tuple[Value, ...] | None:
        if names is None:
            return None if shape.types else ()
        types, values = shape.types, scope.values
        if "," not in names:
            name = names[1:]
            if name in values or len(types) != 1:
                return None
            return (Value(types[0], hint(name) if name else None),)
        parts = names.split(", ")
        known = [p for p in parts if p != "_"]
        if len(parts) != len(types) or len(set(known)) != len(known):
            return None
        if any(p[1:] in values for p in known):
            return None
        return tuple([Value(t, hint(p[1:]) or None) for p, t in zip(parts, types, strict=True)])

    def _operands(self, shape: _Shape, text: str | None, scope: Scope) -> list[Any] | None:
        if text is None:
            return [] if shape.required == 0 else None
        values = scope.values
        found: list[Any] = []
        literals = False
        for part in text.split(", "):
            value = values.get(part[1:]) if part[:1] == "%" else None
            if value is None:
                literals = True
                found.append(part)
            elif value is POISON:
                return None
            else:
                found.append(value)
        if not shape.required <= len(found) <= shape.most:
            return None
        return self._with_literals(shape, found) if literals else found

    def _with_literals(self, shape: _Shape, found: list[Any]) -> list[Any] | None:
        fields = [f for f in shape.op.schema if f.kind in (FieldKind.OPERAND, FieldKind.OPTIONAL)]
        types = LiteralTypes(shape.op, shape.types)
        for field, item in zip(fields, found, strict=False):
            if type(item) is Value:
                types.learn(field, 0, item.type)
        for index, item in enumerate(found):
            if type(item) is str:
                literal = self._literal(item, types.of(fields[index], 0))
                if literal is None:
                    return None
                found[index] = literal
        return found

    def _literal(self, text: str, type_: Type | None) -> Operand | None:
        if type_ is None or _LITERAL.fullmatch(text) is None:
            return None
        kind = "word" if text[:1].isalpha() and text not in ("inf", "nan") else "number"
        try:
            return read_literal(Cursor("", self.file), Token(kind, text, 0), type_)
        except ParseError:
            return None

    def _attribute_values(self, shape: _Shape, text: str | None) -> dict[str, Any] | None:
        if text is None:
            return None if shape.needed else _NOTHING
        key = (shape.op, text)
        if key not in self._attributes:
            self._attributes[key] = self._parsed_attributes(shape, text)
        return self._attributes[key]

    def _parsed_attributes(self, shape: _Shape, text: str) -> dict[str, Any] | None:
        schema = attribute_schema(shape.op)
        try:
            found = read_dict(Cursor(text, self.file), schema, self.layouts, shape.op.mnemonic)
        except ParseError:
            return None
        if not found.keys() >= shape.needed:
            return None
        return {schema[name].name: value for name, value in found.items()}

    def _shape(self, mnemonic: str, type_text: str | None) -> _Shape | None:
        cls = lookup(mnemonic)
        if cls is None:
            return None
        fields = [f for f in cls.schema if f.kind is not FieldKind.ATTRIBUTE]
        kinds = [f.kind for f in fields]
        simple = {FieldKind.OPERAND, FieldKind.OPTIONAL, FieldKind.RESULT_TYPE}
        if not simple.issuperset(kinds) or any(f.pattern is None for f in fields):
            return None
        types = self._types(type_text)
        stated_at = kinds.index(FieldKind.RESULT_TYPE) if FieldKind.RESULT_TYPE in kinds else -1
        if types is None or (
            stated_at >= 0 and (not types or FieldKind.OPTIONAL in kinds[:stated_at])
        ):
            return None
        required = kinds.count(FieldKind.OPERAND)
        needed = [f.spelling for f in cls.schema if f.default is attrs.NOTHING and f.attribute]
        most = required + kinds.count(FieldKind.OPTIONAL)
        return _Shape(cls, types, stated_at, required, most, frozenset(needed))

    def _types(self, text: str | None) -> tuple[Type, ...] | None:
        if text is None:
            return ()
        cursor = Cursor(text, self.file)
        try:
            types = read_types(cursor, self.layouts)
        except ParseError:
            return None
        return types if cursor.token.kind == "end" else None
