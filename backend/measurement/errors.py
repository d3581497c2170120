"""What goes wrong while tuning."""

from __future__ import annotations

from tileir.errors import Diagnostic, TileirError


class TuneError(TileirError):
    """A space, a problem or a database that nothing can be tuned with or by."""


def tune_error(message: str, code: str = "TIR1101") -> TuneError:
    """An error of one diagnostic."""
    return TuneError(Diagnostic(code, message))
