"""`tileir completion SHELL`: a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
import importlib.util
import sys

from tileir.errors import Diagnostic, ToolError

SHELLS = ("bash", "zsh", "tcsh")
PROGRAMS = ("tileir", "tileir-opt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("shell", choices=SHELLS, help="shell that the script is for")
    parser.add_argument(
        "--program",
        choices=PROGRAMS,
        default="tileir",
        help="command to complete (default: tileir)",
    )


def execute(options: argparse.Namespace) -> int:
    """Print the script. Raises ToolError (TIR0906) if shtab is not installed."""
    if importlib.util.find_spec("shtab") is None:
        message = "completion needs shtab: pip install 'tileir[completion]'"
        raise ToolError(Diagnostic("TIR0906", message))
    import shtab

    sys.stdout.write(shtab.complete(_parser(options.program), options.shell) + "\n")
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    """The complete parser of `program`; arguments that name files complete file names."""
    if program == "tileir":
        from tileir.tools import main

        parser = main.parser(list(main.COMMANDS))
    else:
        from tileir.tools import opt_options

        parser = opt_options.parser()
    _complete_files(parser)
    return parser


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Let shells complete file names for arguments whose placeholder is that of a file."""
    import shtab

    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] - shtab documents no other way
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            for each in action.choices.values():
                _complete_files(each)
        elif action.metavar in ("FILE", "PATH", "OUT") or action.dest == "output":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
