"""Tokens of MLIR's text. Ends of lines are tokens, since Triton's printer ends statements there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from tileir import Location
from tileir.frontends.ttir.errors import error_at

_PATTERN = re.compile(
    r"""(?P<space>[ \t\r]+|//[^\n]*|(?<![^\n])\#[\w.$]+[ ]=[ ]loc\([^\n]*\))
      | (?P<end>\n)
      | (?P<location>loc\(\#[\w.$]+\))
      | (?P<type>(?:tensor<(?:\d+x)+(?:\w+|!tt\.ptr<\w+>)>|!tt\.ptr<\w+>)(?!\w))
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


@attrs.define(eq=False)
class Token:
    """A token: its kind, its characters, and its position. `location` is a whole `loc(#loc1)`, and
    `type` a whole type of a pointer or of a tile of scalars or pointers: most of them."""

    kind: str
    text: str
    line: int
    column: int


def tokens(text: str, file: str) -> Iterator[Token]:
    """The tokens of `text`, an `end` for each line, one of kind `eof` last; none for the entries of
    a table of locations. Raises CompilationError at a character that none begins with."""
    place, line, start = 0, 1, 0
    for match in _PATTERN.finditer(text):
        begin, end = match.span()
        if begin != place:
            break
        place, kind = end, match.lastgroup or ""
        if kind != "space":
            yield Token(kind, match[0], line, begin - start + 1)
        if kind == "end":
            line, start = line + 1, end
    if place < len(text):
        at = Location(file, line, place - start + 1)
        raise error_at(f"{text[place]!r} does not belong here", at)
    yield Token("eof", "", line, place - start + 1)
