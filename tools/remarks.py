"""Remarks as the commands print them: place, severity, message, the line of source."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tileir.errors import Diagnostic
from tileir.tools.error_exit import is_coloured


def render_remarks(remarks: Iterable[Diagnostic]) -> str:
    """All of `remarks`, in colour on a terminal; they go to standard error."""
    from tileir.render import render  # for those who ask
    from tileir.tools.files import SOURCES

    colour = is_coloured(sys.stderr)
    return "".join(render(remark, SOURCES, colour=colour) + "\n" for remark in remarks)
