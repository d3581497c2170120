"""Tokens of MLIR's text. Ends of lines are tokens, since Triton's printer ends statements there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from tileir import Location
from tileir.frontends.ttir.errors import error_at

_PATTERN = re.compile(
    r"""(?P<space>[ \t\r]+|//[^\n]*)
      | (?P<end>\n)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<value>%[-\w.$]+(?:\#\d+)?)
      | (?P<symbol>@(?:[\w.$]+|"(?:[^"\\\n]|\\.)*"))
      | (?P<block>\^[-\w.$]+)
      | (?P<hash>\#[\w.$]+)
      | (?P<kind>![\w.$]+)
      | (?P<arrow>->)
      | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?))
      | (?P<word>[A-Za-z_][\w.$]*)
      | (?P<mark>[-=:,(){}<>\[\]*?+/|])""",
    re.VERBOSE,
)


@attrs.frozen
class Token:
    """A token: its kind, its characters, and its position."""

    kind: str
    text: str
    line: int
    column: int


def tokens(text: str, file: str) -> Iterator[Token]:
    """The tokens of `text`, an `end` for each line, one of kind `eof` last. Raises
    CompilationError at a character that none begins with."""
    place, line, start = 0, 1, 0
    while place < len(text):
        result = _PATTERN.match(text, place)
        if result is None:
            at = Location(file, line, place - start + 1)
            raise error_at(f"{text[place]!r} does not belong here", at)
        kind = result.lastgroup or ""
        if kind != "space":
            yield Token(kind, result[0], line, place - start + 1)
        place = result.end()
        if kind == "end":
            line, start = line + 1, place
    yield Token("eof", "", line, place - start + 1)
