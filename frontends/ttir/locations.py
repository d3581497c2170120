"""Places in the user's program: `loc(...)` and the table of `#loc` below the module."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileir import Location
from tileir.frontends.ttir.lexer import Token, string_value

_ENTRY = re.compile(r"^(#loc\w*) = loc\((.*)\)$", re.MULTILINE)
_PLACE = re.compile(r'("(?:[^"\\]|\\.)*"):(\d+):(\d+)')
_NAME = re.compile(r"#loc\w*")
_DEEP = 32
"""The longest chain of references between entries."""


class Locations:
    """The table of a text. An inlined op has the location of its definition, not that of the
    call."""

    def __init__(self, text: str) -> None:
        self._table = dict(_ENTRY.findall(text))
        self._cache: dict[str, Location | None] = {}

    def of(self, inside: Sequence[Token]) -> Location | None:
        """The place that the tokens in the parentheses of `loc(...)` name."""
        return self.resolve("".join(t.text for t in inside))

    def resolve(self, text: str) -> Location | None:
        """The place of `text`, without spaces, in the parentheses of `loc(...)`."""
        return self._lookup(text, _DEEP)

    def _lookup(self, text: str, depth: int) -> Location | None:
        if text not in self._cache:
            self._cache[text] = self._resolve(text, depth)
        return self._cache[text]

    def _resolve(self, text: str, depth: int) -> Location | None:
        stated = _PLACE.search(text) if '"' in text else None
        if stated:
            # MLIR counts columns from 1, Triton gives some as 0.
            return Location(string_value(stated[1]), int(stated[2]), max(int(stated[3]), 1))
        for name in _NAME.findall(text) if depth else ():
            location = self._lookup(self._table.get(name, ""), depth - 1)
            if location is not None:
                return location
        return None
