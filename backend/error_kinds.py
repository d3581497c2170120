"""How compiling ends, as types of errors that a tuner or another compiler can act on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tileir.errors import (
    CompileError,
    DefectError,
    Diagnostic,
    InfeasibleError,
    TileirError,
    UnsupportedError,
)

_TYPES: dict[str, type[CompileError]] = {
    "TIR0702": UnsupportedError, "TIR0706": UnsupportedError, "TIR0708": InfeasibleError,
    "TIR0718": UnsupportedError, "TIR0720": DefectError, "TIR1601": InfeasibleError,
    "TIR0703": DefectError, "TIR0705": DefectError, "TIR0709": DefectError,
}  # fmt: skip
"""Of what the code says alone; any other is about the module or the machine compiled on."""


@contextmanager
def classify_errors() -> Generator[None, None, None]:
    """Errors of the type that their code stands for; what is no `TileirError` is a defect
    (TIR0714)."""
    try:
        yield
    except CompileError as error:
        kind = _TYPES.get(error.code)
        if kind is None or isinstance(error, kind):
            raise
        raise kind(*error.diagnostics) from error
    except TileirError:
        raise
    except Exception as error:
        message = f"the compiler fails: {type(error).__name__}: {error}"
        raise DefectError(Diagnostic("TIR0714", message)) from error
