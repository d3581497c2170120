"""Diagnostics as people read them: the place, the line, a caret, what to do next.

softmax.tir:12:20: error[TIR0101]: fsub: rhs must be f32<1024>, not f32
   12 |   %d = fsub f32<1024> %v, %max
      |                           ^^^^
  note: ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tileir.error_codes import CODES
from tileir.errors import Diagnostic, Severity, TileirError

_COLOURS = {
    Severity.ERROR: "31",
    Severity.WARNING: "35",
    Severity.REMARK: "34",
    Severity.NOTE: "36",
}
_WIDEST = 160
_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters of a line for each of which a space is shown, so that carets stay below theirs."""


def render(
    diagnostic: Diagnostic, sources: Mapping[str, str] | None = None, *, colour: bool = False
) -> str:
    """One diagnostic with its source line, and its notes below it.

    `sources` maps file names to their texts. Nothing else is quoted: a location may name any
    file, so none is opened.
    """
    return "\n".join(_lines(diagnostic, dict(sources or {}), colour, diagnostic.severity))


def render_error(
    error: TileirError, sources: Mapping[str, str] | None = None, *, colour: bool = False
) -> str:
    """Every diagnostic of an error, and how to learn more about the first where there is more."""
    shown = [render(d, sources, colour=colour) for d in error.diagnostics]
    count = len(shown)
    many = f"{count} errors; " if count > 1 else ""
    if error.code in CODES:  # frontends of others have codes of their own
        shown.append(f"{many}for details: `tileir explain {error.code}`")
    return "\n".join(shown)


def _lines(
    d: Diagnostic, sources: dict[str, str], colour: bool, severity: Severity
) -> Iterator[str]:
    name = severity.value
    if severity is not Severity.NOTE:
        name += f"[{d.code}]"
    if colour:
        name = f"\x1b[1;{_COLOURS[severity]}m{name}\x1b[0m"
    place = f"{d.location}: " if d.location else ""
    indent = "  " if severity is Severity.NOTE else ""
    yield f"{indent}{place}{name}: {d.message}"
    yield from _excerpt(d, sources)
    for note in d.notes:
        yield from _lines(note, sources, colour, Severity.NOTE)


def _excerpt(d: Diagnostic, sources: dict[str, str]) -> Iterator[str]:
    line = _source_line(d, sources)
    if line is None or d.location is None:
        return
    column = min(d.location.column, len(line) + 1)
    cut = max(0, column - _WIDEST // 2) if len(line) > _WIDEST else 0
    shown = _UNSHOWN.sub(" ", line[cut : cut + _WIDEST])
    start = column - 1 - cut
    carets = "^" * max(1, min(d.length, len(shown) - start))
    number = str(d.location.line)
    yield f"{number:>5} | {shown}"
    yield f"{'':>5} | {' ' * start}{carets}"


def _source_line(d: Diagnostic, sources: dict[str, str]) -> str | None:
    if d.location is None:
        return None
    text = sources.get(d.location.file)
    lines = text.split("\n") if text else []
    at = d.location.line - 1
    return lines[at].rstrip("\r") if 0 <= at < len(lines) else None
