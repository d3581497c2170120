"""The preprocessor and the parser of programs."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import attrs

from tileir import Location
from tileir.frontends.extras import lark
from tileir.frontends.sources import check_text, grammar
from tileir.frontends.triton_c.errors import CompilationError, error_at

try:
    import pcpp
except ModuleNotFoundError as error:
    message = f"Triton-C needs {error.name}: pip install 'tileir[frontends]'"
    raise ModuleNotFoundError(message, name=error.name) from error


@attrs.frozen
class Text:
    """A preprocessed program: `lines` gives the file and line that each of its lines is from."""

    text: str
    lines: tuple[tuple[str, int], ...]

    def place(self, line: int, column: int) -> Location:
        """The location in the user's file of a line (from 1) and column of the preprocessed
        text."""
        if not self.lines:
            return Location("<string>", 1, 1)
        file, number = self.lines[min(line, len(self.lines)) - 1]
        return Location(file, number, column)


MOST_EXPANDED = 100_000
"""Characters that macros of a program may expand to, those of macros in macros counted again."""


class _ExpandedError(Exception):
    """Macros expand to more than is allowed."""


class _Preprocessor(pcpp.Preprocessor):
    """pcpp, which collects errors instead of printing them, with a limit on the expansion of
    macros."""

    def __init__(self) -> None:
        super().__init__()
        self._left, self._depth = MOST_EXPANDED, 0
        self._line: tuple[str, int] = "", 1
        self.problems: list[tuple[str, int, str]] = []
        self._directive = "", 1

    def define(self, tokens: Any) -> Any:
        """Define a macro: a list of tokens, or a text, which is never empty."""
        if tokens:
            return super().define(tokens)
        return self.on_error(*self._directive, "#define has no name")

    def expand_macros(self, tokens: Any, expanding_from: Any = []) -> Any:  # noqa: B006 - as pcpp
        """Expand the macros among `tokens`; inside of a macro, within what is left to expand to."""
        if self._depth:
            self._left -= sum(len(token.value) for token in tokens)
            if self._left < 0:
                raise _ExpandedError
        elif tokens:
            self._line = tokens[0].source, tokens[0].lineno
        self._depth += 1
        try:
            return super().expand_macros(tokens, expanding_from)
        finally:
            self._depth -= 1

    def on_directive_handle(
        self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any
    ) -> Any:
        """Record the location of the next directive."""
        self._directive = directive.source, directive.lineno
        return super().on_directive_handle(directive, toks, ifpassthru, precedingtoks)

    def on_directive_unknown(
        self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any
    ) -> Any:
        """Ignore `#pragma`, report the message of `#error`, and reject other directives."""
        name, text = directive.value, "".join(token.value for token in toks)
        if name not in ("pragma", "line"):
            message = f"#error {text}" if name == "error" else f"there is no #{name}"
            self.on_error(directive.source, directive.lineno, message)
        return True

    def on_error(self, file: str, line: int, msg: str) -> None:
        """Collect an error; one without a location gets that of the last directive."""
        file, line = (file, line) if line else self._directive
        self.problems.append((file, line, msg.strip()))

    def include(self, tokens: Any, original_line: Any) -> Any:
        """No file is read."""
        self.on_error(*self._directive, "#include is not supported")
        return ()

    def preprocess(self, source: str, file: str) -> str:
        """`source` after the execution of its directives."""
        out = io.StringIO()
        try:
            self.parse(source, file)
            self.write(out)
        except IndexError:  # pcpp's, of directives that end too early
            self.on_error(*self._directive, "something is missing in this directive")
        except _ExpandedError:
            message = f"macros expand to more than {MOST_EXPANDED} characters; write functions"
            self.problems.insert(0, (self._line[0], self._line[1], message))
        except RecursionError:
            message = "macros are nested too deeply"
            self.problems.insert(0, (self._line[0], self._line[1], message))
        return out.getvalue()


_BLANKS = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))
"""Characters that end a line for Python, and so for pcpp, but not in C."""


def preprocess(source: str, file: str, defines: Mapping[str, object]) -> Text:
    """`source` with `#define`, `#if` and the like carried out, after `defines`. Raises
    CompilationError."""
    check_text(source, file, "TIR1001", CompilationError)
    machine = _Preprocessor()
    for name, value in defines.items():
        machine.define(f"{name} {value}")
    result = machine.preprocess(source.translate(_BLANKS), file)
    if machine.problems:
        where, line, message = machine.problems[0]
        raise error_at(f"the preprocessor: {message}", Location(where or file, line, 1))
    return _strip_line_directives(result, file)


def _strip_line_directives(text: str, file: str) -> Text:
    """The text without `#line` directives, and the locations that they state."""
    text_lines: list[str] = []
    places: list[tuple[str, int]] = []
    name, number = file, 1
    for line in text.split("\n"):
        result = re.match(r'#line (\d+)(?: "(.*)")?', line)
        if result:
            number, name = int(result[1]), result[2] or name
            continue
        if not line.lstrip().startswith("#"):
            text_lines.append(line)
            places.append((name, number))
        number += 1
    return Text("\n".join(text_lines), tuple(places))


@cache
def _grammar() -> lark.Lark:
    return grammar(
        "tileir.frontends.triton_c",
        "OR", "AND", "BAR", "CARET", "AMPERSAND", "EQUALITY", "RELATION", "SHIFT", "SIGN",
        "SCALE STAR",
    )  # fmt: skip


def parse(text: Text) -> Any:
    """The tree of a program. Raises CompilationError at the first syntax error."""
    try:
        return _grammar().parse(text.text)
    except lark.UnexpectedToken as error:
        result = "the end" if error.token.type == "$END" else f"`{error.token}`"
        place = text.place(error.line, error.column)
        if error.token.type == "$END":
            place = text.place(len(text.text.rstrip().splitlines()) or 1, 1)
        raise error_at(f"{result} does not belong here", place) from None
    except lark.UnexpectedCharacters as error:
        place = text.place(error.line, error.column)
        raise error_at(f"`{error.char}` is not a token of the language", place) from None
