"""The text form of layouts.

layout  = "layout(" field { "," field } ")"
field   = "rank" "=" integer
        | axis "=" "[" [ vector { "," vector } ] "]"
        | "repeat" "=" "[" repeat { "," repeat } "]"
axis    = "register" | "lane" | "warp" | "block"
vector  = "[" integer { "," integer } "]"
repeat  = axis integer "@" ( integer | "none" )
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileir.errors import Diagnostic, ParseError
from tileir.layout import AXES, Layout, Repeat, Vector, layout

_TOKEN = re.compile(r"\s*([A-Za-z_]+|\d+|[=\[\](),@])")
_MOST_RANK, _MOST_BITS, _MOST_COUNT = 8, 24, 1 << 20


def parse_layout(text: str) -> Layout:
    """The layout that `text` describes; `parse_layout(str(x)) == x`.

    Raises `ParseError` (TIR0701) for anything that is no layout.
    """
    reader = _LayoutReader(text)
    result = reader.layout()
    reader.end()
    return result


class _LayoutReader:
    """A cursor over the tokens of one layout."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0

    def layout(self) -> Layout:
        self.expect("layout")
        self.expect("(")
        self.expect("rank")
        self.expect("=")
        rank = self.integer(_MOST_RANK)
        atoms: dict[str, tuple[Vector, ...]] = {}
        repeats: tuple[Repeat, ...] = ()
        while self.next("a field or )") == ",":
            name = self.next("a field")
            self.expect("=")
            if name in AXES and name not in atoms:
                atoms[name] = tuple(self.vectors(rank))
            elif name == "repeat" and not repeats:
                repeats = tuple(self.repeats(rank))
            else:
                raise _error(f"expected one of {', '.join(AXES)}, repeat, each once; found {name}")
        self.at -= 1
        self.expect(")")
        return layout(rank, *(atoms.get(axis, ()) for axis in AXES), repeats=repeats)

    def vectors(self, rank: int) -> Iterator[Vector]:
        for count in self.items():
            if count > _MOST_BITS:
                raise _error(f"more than {_MOST_BITS} bits in one axis")
            vector = tuple(self.integer(_MOST_COUNT) for _ in self.items())
            if len(vector) != rank:
                raise _error(f"expected {rank} coordinates, found {len(vector)}")
            yield vector

    def repeats(self, rank: int) -> Iterator[Repeat]:
        for _ in self.items():
            axis = self.next("an axis")
            count = self.integer(_MOST_COUNT)
            self.expect("@")
            word = self.next("a dimension")
            is_number = word.isdigit() and len(word) < 9
            dim = None if word == "none" else int(word) if is_number else rank
            if axis not in AXES or count < 1 or (dim is not None and dim >= rank):
                raise _error(f"no repetition: {axis} {count} @ {word}")
            yield Repeat(axis, count, dim)

    def items(self) -> Iterator[int]:
        """Positions of the items between brackets; the caller reads each."""
        self.expect("[")
        count = 0
        while self.peek() != "]":
            if count:
                self.expect(",")
            count += 1
            yield count
        self.expect("]")

    def integer(self, limit: int) -> int:
        word = self.next("an integer")
        if not word.isdigit() or len(word) > 9 or int(word) > limit:
            raise _error(f"expected an integer up to {limit}, found {word}")
        return int(word)

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else "the end"

    def next(self, expected: str) -> str:
        if self.at >= len(self.tokens):
            raise _error(f"expected {expected}, found the end")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, word: str) -> None:
        result = self.next(word)
        if result != word:
            raise _error(f"expected {word}, found {result}")

    def end(self) -> None:
        if self.at != len(self.tokens):
            raise _error(f"expected the end, found {self.tokens[self.at]}")


def _tokens(text: str) -> Iterator[str]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(f"unexpected character {text[at:].lstrip()[:1]!r}")
        yield match[1]
        at = match.end()


def _error(message: str) -> ParseError:
    return ParseError(Diagnostic("TIR0701", f"layout: {message}"))
