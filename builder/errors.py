"""Errors of the builder, placed at the caller's line."""

from __future__ import annotations

from tileir.builder.caller_location import Places
from tileir.errors import BuildError, Diagnostic, Location, TileirError


def mistake(code: str, message: str, *, notes: tuple[Diagnostic, ...] = ()) -> BuildError:
    """A BuildError of one diagnostic at the innermost caller outside the builder."""
    return BuildError(Diagnostic(code, message, Places().caller(), notes=notes))


def known_place(location: object) -> Location:
    """`location`, which must be a Location. Raises BuildError for anything else."""
    if not isinstance(location, Location):
        shown = 'Location("model.dsl", 12, 5)'
        raise mistake("TIR0803", f"a place is a Location, as {shown}, not {location!r}")
    return location


def at_caller(error: TileirError, place: Location) -> BuildError:
    """`error`, raised while an op was made, as a BuildError at `place`."""
    result = (Diagnostic(d.code, d.message, place, d.severity, d.notes) for d in error.diagnostics)
    return BuildError(*result)
