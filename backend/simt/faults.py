"""Errors of the program itself, as the SIMT simulator detects them."""

from __future__ import annotations

from typing import ClassVar

from tileir.backend.simt.shadow import RaceError
from tileir.errors import Diagnostic, Location


class FaultError(AssertionError):
    """An error of the program in the op at `location`. All other failed assertions of this folder
    are defects of the lowering."""

    code: ClassVar[str]

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message if location is None else f"{location}: {message}")
        self.message, self.location = message, location

    @property
    def diagnostic(self) -> Diagnostic:
        """The error as a diagnostic, with its code and location."""
        return Diagnostic(self.code, self.message, self.location)


class OutsideError(FaultError):
    """An access outside of every array."""

    code = "TIR0501"


class MisalignedError(FaultError):
    """An access at an address that its size does not divide."""

    code = "TIR0502"


class StoppedError(FaultError):
    """A failed assertion of the program."""

    code = "TIR0713"


class ForeignCodeError(FaultError):
    """Inline assembly or a function of a library that has a meaning on a GPU alone."""

    code = "TIR0712"


def at_op(error: AssertionError, mnemonic: str, location: Location | None) -> AssertionError:
    """`error` with the location of the op that raised it; a FaultError keeps the location of the
    innermost op."""
    if isinstance(error, RaceError):
        return error.at(mnemonic, location)
    if not isinstance(error, FaultError):
        place = "" if location is None else f"{location}: "
        return type(error)(f"{place}{mnemonic}: {error}")
    if error.location is not None:
        return error
    return type(error)(f"{mnemonic}: {error.message}", location)
