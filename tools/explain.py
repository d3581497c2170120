"""`tileir explain CODE`: explain an error code, with a wrong and a right example."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import Any

from tileir.error_codes import CODES
from tileir.errors import Diagnostic, ToolError
from tileir.tools.code_examples import CodeExample, examples
from tileir.tools.json_output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("code", nargs="?", help="e.g. TIR0101 or 101 (default: all codes)")
    add_json(parser, "the explanations")


def execute(options: argparse.Namespace) -> int:
    """Print the explanation, or the list of codes."""
    names = [full_name(options.code)] if options.code else sorted(CODES)
    if options.json != "-":
        text = explanation(options.code) if options.code else listing()
        sys.stdout.write(text + "\n")
    write_json(options.json, [_record(name) for name in names])
    return 0


def full_name(code: str) -> str:
    """The full form of `code`, which may be written without its prefix or in lower case.

    Raises ToolError (TIR0901) for a code that does not exist.
    """
    name = code.upper()
    full = f"TIR{int(name):04}" if name.isdecimal() else name
    if full not in CODES:
        raise ToolError(
            Diagnostic("TIR0901", f"no error code {code!r}; `tileir explain` lists them")
        )
    return full


def explanation(code: str) -> str:
    """Title, text and examples of `code`. Raises ToolError as `full_name` does."""
    full = full_name(code)
    title, text = CODES[full]
    parts = [f"{full}: {title}", textwrap.fill(text, 88), *map(_indented_example, examples(full))]
    return "\n\n".join(parts)


def listing() -> str:
    """Every code with its title, one per line."""
    return "\n".join(f"{code}  {title}" for code, (title, _) in sorted(CODES.items()))


def _indented_example(example: CodeExample) -> str:
    if example.kind == "none":
        return textwrap.fill(f"No example: {example.text}", 88)
    how = "python example.py" if example.is_python else _command(example.how)
    return f"{example.kind}, `{how}`:\n\n{textwrap.indent(example.text.rstrip(), '    ')}"


def _command(how: str) -> str:
    return how.replace("FILE", "example.tir").replace("OUT", "out")


def _record(code: str) -> dict[str, Any]:
    """The title, the text and the examples of `code`, for JSON."""
    title, text = CODES[code]
    shown = [{"kind": e.kind, "how": e.how, "text": e.text.rstrip()} for e in examples(code)]
    return {"code": code, "title": title, "text": text, "examples": shown}
