"""The command `tileir`: compile, run, draw, tune and reduce `.tir` files."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from tileir.tools.error_exit import exit_status

COMMANDS = {
    "run": "run a kernel on the inputs that its metadata describes, and check the result",
    "aot": "compile a kernel ahead of time: cubin, metadata, C header",
    "explain": "explain an error code, with a wrong and a right example",
    "link": "link modules into one",
    "view": "draw a kernel: layouts, memory accesses, live ranges, control flow, passes",
    "tune": "find the fastest tile shape, number of warps and stages of a kernel",
    "check-triton": "run a program that uses Triton and report errors of its kernels",
    "export-ttir": "write a module as TTIR, for Triton's compiler",
    "reduce": "reduce a module while a command accepts it",
    "completion": "print a script that completes commands in a shell",
}
"""Help lines by subcommand. Each subcommand is the module of its name in `tileir.tools`, with `_`
for `-`."""


class Command(Protocol):
    """The interface of the module of a sub-command."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the sub-command's arguments."""
        ...

    def execute(self, options: argparse.Namespace) -> int:
        """Execute the command; returns the exit status."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: that of the process) and return the exit status.

    The status is 0 on success; 1 for an error in the input, or for a result that differs from the
    expected one; 2 for a wrong command line.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    return exit_status(lambda: _execute(words))


def _execute(words: list[str]) -> int:
    options, unknown = parser(words).parse_known_args(words)
    if unknown:  # the usage of the sub-command, not that of `tileir`
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    from tileir.tools.safety import safe

    with safe(options):
        return _command(options.command).execute(options)


def parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser. Only the sub-commands in `words` declare their arguments."""
    result = argparse.ArgumentParser(
        prog="tileir", description="A compiler for programs that compute on tiles."
    )
    result.add_argument("--version", action="version", version=f"tileir {_version()}")
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, line in COMMANDS.items():
        sub = commands.add_parser(name, help=line, description=f"tileir {name}: {line}.")
        sub.set_defaults(parser=sub)
        if name in words:
            _command(name).add_arguments(sub)
    return result


def _command(name: str) -> Command:
    return cast(Command, importlib.import_module(f"tileir.tools.{name.replace('-', '_')}"))


def _version() -> str:
    import tileir

    return tileir.__version__


if __name__ == "__main__":
    sys.exit(main())
