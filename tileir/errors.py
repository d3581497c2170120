"""Diagnostics: what went wrong, where, and the one exception family that carries it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum

import attrs

_CONTROLS = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""What a terminal acts upon instead of showing it: control characters but the end of a line,
directions of text, line separators, halves of surrogate pairs."""


MAX_ERRORS = 100
"""Most errors of one text or module that are reported."""
MAX_MESSAGE = 4000
"""Most characters of a message: what a program contains, and so what is quoted, may be long."""
_MAX_FILE = 1000
_LONGEST = 300
"""Characters of a message that the `repr` of its diagnostic shows."""


def escape(text: str) -> str:
    """`text` with control characters as Python's escapes, so that a terminal shows them all."""
    if text.isascii() and text.isprintable():
        return text
    import re  # few texts have such characters

    return re.sub(_CONTROLS, lambda match: match[0].encode("unicode_escape").decode(), text)


def is_text(value: object) -> bool:
    """Whether `value` is a string that a file can hold: one without halves of surrogate pairs."""
    if not isinstance(value, str) or value.isascii():
        return isinstance(value, str)
    import re  # few texts have such characters

    return not re.search("[\ud800-\udfff]", value)


def shorten(text: str, most: int) -> str:
    """`text`, or its two ends where it has more than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... {len(text) - 2 * half} more characters ... {text[-half:]}"


def _message(text: str) -> str:
    return escape(shorten(text, MAX_MESSAGE))


class Severity(Enum):
    """How bad a diagnostic is; only `ERROR` stops a tool."""

    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@attrs.frozen(weakref_slot=False)
class Location:
    """A place in a file: 1-based line and column.

    `written` tells a location that the text states (`loc("f.py":3:7)`), which is printed,
    from one the reader derived from where the op stood in the `.tir` file, which is not.
    """

    file: str
    line: int
    column: int
    written: bool = True

    def __str__(self) -> str:
        file = escape(shorten(self.file, _MAX_FILE))
        return f"{file}:{self.line}:{self.column}"

    def __repr__(self) -> str:
        return f"<{self}>"


@attrs.frozen
class Diagnostic:
    """One finding: code (`TIR0101`), message, place, and notes pointing at related places.

    `operand` is the index of the offending operand, field name, or None; the reader maps it
    into a column. `length` is the number of characters to underline. Control characters of the
    message are escaped, wherever its parts come from; of more than `MAX_MESSAGE` characters both
    ends are kept.
    """

    code: str
    message: str = attrs.field(converter=_message)
    location: Location | None = None
    severity: Severity = Severity.ERROR
    notes: tuple[Diagnostic, ...] = ()
    length: int = 1
    operand: str | int | None = None

    def at(self, location: Location | None) -> Diagnostic:
        """The same finding at `location`, unless it already has a place."""
        return self if self.location or location is None else attrs.evolve(self, location=location)

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        head = f"{place}{self.severity.value}[{self.code}]: {self.message}"
        return "\n".join((head, *(f"  {note}" for note in self.notes)))

    def __repr__(self) -> str:
        return f"<{self.severity.value} {self.code}: {shorten(self.message, _LONGEST)}>"


class TileirError(Exception):
    """Base of every error tileir raises on bad input; holds all diagnostics of the run."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    @property
    def code(self) -> str:
        """Code of the first diagnostic, e.g. `TIR0101`."""
        return self.diagnostics[0].code

    @property
    def location(self) -> Location | None:
        """Place of the first diagnostic."""
        return self.diagnostics[0].location

    @property
    def line(self) -> int | None:
        """1-based line of the first diagnostic, or None where it has no place."""
        return self.location.line if self.location else None

    @property
    def column(self) -> int | None:
        """1-based column of the first diagnostic, or None where it has no place."""
        return self.location.column if self.location else None

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))

    def __reduce__(self) -> tuple[type[TileirError], tuple[Diagnostic, ...]]:
        return type(self), self.diagnostics


class ParseError(TileirError):
    """Text or bytes that are no tileir module."""


class VerifyError(TileirError):
    """A module, function or op that breaks a rule of the IR."""


class LinkError(TileirError):
    """Modules that cannot be joined."""


class InterpretError(TileirError):
    """A program that has no meaning on the given arguments (out of bounds, undef use, race)."""


class PassError(TileirError):
    """An unknown pass, a bad option, or a pass that cannot do what it was asked for."""


class BuildError(TileirError):
    """Misuse of the builder, placed at the caller's line."""


class CompileError(TileirError):
    """A module the backend cannot lower for the requested target."""


class InfeasibleError(CompileError):
    """A configuration that needs more than the target has: other tiles or options may do."""


class UnsupportedError(CompileError):
    """What the target has no way to run, whatever the configuration."""


class DefectError(CompileError):
    """A defect of the compiler, not of what it was given."""


class LaunchError(TileirError):
    """Arguments, grid or device that do not fit a compiled kernel."""


class ToolError(TileirError):
    """A command line or file a tool cannot act on."""


def verify_error(
    code: str,
    message: str,
    location: Location | None = None,
    *,
    operand: str | int | None = None,
    notes: tuple[Diagnostic, ...] = (),
) -> VerifyError:
    """A `VerifyError` of one diagnostic."""
    return VerifyError(Diagnostic(code, message, location, notes=notes, operand=operand))


_KINDS: dict[str, type[CompileError]] = {
    "TIR0702": UnsupportedError, "TIR0706": UnsupportedError, "TIR0708": InfeasibleError,
    "TIR0718": UnsupportedError, "TIR0720": DefectError, "TIR1601": InfeasibleError,
    "TIR0703": DefectError, "TIR0705": DefectError, "TIR0709": DefectError,
}  # fmt: skip
"""Errors of compiling about which the code says all that a tuner or another compiler has to know;
any other code is about the module or the machine compiled on."""


@contextmanager
def classify_errors() -> Generator[None, None, None]:
    """Errors of the type that their code stands for; what is no `TileirError` is a defect
    (TIR0714)."""
    try:
        yield
    except CompileError as error:
        kind = _KINDS.get(error.code)
        if kind is None or isinstance(error, kind):
            raise
        raise kind(*error.diagnostics) from error
    except TileirError:
        raise
    except Exception as error:
        message = f"the compiler fails: {type(error).__name__}: {error}"
        raise DefectError(Diagnostic("TIR0714", message)) from error
