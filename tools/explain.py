"""`tileir explain CODE`: what an error code means, and a wrong and a right example."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap

from tileir.error_codes import CODES
from tileir.errors import Diagnostic, ToolError
from tileir.tools.code_examples import Example, examples
from tileir.tools.files import write_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("code", nargs="?", help="TIR0101, or 101; every code when left out")
    parser.add_argument(
        "--json", metavar="PATH", help="write the same as JSON; - is standard output, instead"
    )


def execute(options: argparse.Namespace) -> int:
    """Print the explanation, or the list of codes."""
    names = [full_name(options.code)] if options.code else sorted(CODES)
    if options.json != "-":
        text = explanation(options.code) if options.code else listing()
        sys.stdout.write(text + "\n")
    if options.json is not None:
        write_file(options.json, _json(names).encode())
    return 0


def full_name(code: str) -> str:
    """`code`, which may be written without its prefix or in lower case.

    Raises ToolError (TIR0901) for a code that does not exist.
    """
    name = code.upper()
    full = f"TIR{int(name):04}" if name.isdecimal() else name
    if full not in CODES:
        raise ToolError(Diagnostic("TIR0901", f"there is no error code {code!r}"))
    return full


def explanation(code: str) -> str:
    """Title, text and examples of `code`. Raises ToolError as `full_name` does."""
    full = full_name(code)
    title, text = CODES[full]
    parts = [f"{full}: {title}", textwrap.fill(text, 88), *map(_shown, examples(full))]
    return "\n\n".join(parts)


def listing() -> str:
    """Every code with its title, one per line."""
    return "\n".join(f"{code}  {title}" for code, (title, _) in sorted(CODES.items()))


def _shown(example: Example) -> str:
    if example.kind == "none":
        return textwrap.fill(f"No example: {example.text}", 88)
    how = "python example.py" if example.is_python else _command(example.how)
    return f"{example.kind}, `{how}`:\n\n{textwrap.indent(example.text.rstrip(), '    ')}"


def _command(how: str) -> str:
    return how.replace("FILE", "example.tir").replace("OUT", "out")


def _json(names: list[str]) -> str:
    entries = [
        {
            "code": name,
            "title": CODES[name][0],
            "text": CODES[name][1],
            "examples": [
                {"kind": e.kind, "how": e.how, "text": e.text.rstrip()} for e in examples(name)
            ],
        }
        for name in names
    ]
    return json.dumps(entries, indent=1) + "\n"
