"""Errors of commands: a message and an exit status, never a traceback."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Callable
from typing import TextIO

from tileir.errors import Diagnostic, TileirError, ToolError

_INTERRUPTED = 130

# The process of a command ends without a search for garbage cycles: Python would visit every class
# and function that was imported, which takes longer than reading a short module.
atexit.register(gc.freeze)


def is_coloured(stream: TextIO) -> bool:
    """Whether text for `stream` is coloured: if it is a terminal, unless NO_COLOR is set and not
    empty (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def exit_status(command: Callable[[], int]) -> int:
    """Run `command` and return its exit status. It is 1 if the command raises a `TileirError`,
    which is printed, or if standard output cannot be written or was closed by its reader. It is
    130, as in shells, if the command is interrupted, even while its modules are imported. Raises
    SystemExit as `command` does, for `--help` and wrong command lines."""
    _open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # for characters that the locale cannot encode
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _run(command)
    except TileirError as error:
        _flush()
        _print_error(error)
    except KeyboardInterrupt:
        _flush()
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        if error.filename is not None:  # an error of a file, which the command should handle itself
            raise
        _flush()
        message = f"cannot write standard output: {error.strerror}"
        _print_error(ToolError(Diagnostic("TIR0905", message)))
    else:
        return status
    return 1


def _run(command: Callable[[], int]) -> int:
    """Run `command` and flush standard output, even if `command` raises SystemExit."""
    try:
        status = command()
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def _open_closed() -> None:
    """Open the standard streams that were closed when the process started (`>&-`), which are None
    in Python. Reading `stdin` and writing `stdout` then fail; messages to `stderr` are dropped."""
    for name, mode, flag in (
        ("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)
    ):  # fmt: skip
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flag), mode))


def _print_error(error: TileirError) -> None:
    """Print an error with the source lines that it refers to."""
    from tileir.render import render_error
    from tileir.tools.files import SOURCES

    sys.stderr.write(render_error(error, SOURCES, colour=is_coloured(sys.stderr)) + "\n")


def _flush() -> None:
    """Flush standard output. If this fails, redirect it to the null device, so that the error is
    not reported again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
