"""Characters to tokens: a cursor over the text of a module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, NoReturn

from tileir.errors import Diagnostic, Location, ParseError

NAME = r"[A-Za-z0-9_.$-]+"
STRING = r'"(?:[^"\\\n]|\\.)*"'
GAP = r"[ \t\r]"
_INNER = r"[\w*, #.()]*"
TYPE = rf"\([\w*, <>#.]*\)|[a-z]\w*\**(?:<{_INNER}(?:<{_INNER}>{_INNER})*>)?"
"""The pattern of most types: with aliases of layouts, without layouts written out."""
_TOKEN = re.compile(
    r"[ \t\r]*(?:"
    r"(?P<newline>\n)"
    r"|(?P<comment>;[^\n]*)"
    rf"|(?P<value>%{NAME})"
    rf"|(?P<symbol>@(?!(?:true|false|undef)(?![\w.$-]))(?:[A-Za-z_.$][\w.$-]*|{STRING}))"
    r"|(?P<alias>\#[A-Za-z_][\w.]*)"
    r"|(?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf\b|nan\b))"
    r"|(?P<word>[A-Za-z_][\w.$-]*)"
    rf"|(?P<string>{STRING})"
    r"|(?P<mark>[(){}\[\]<>=,:*@])"
    r"|(?P<end>\Z)"
    r"|(?P<wrong>.))"
)


_NEWLINES = re.compile(rf"(?:\n{GAP}*)+")


class ErrorLimitError(ParseError):
    """Ends the reading of a text that has `MAX_ERRORS` errors."""


class Token(NamedTuple):
    """One token: its kind (a group of the lexer's expression), text and offset."""

    kind: str
    text: str
    start: int


_new_token = partial(tuple.__new__, Token)


class Cursor:
    """A position in the text with one token of look-ahead. Newlines are tokens; comments are
    collected for the next item."""

    def __init__(self, text: str, file: str, start: int = 0, line: int = 1) -> None:
        self.text, self.file, self.first_line = text, file, line
        self._line, self._line_start = line, start
        self.comments: list[str] = []
        self._at = start
        self.token = self._scan()

    def seek(self, offset: int, line: int, comments: Sequence[str] = ()) -> None:
        """Continue at `offset`, the start of line number `line`."""
        self._at, self._line, self._line_start = offset, line, offset
        self.comments = list(comments)
        self.token = self._scan()

    def _scan(self) -> Token:
        while True:
            match = _TOKEN.match(self.text, self._at)
            assert match is not None
            kind, group = match.lastgroup, match.lastindex
            assert kind is not None and group is not None
            start, self._at = match.span(group)
            if kind == "comment":
                self.comments.append(comment_text(match[group][1:]))
                continue
            return _new_token((kind, match[group], start))

    def next(self) -> Token:
        """Take the current token."""
        token = self.token
        if token.kind == "newline":
            self._line += 1
            self._line_start = self._at
        if token.kind != "end":
            self.token = self._scan()
        return token

    def skip_newlines(self) -> None:
        while self.token.kind == "newline":
            match = _NEWLINES.match(self.text, self.token.start)
            assert match is not None
            self.skip_past(match.end())

    def skip_line(self) -> None:
        """Go to the end of the current line, past whatever stands there."""
        if self.token.kind not in ("newline", "end"):
            self._at = self._line_end()
            self.token = self._scan()

    def skip_to(self, pattern: re.Pattern[str]) -> None:
        """Go to the next line that begins with `pattern`, which matches at the start of
        lines, or to the end. What is passed is not read."""
        result = pattern.search(self.text, self.token.start)
        offset = len(self.text) if result is None else result.start()
        line = self._line + self.text.count("\n", self.token.start, offset)
        self.seek(offset, line)

    def line_start(self) -> tuple[int, int]:
        """Offset and number of the current line, or of the next line if this one has been read."""
        if self.token.kind == "newline":
            return self.token.start + 1, self._line + 1
        return self._line_start, self._line

    def skip_past(self, offset: int) -> None:
        """Go on at `offset`. There must be no comment before it."""
        lines = self.text.count("\n", self.token.start, offset)
        if lines:
            self._line_start = self.text.rfind("\n", 0, offset) + 1
        self._at, self._line = offset, self._line + lines
        self.token = self._scan()

    def rest_of_line(self) -> str:
        """The line's text from the current token on."""
        return self.text[self.token.start : self._line_end()]

    def _line_end(self) -> int:
        end = self.text.find("\n", self.token.start)
        return len(self.text) if end < 0 else end

    def take_comments(self) -> tuple[str, ...]:
        """The comments since they were last taken."""
        comments, self.comments = tuple(self.comments), []
        return comments

    def location(self, token: Token | None = None) -> Location:
        """The location of `token` (the current one), which may be on an earlier line."""
        start = (token or self.token).start
        line, line_start = self._line, self._line_start
        if start < line_start:  # a newline within brackets or braces was read since
            line -= self.text.count("\n", start, line_start)
            line_start = self.text.rfind("\n", 0, start) + 1
        return Location(self.file, line, start - line_start + 1, written=False)

    def at(self, text: str) -> bool:
        """Whether the current token is the mark or word `text`."""
        kind, written, _ = self.token
        return written == text and kind in ("mark", "word")

    def accept(self, text: str) -> bool:
        """Take the mark or word `text` if it comes next."""
        kind, written, _ = self.token
        if written != text or kind not in ("mark", "word"):
            return False
        self.token = self._scan()
        return True

    def expect(self, text: str, after: str) -> Token:
        """Take the mark `text`, which must come after `after`."""
        if not self.at(text):
            self.fail_expected(f"`{text}` after {after}")
        return self.next()

    def take(self, kind: str, expected: str) -> Token:
        """Take a token of `kind`, called `expected` in the error."""
        if self.token.kind != kind:
            self.fail_expected(expected)
        return self.next()

    def fail_expected(self, expected: str) -> NoReturn:
        """Raise: `expected` should stand where the current token does."""
        if self.token.text == '"':
            self.fail("TIR0016", 'the string is not closed: expected `"` on its line')
        self.fail("TIR0001", f"expected {expected}, found {describe(self.token)}")

    def fail(
        self,
        code: str,
        message: str,
        token: Token | None = None,
        notes: tuple[Diagnostic, ...] = (),
    ) -> NoReturn:
        """Raise a ParseError at `token` (the current one)."""
        where = token or self.token
        length = max(1, len(where.text.rstrip("\n")))
        at = self.location(where)
        raise ParseError(Diagnostic(code, message, at, notes=notes, length=length))


def comment_text(written: str) -> str:
    """A comment, from what stands after its `;`."""
    return written.removeprefix(" ").rstrip()


def describe(token: Token) -> str:
    """A token as an error message names it."""
    if token.kind == "newline":
        return "the end of the line"
    if token.kind == "end":
        return "the end of the text"
    if token.kind == "wrong" and not token.text.isprintable():
        return f"the character U+{ord(token.text):04X}"
    shown = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return f"`{shown}`"


def suggestion(word: str, words: Sequence[str]) -> str:
    """`; did you mean ...?` where a known word is near, else nothing."""
    from difflib import get_close_matches  # for errors

    near = get_close_matches(word[:60], words, n=1)
    return f"; did you mean `{near[0]}`?" if near else ""
