"""The command `tileir-opt`: run passes on `.tir` files and print the results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileir.tools.error_exit import exit_status

if TYPE_CHECKING:
    import argparse

    from tileir.ir import Module

EMITS = ("tir", "llvm", "ptx", "cubin")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: that of the process) and return the exit status.

    The status is 0 on success; 1 for an error in the input, or for unexpected diagnostics; 2 for a
    wrong command line.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["bisect"]:
        return exit_status(lambda: _bisect(words[1:]))
    return exit_status(lambda: _safely(words))


def _bisect(words: Sequence[str]) -> int:
    from tileir.process import default_isolation
    from tileir.tools.opt_bisect import main as command

    with default_isolation():
        return command(words)


def _safely(words: Sequence[str]) -> int:
    from tileir.tools.opt_options import parser

    options = parser().parse_args(words)
    from tileir.tools.safety import safe

    with safe(options):
        return execute(options)


def execute(options: argparse.Namespace) -> int:
    """Execute the parsed command line; returns the exit status."""
    if options.list_passes:
        from tileir.tools.json_output import write_json
        from tileir.tools.opt_options import pass_list, pass_records

        if options.json != "-":
            sys.stdout.write(pass_list())
        write_json(options.json, {"passes": pass_records()})
        return 0
    from tileir.tools.files import read_text, write_file

    text = read_text(options.file)
    if options.verify_diagnostics:
        from tileir.tools.opt_expect import check

        return check(text, options)
    parts = split(text) if options.split_input else [text]
    outputs = [_process(part, options) for part in parts]
    write_file(options.output, b"".join(_join(outputs, options.emit)))
    return 0


SPLIT = "; -----"
"""The line that separates the modules of one file for `--split-input`."""


def split(text: str) -> list[str]:
    """The parts of `text` between split lines, each with blank lines before it so that line
    numbers stay those of the file."""
    parts, start = [], 0
    lines = text.splitlines(keepends=True)
    for index, line in enumerate([*lines, SPLIT]):
        if line.rstrip() == SPLIT:
            parts.append("\n" * start + "".join(lines[start:index]))
            start = index + 1
    return parts


def run_pipeline(text: str, options: argparse.Namespace) -> tuple[Module, list[object]]:
    """The module in `text` after the requested pipeline, and all warnings and remarks."""
    from tileir import textual

    name = "<stdin>" if options.file == "-" else options.file
    module = textual.parse(text, name, dialect=options.dialect)
    pipeline = options.pipeline
    if options.run_reproducer:
        from tileir.passmanager.reproducer import read_reproducer

        module, pipeline = read_reproducer(module)
    if not pipeline:
        return module, []
    from tileir.tools.opt_run import run_pipeline

    return run_pipeline(module, pipeline, options)


def _process(text: str, options: argparse.Namespace) -> bytes:
    module, _ = run_pipeline(text, options)
    if options.emit == "tir":
        from tileir.textual import print_module

        return print_module(module).encode()
    from tileir.tools.opt_emit import emit

    return emit(module, options)


def _join(outputs: list[bytes], emit: str) -> list[bytes]:
    between = f"{SPLIT}\n".encode() if emit == "tir" else b""
    return [part for output in outputs for part in (between, output)][1:]


if __name__ == "__main__":
    sys.exit(main())
