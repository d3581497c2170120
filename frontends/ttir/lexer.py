"""Tokens of MLIR's text. Ends of lines are tokens, since Triton's printer ends statements there.

A statement in the usual form, which most lines have, is one token: `StatementLine`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import attrs

from tileir import Location
from tileir.frontends.ttir.errors import error_at

_NAME, _VALUE = r"[A-Za-z_]\w*", r"%[-\w.$]+(?:\#\d+)?"
_NUMBER = r"-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?)"
_TYPE = r"(?:(?:tensor<(?:\d+x)++(?:\w++|!tt\.ptr<\w+>)>|!tt\.ptr<\w+>)(?!\w)|[a-z]\w*(?![\w.$<]))"
_OPTION, _ATTRIBUTE = rf"{_NAME}[ ]=[ ]{_NAME}(?![\w.$<])", r"[\w.]+[ ]=[ ]-?\d+[ ]:[ ]i32"
_OTHER_WORDS = r"(?:attributes|dense|do|else|loc|to)\b"
"""Words with a special meaning between the name of an op and the types."""

_STATEMENT = rf"""(?P<statement>(?<![^\n])[ ]*
      (?:(?P<result>%[-\w.$]+)[ ]=[ ])? (?P<name>(?!tt\.func\b){_NAME}\.[\w.]+)
      (?P<head>(?:[ ](?:{_VALUE}|(?!{_OTHER_WORDS}){_NAME}(?![\w.$<(]|[ ]=)
                   |dense<{_NUMBER}>|overflow<\w+>|{_NUMBER}(?![\w.])),?)*)
      (?P<options>(?:,?[ ]{_OPTION})*)
      (?:[ ]\{{(?P<attributes>{_ATTRIBUTE}(?:,[ ]{_ATTRIBUTE})*)\}})?
      (?:[ ]:[ ](?P<types>{_TYPE}(?:,[ ]{_TYPE})*(?:[ ](?:->|to)[ ]{_TYPE})?))?
      (?:[ ]loc\((?P<place>\#[\w.$]+|"[^"\\\n]*":\d+:\d+)\))? \n)
      | """
"""`%a = name HEAD word = word {name = number : i32} : types -> type loc(#loc1)`, a whole line with
its end."""

_TOKEN = rf"""(?P<space>[ \t\r]+|//[^\n]*)
      | (?P<end>\n)
      | (?P<table>(?:(?<![^\n])\#[\w.$]+[ ]=[ ]loc\([^\n]*\)(?:\n|\Z))+)
      | (?P<location>loc\(\#[\w.$]+\))
      | (?P<type>(?:tensor<(?:\d+x)++(?:\w++|!tt\.ptr<\w+>)>|!tt\.ptr<\w+>)(?!\w))
      | (?P<string>"(?:[^"\\\n]++|\\.)*+")
      | (?P<value>{_VALUE})
      | (?P<symbol>@(?:[\w.$]+|"(?:[^"\\\n]++|\\.)*+"))
      | (?P<block>\^[-\w.$]+)
      | (?P<hash>\#[\w.$]+)
      | (?P<kind>![\w.$]+)
      | (?P<arrow>->)
      | (?P<number>{_NUMBER})
      | (?P<word>[A-Za-z_][\w.$]*)
      | (?P<mark>[-=:,(){{}}<>\[\]*?+/|])"""

_TOKENS, _LINES = re.compile(_TOKEN, re.VERBOSE), re.compile(_STATEMENT + _TOKEN, re.VERBOSE)
_PARTS = itemgetter(
    *[
        _LINES.groupindex[part] - 1
        for part in ("result", "name", "head", "options", "attributes", "types", "place")
    ]
)
_NAME_OF_OP = _LINES.groupindex["name"]
_HEAD = re.compile(rf"({_VALUE})|({_NAME})|({_NUMBER})")


@attrs.define(eq=False)
class Token:
    """A token: its kind, its characters, and its position. `location` is a whole `loc(#loc1)`, and
    `type` a whole type of a pointer or of a tile of scalars or pointers: most of them."""

    kind: str
    text: str
    line: int
    column: int


def string_value(text: str) -> str:
    """The text of a string in quotes. MLIR writes characters that cannot be printed as their bytes,
    in two hexadecimal digits each."""
    named = {b"n": b"\n", b"t": b"\t"}

    def character(match: re.Match[bytes]) -> bytes:
        name, digits = match.groups()
        return bytes.fromhex(digits.decode()) if digits else named.get(name, name)

    return _ESCAPE.sub(character, text[1:-1].encode()).decode(errors="replace")


_ESCAPE = re.compile(rb'\\(?:(["\\nt])|([0-9A-Fa-f]{2}))')


@attrs.define(eq=False)
class StatementLine(Token):
    """A token of kind `statement`: a whole line in the usual form, with its parts as text. The
    column is that of `name`, the name of the op; parts that are missing are ''."""

    result: str
    name: str
    head: str
    options: str
    attributes: str
    types: str
    place: str

    def head_tokens(self) -> list[Token]:
        """The values, words and numbers between the name and the types."""
        line, column = self.line, self.column
        return [
            Token("value" if value else "word" if word else "number", value or word or number,
                  line, column)
            for value, word, number in _HEAD.findall(self.head)
        ]  # fmt: skip

    def settings(self) -> dict[str, Any]:
        """The options `word = word`, then the integers in braces."""
        words = self.options.replace(",", "").split()
        settings: dict[str, Any] = {
            name: _BOOLEANS.get(word, word)
            for name, word in zip(words[::3], words[2::3], strict=True)
        }
        for attribute in self.attributes.split(", ") if self.attributes else ():
            name, _, number, *_ = attribute.split(" ")
            settings[name] = int(number)
        return settings


_BOOLEANS: dict[str, Any] = {"true": True, "false": False}


def tokens(text: str, file: str, lines: bool = False) -> Iterator[Token]:
    """The tokens of `text`, an `end` for each line, one of kind `eof` last; none for the entries of
    a table of locations. With `lines`, statements in the usual form are a `StatementLine` each.
    Raises CompilationError at a character that none begins with."""
    place, line, start = 0, 1, 0
    for match in (_LINES if lines else _TOKENS).finditer(text):
        begin, end = match.span()
        if begin != place:
            break
        place, kind = end, match.lastgroup or ""
        if kind == "statement":
            column = match.start(_NAME_OF_OP) - start + 1
            yield StatementLine(kind, match[0], line, column, *_PARTS(match.groups("")))
            line, start = line + 1, end
        elif kind == "table":
            line, start = line + match[0].count("\n"), end
        elif kind != "space":
            yield Token(kind, match[0], line, begin - start + 1)
            if kind == "end":
                line, start = line + 1, end
    if place < len(text):
        at = Location(file, line, place - start + 1)
        raise error_at(f"{text[place]!r} does not belong here", at)
    yield Token("eof", "", line, place - start + 1)
