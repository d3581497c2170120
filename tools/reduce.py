"""`tileir reduce FILE --predicate CMD`: reduce a module while CMD exits with 0.

    tileir reduce kernel.tir --predicate 'sh check.sh {}' -o small.tir
    tileir reduce crash.tir --corpus tests/corpus/found

CMD is run with `{}` replaced by the path of a candidate (at its end where it has no `{}`); exit
status 0 means that it is still interesting. A crash reproducer needs no command: a module is
interesting if it fails in the same way under the recorded pipeline. After an interrupt or
`--seconds`, the search stops early and the smallest module so far is written."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Module
from tileir.tools.files import read_module, write_file
from tileir.tools.numbers import amount, natural
from tileir.tools.predicate_command import Predicate, by_command

if TYPE_CHECKING:
    from tileir.testing.reduction import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    add = parser.add_argument
    add("file", metavar="FILE", help=".tir file, e.g. a reproducer, or - for standard input")
    add(
        "--predicate",
        metavar="CMD",
        help="command that exits with 0 if a module is still interesting",
    )
    add(
        "-o",
        "--output",
        default="-",
        metavar="OUT",
        help="file to write (default: standard output)",
    )
    add(
        "--corpus",
        metavar="DIR",
        help="write the result to this folder, named by the hash of its text",
    )
    add("--timeout", type=amount, default=60, help="time limit of CMD, in seconds (default: 60)")
    add("--seconds", type=amount, help="stop after so many seconds")
    add("--tries", type=natural, help="stop after so many candidates")


def execute(options: argparse.Namespace) -> int:
    """Reduce the module and write the result."""
    from tileir.testing.reduction import op_count

    module = read_module(options.file)
    candidate, predicate, restore = _question(module, options)
    best = _reduce(candidate, predicate, options)
    sys.stderr.write(f"{op_count(module)} ops -> {op_count(best)} ops\n")
    _write(restore(best), options)
    return 0


def _reduce(module: Module, predicate: Predicate, options: argparse.Namespace) -> Module:
    from tileir.testing.reduction import reduce

    best = module

    def report(progress: Progress, smaller: Module) -> None:
        nonlocal best
        best = smaller
        _show(progress)

    try:
        limits = {"tries": options.tries, "seconds": options.seconds}
        best = reduce(module, predicate, report=report, **limits)
    except ValueError:
        message = "the predicate is false for the module itself: CMD must exit with 0 for FILE"
        raise ToolError(Diagnostic("TIR0910", message)) from None
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; this is the best so far\n")
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    return best


def _question(
    module: Module, options: argparse.Namespace
) -> tuple[Module, Predicate, Callable[[Module], Module]]:
    """The module to reduce, the predicate, and the function that converts the result to the form of
    the input file."""
    from tileir.passmanager.reproducer import reproducer_of

    if options.predicate:
        holds = by_command(options.predicate, timeout=options.timeout, quiet=True)
        return module, holds, lambda module: module
    reproducer = reproducer_of(module)
    return reproducer.module, reproducer.fails, reproducer.around


def _show(progress: Progress) -> None:
    line = f"{progress.ops} ops, {progress.tried} tried, {progress.accepted} kept: {progress.edit}"
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{line:<78}")
    else:
        sys.stderr.write(f"{line}\n")


def _write(module: Module, options: argparse.Namespace) -> None:
    from tileir.textual import print_module

    data = print_module(module).encode()
    if options.corpus:
        stem = "stdin" if options.file == "-" else Path(options.file).stem
        name = f"{stem}-{hashlib.sha256(data).hexdigest()[:8]}.tir"
        write_file(str(Path(options.corpus, name)), data)
        sys.stderr.write(f"wrote {Path(options.corpus, name)}\n")
    if not options.corpus or options.output != "-":
        write_file(options.output, data)
