"""Names inside one function, uses before definitions included."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from tileir.errors import Diagnostic, Location, ParseError
from tileir.textual.lexer import GAP, NAME, TYPE, Cursor, Token, suggestion
from tileir.textual.types import read_types
from tileir.types import VOID, Type
from tileir.values import Value

POISON: Final = Value(VOID, "poison")
"""The value of a name whose definition was in error. Errors of ops that read it are not
reported."""

_DEFINITION = (
    rf"^{GAP}*(?:@\S+{GAP}+)?((?:%{NAME}|_)(?:{GAP}*,{GAP}*(?:%{NAME}|_))*){GAP}*={GAP}*[\w.]+"
    rf"(?:{GAP}+({TYPE}))?"
)
"""The names that a line defines, and their types as most types are written."""
_NAMES = rf"%{NAME}|_"
_Definition: TypeAlias = tuple[re.Match[str], int]
"""The line that defines a name, and the name's index among those that it defines."""
_MOST_NAMES = 500
"""The maximum number of names among which a suggestion is searched."""


class ValueScope:
    """The values of one function by name. A name used before the line that defines it gets its
    value, of the type stated there, when it is first used."""

    def __init__(self, layouts: dict[str, object], text: str, start: int) -> None:
        self.layouts = layouts
        self.values: dict[str, Value] = {}
        self._places: dict[str, Location] = {}
        self._ahead: dict[str, Value] = {}
        self._text, self._start = text, start
        self._definitions_by_name: dict[str, _Definition] | None = None

    def value(self, cursor: Cursor, token: Token) -> Value:
        """The value `token` names. Raises TIR0005 where the function defines none."""
        name = token.text[1:]
        value = self.values.get(name)
        return value if value is not None else self._forward(cursor, token, name)

    def define(self, cursor: Cursor, name: str, token: Token, value: Value) -> None:
        """Give `name` its value. Raises TIR0006 where it has one."""
        if name in self.values and name not in self._ahead:
            first = self._places.get(name) or self._first_place(cursor, name)
            note = Diagnostic("TIR0006", f"%{name} is first defined here", first)
            cursor.fail("TIR0006", f"%{name} is defined twice", token, (note,))
        self._ahead.pop(name, None)
        self.values[name] = value
        self._places[name] = cursor.location(token)

    def result(self, cursor: Cursor, name: str | None, token: Token, type: Type) -> Value:
        """The value a definition of `name` makes: the one already used, where it was."""
        if name is None:
            return Value(type)
        ahead = self._ahead.get(name)
        value = ahead if ahead is not None and ahead.type is type else Value(type, hint(name))
        self.define(cursor, name, token, value)
        return value

    def forward_value(self, name: str, type: Type) -> Value | None:
        """The value of `type` that a definition of `name` would make (any, for an empty name);
        None where `name` is defined, or was used as a value of another type."""
        if name not in self.values:
            return Value(type, hint(name) or None)
        ahead = self._ahead.get(name)
        return ahead if ahead is not None and ahead.type is type else None

    def bind(self, name: str, value: Value) -> None:
        """Give `name`, which is not defined, its value."""
        self.values[name] = value
        if self._ahead:
            self._ahead.pop(name, None)

    def ahead(self, name: str, types: Callable[[str], tuple[Type, ...] | None]) -> Value | None:
        """The value of `name`, which a later line defines with types that `types` knows."""
        result = self._definition(name)
        if result is None:
            return None
        match, index = result
        stated = types(match[2] or "")
        if stated is None or index >= len(stated):
            return None
        value = self.values[name] = self._ahead[name] = Value(stated[index], hint(name))
        return value

    def _definition(self, name: str) -> _Definition | None:
        if self._definitions_by_name is None:
            self._definitions_by_name = _definitions(self._text, self._start)
        return self._definitions_by_name.get(name)

    def _first_place(self, cursor: Cursor, name: str) -> Location | None:
        result = self._definition(name)
        if result is None:
            return None
        match, index = result
        names = re.compile(_NAMES).finditer(self._text, match.start(1), match.end(1))
        start = next(islice(names, index, None)).start()
        line = self._text.count("\n", 0, start) + cursor.first_line
        column = start - self._text.rfind("\n", 0, start)
        return Location(cursor.file, line, column, written=False)

    def _forward(self, cursor: Cursor, token: Token, name: str) -> Value:
        result = self._definition(name)
        if result is None:
            names = list(islice(self.values, _MOST_NAMES))
            near = suggestion(token.text, [f"%{n}" for n in names])
            cursor.fail("TIR0005", f"{token.text} is not defined{near}", token)
        type_ = self._stated_type(cursor, result)
        value = POISON if type_ is None else Value(type_, hint(name))
        self.values[name] = self._ahead[name] = value
        return value

    def _stated_type(self, cursor: Cursor, definition: _Definition) -> Type | None:
        match, index = definition
        offset = match.end() if match[2] is None else match.start(2)
        try:
            types = read_types(Cursor(self._text, cursor.file, offset), self.layouts)
        except ParseError:
            return None
        return types[index] if index < len(types) else None


def hint(name: str) -> str | None:
    """The name a value keeps: the printer renumbers values."""
    return None if name.isdigit() else name


def _definitions(text: str, start: int) -> dict[str, _Definition]:
    """The line that first defines each name, up to the function's end."""
    end = text.find("\n}", start)
    definitions: dict[str, _Definition] = {}
    line = re.compile(_DEFINITION, re.MULTILINE)
    for match in line.finditer(text, start, len(text) if end < 0 else end):
        names = match[1]
        for index, name in enumerate(re.findall(_NAMES, names) if "," in names else (names,)):
            definitions.setdefault(name[1:], (match, index))
    return definitions
