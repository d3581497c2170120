"""What commands make of errors: a message and an exit status, never a traceback."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TextIO

from tileir.errors import Diagnostic, TileirError, ToolError

_INTERRUPTED = 130


def is_coloured(stream: TextIO) -> bool:
    """Whether to colour what goes to `stream`: a terminal, unless NO_COLOR is set and not empty
    (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def exit_status(command: Callable[[], int]) -> int:
    """The exit status of `command`; 1 where it raises a `TileirError`, which is printed, where
    standard output cannot be written, or where its reader is gone, which is no error; 130, as
    shells have it, where it is interrupted."""
    _open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the locale has no letters for
    try:
        status = command()
        sys.stdout.flush()
    except TileirError as error:
        _flush()
        _complain(error)
    except KeyboardInterrupt:
        _flush()
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        if error.filename is not None:  # of a file that somebody forgot to guard
            raise
        _flush()
        message = f"cannot write standard output: {error.strerror}"
        _complain(ToolError(Diagnostic("TIR0905", message)))
    else:
        return status
    return 1


def _open_closed() -> None:
    """Open what the process was started without (`>&-`), which Python has as None: what fails to
    be read, what fails to be written, and where messages go nowhere."""
    for name, mode, flag in (
        ("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)
    ):  # fmt: skip
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flag), mode))


def _complain(error: TileirError) -> None:
    """Print the error with the lines it is about of the texts that the command was given."""
    from tileir.render import render_error
    from tileir.tools.files import SOURCES

    sys.stderr.write(render_error(error, SOURCES, colour=is_coloured(sys.stderr)) + "\n")


def _flush() -> None:
    """Write what is left for standard output; where that cannot be, have it go nowhere, so that it
    is not complained of again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
