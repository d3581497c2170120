"""Remarks in the form that commands print: location, severity, message, and the source line."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tileir.errors import Diagnostic
from tileir.tools.error_exit import is_coloured


def render_remarks(remarks: Iterable[Diagnostic]) -> str:
    """All `remarks` as text, which is printed to standard error; coloured if that is a terminal."""
    from tileir.render import render  # needed only for remarks
    from tileir.tools.files import SOURCES

    colour = is_coloured(sys.stderr)
    return "".join(render(remark, SOURCES, colour=colour) + "\n" for remark in remarks)
