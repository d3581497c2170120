"""Texts that a lark grammar parses, and their errors with locations."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import attrs

from tileir import Location
from tileir.errors import BuildError, Diagnostic, TileirError
from tileir.frontends.extras import lark
from tileir.frontends.numerals import TOO_LONG, long_number
from tileir.limits import current, limit_diagnostic
from tileir.process import collector_paused


class CompilationError(BuildError):
    """The program is invalid or uses an unsupported feature, at a line of its source."""


class Wrong(Exception):  # noqa: N818 - never seen outside
    """An error in a part of a program, before its location is known."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@attrs.frozen
class Source:
    """A text, the name of its file, and the code of errors of its syntax."""

    text: str
    file: str
    syntax: str

    def place(self, node: Any) -> Location:
        """The location of a tree or token."""
        meta = getattr(node, "meta", node)
        line, column = getattr(meta, "line", None), getattr(meta, "column", None)
        return Location(self.file, line or 1, column or 1)

    @contextmanager
    def at(self, node: Any) -> Generator[None, None, None]:
        """Add the location of `node` to errors of the body that have none."""
        try:
            yield
        except CompilationError:
            raise
        except Wrong as wrong:
            diagnostic = Diagnostic(wrong.code, wrong.message, self.place(node))
            raise CompilationError(diagnostic) from None
        except TileirError as error:
            place = self.place(node)
            diagnostics = (
                Diagnostic(d.code, d.message, place, d.severity) for d in error.diagnostics
            )
            raise CompilationError(*diagnostics) from None
        except RecursionError:
            diagnostic = Diagnostic(self.syntax, "nested too deeply", self.place(node))
            raise CompilationError(diagnostic) from None


def truncating_quotient(x: int, y: int) -> int:
    """The quotient of integers, rounded toward zero as in C."""
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def grammar(package: str, *levels: str) -> lark.Lark:
    """The grammar of a frontend's package. Its rule `operation` has operands with binary operators
    between them; `levels` has the terminals of the operators of each precedence, the lowest first.
    """
    text = files(package).joinpath("grammar.lark").read_text()
    return lark.Lark(
        text, parser="lalr", propagate_positions=True, maybe_placeholders=True,
        transformer=_BinaryOperators(levels),
    )  # fmt: skip


class _BinaryOperators:
    """Trees of binary operators, which associate to the left. A rule for each precedence would
    reduce every operand once for each of them."""

    def __init__(self, levels: tuple[str, ...]) -> None:
        self._level = {name: n for n, names in enumerate(levels) for name in names.split()}

    def operation(self, parts: list[Any]) -> Any:
        """`a + b * c` as `binary` trees of an operand, an operator and an operand."""
        operands, operators = parts[:1], list[Any]()
        for operator, operand in zip(parts[1::2], parts[2::2], strict=True):
            while operators and self._level[operators[-1].type] >= self._level[operator.type]:
                _combine(operands, operators)
            operators.append(operator)
            operands.append(operand)
        while operators:
            _combine(operands, operators)
        return operands[0]


def _combine(operands: list[Any], operators: list[Any]) -> None:
    """Combine the last two operands and the last operator into one operand, at the location of the
    first."""
    right, left = operands.pop(), operands.pop()
    tree = lark.Tree("binary", [left, operators.pop(), right])
    begin = getattr(left, "meta", left)
    for name in ("line", "column", "start_pos"):
        setattr(tree.meta, name, getattr(begin, f"container_{name}", getattr(begin, name)))
    tree.meta.empty = False
    operands.append(tree)


def check_text(text: str, file: str, syntax: str, kind: type[TileirError]) -> None:
    """Raises `kind` for a text with more characters than the limit (TIR1601), and for a number with
    too many digits (the code `syntax`)."""
    most = current().source_characters
    if len(text) > most:
        place = Location(file, text.count("\n", 0, most) + 1, most - text.rfind("\n", 0, most))
        what = f"the program has {len(text):,} characters"
        raise kind(limit_diagnostic("source_characters", what, place))
    number = long_number(text)
    if number is not None:
        raise kind(Diagnostic(syntax, TOO_LONG, Location(file, *number)))


@collector_paused()
def parse(source: Source, by: lark.Lark) -> Any:
    """The tree of a program. Raises CompilationError at the first syntax error."""
    check_text(source.text, source.file, source.syntax, CompilationError)
    try:
        return by.parse(source.text)
    except lark.UnexpectedToken as error:
        ended = error.token.type == "$END"
        result = "the end" if ended else f"`{error.token}`"
        lines = source.text.split("\n")
        place = Location(source.file, len(lines), len(lines[-1]) + 1)
        if not ended:
            place = Location(source.file, error.line, error.column)
        message = f"{result} does not belong here"
        raise CompilationError(Diagnostic(source.syntax, message, place)) from None
    except lark.UnexpectedCharacters as error:
        place = Location(source.file, error.line, error.column)
        message = f"`{error.char}` is nothing in this language"
        raise CompilationError(Diagnostic(source.syntax, message, place)) from None
    except RecursionError:
        place = Location(source.file, 1, 1)
        raise CompilationError(Diagnostic(source.syntax, "nested too deeply", place)) from None
