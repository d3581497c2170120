"""Errors as the tools show them: with the lines of text they are about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tileir.errors import Diagnostic, TileirError


def rendered(error: TileirError) -> str:
    """`error` with carets under the text, where its files can be read."""
    from tileir.render import render

    return render(error, sources(error.diagnostics))


def sources(diagnostics: tuple[Diagnostic, ...]) -> Mapping[str, str]:
    """The text of every file that `diagnostics` and their notes point into and that is there."""
    names: set[str] = set()
    for diagnostic in diagnostics:
        for item in (diagnostic, *diagnostic.notes):
            if item.location is not None:
                names.add(item.location.file)
    return {name: text for name in names if (text := _read(name)) is not None}


def _read(name: str) -> str | None:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        return None
