"""Diagnostics: what went wrong, where, and the one exception family that carries it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum
from types import CodeType
from typing import Any

import attrs

_CONTROLS = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""Characters that a terminal interprets: control characters except the end of a line, text
directions, line separators, surrogates."""


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
    """The severity of a diagnostic. Only `ERROR` stops a tool."""

    ERROR = "error"
    """The input is invalid."""
    WARNING = "warning"
    """The input is probably not what was intended."""
    REMARK = "remark"
    """What a pass did, or why it did nothing."""
    NOTE = "note"
    """A location that is related to another diagnostic."""


@attrs.frozen(weakref_slot=False)
class Location:
    """A place in a file: line and column, both counted from 1.

    `written` is True if the text states the location (`loc("f.py":3:7)`); it is then printed. It is
    False if the reader took the place of the op in the `.tir` file.
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
    """One finding: code (`TIR0101`), message, location, and notes with related locations.

    `operand` names the operand at fault, by index or field name, or is None; the reader maps it
    to a column. `length` is the number of characters to underline. Control characters of the
    message are escaped. If the message has more than `MAX_MESSAGE` characters, only its beginning
    and its end are kept.
    """

    code: str
    message: str = attrs.field(converter=_message)
    location: Location | None = None
    severity: Severity = Severity.ERROR
    notes: tuple[Diagnostic, ...] = ()
    length: int = 1
    operand: str | int | None = None

    def at(self, location: Location | None) -> Diagnostic:
        """Return the same finding at `location`, unless it already has a location."""
        return self if self.location or location is None else attrs.evolve(self, location=location)

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        head = f"{place}{self.severity.value}[{self.code}]: {self.message}"
        return "\n".join((head, *(f"  {note}" for note in self.notes)))

    def __repr__(self) -> str:
        return f"<{self.severity.value} {self.code}: {shorten(self.message, _LONGEST)}>"


class TileirError(Exception):
    """Base class of all errors that tileir raises for invalid input, with all diagnostics of the
    run."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    @property
    def code(self) -> str:
        """The code of the first diagnostic, such as `TIR0101`."""
        return self.diagnostics[0].code

    @property
    def location(self) -> Location | None:
        """The location of the first diagnostic."""
        return self.diagnostics[0].location

    @property
    def line(self) -> int | None:
        """The line of the first diagnostic, counted from 1; None if it has no location."""
        return self.location.line if self.location else None

    @property
    def column(self) -> int | None:
        """The column of the first diagnostic, counted from 1; None if it has no location."""
        return self.location.column if self.location else None

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))

    def __reduce__(self) -> tuple[type[TileirError], tuple[Diagnostic, ...]]:
        return type(self), self.diagnostics


class ParseError(TileirError):
    """The text or bytes are not a tileir module."""


class VerifyError(TileirError):
    """A module, function or op violates a rule of the IR."""


class LinkError(TileirError):
    """The modules cannot be linked."""


class InterpretError(TileirError):
    """The program is undefined on these arguments: an access out of bounds, a race, ..."""


class PassError(TileirError):
    """A pass does not exist, an option is invalid, or a pass cannot do what is requested."""


class BuildError(TileirError):
    """The builder was misused; the location is the line of the caller."""


class CompileError(TileirError):
    """The backend cannot lower the module for the requested target."""


class InfeasibleError(CompileError):
    """The configuration exceeds a resource of the target; other tile sizes or options may fit."""


class UnsupportedError(CompileError):
    """The target cannot run the program in any configuration."""


class DefectError(CompileError):
    """A defect of the compiler; the input is not to blame."""


class LaunchError(TileirError):
    """The arguments, grid or device do not fit the compiled kernel."""


class ToolError(TileirError):
    """A command line or a file is invalid."""


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
"""Codes of compile errors that determine the class of the error for tuners and other compilers. All
other codes are about the module or the machine of the compiler."""


def from_signal_handler(error: BaseException) -> bool:
    """Whether a handler of a signal raised `error` into the code that it interrupted: then the
    error is the user's, as with a time limit by SIGALRM, and no error of that code."""
    import signal  # few errors are unexpected

    handlers = {code for n in signal.valid_signals() if (code := _code(signal.getsignal(n)))}
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code in handlers:
            return True
        entry = entry.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    """The code of a function, a method, a partial application or an object that is called; None if
    it is not Python's."""
    if not callable(handler):
        return None
    function: Any = getattr(handler, "func", handler)
    for each in (function, type(function).__call__):
        code = getattr(getattr(each, "__func__", each), "__code__", None)
        if code is not None:
            return code
    return None


@contextmanager
def classify_errors() -> Generator[None, None, None]:
    """Raise the errors of the body in the class that their code determines. An error that is no
    `TileirError` becomes a defect (TIR0714), unless a signal handler raised it."""
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
        if from_signal_handler(error):
            raise
        message = f"the compiler fails: {type(error).__name__}: {error}"
        raise DefectError(Diagnostic("TIR0714", message)) from error
