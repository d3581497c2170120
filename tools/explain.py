"""`tileir explain CODE`: what an error code means and what to do about it."""

from __future__ import annotations

import argparse
import sys
import textwrap

from tileir.error_codes import CODES
from tileir.errors import Diagnostic, ToolError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("code", nargs="?", help="TIR0101, or 101; every code when left out")


def execute(options: argparse.Namespace) -> int:
    """Print the explanation, or the list of codes."""
    text = explanation(options.code) if options.code else listing()
    sys.stdout.write(text + "\n")
    return 0


def explanation(code: str) -> str:
    """Title and text of `code`, which may be written without its prefix or in lower case.

    Raises ToolError (TIR0901) for a code that does not exist.
    """
    name = code.upper()
    full = f"TIR{int(name):04}" if name.isdecimal() else name
    if full not in CODES:
        raise ToolError(Diagnostic("TIR0901", f"there is no error code {code!r}"))
    title, text = CODES[full]
    return f"{full}: {title}\n\n{textwrap.fill(text, 88)}"


def listing() -> str:
    """Every code with its title, one per line."""
    return "\n".join(f"{code}  {title}" for code, (title, _) in sorted(CODES.items()))
