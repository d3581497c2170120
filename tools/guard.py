"""What commands make of errors: a message and an exit status, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tileir.errors import Diagnostic, TileirError, ToolError


def guarded(command: Callable[[], int]) -> int:
    """The exit status of `command`; 1 where it raises a `TileirError`, which is printed, where
    standard output cannot be written, or where nobody reads it on, which is no error."""
    try:
        status = command()
        sys.stdout.flush()
    except TileirError as error:
        _complain(error)
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        if error.filename is not None:  # of a file that somebody forgot to guard
            raise
        _discard()
        message = f"cannot write standard output: {error.strerror}"
        _complain(ToolError(Diagnostic("TIR0905", message)))
    else:
        return status
    return 1


def _complain(error: TileirError) -> None:
    """Print the error with the lines of text it is about, where they can be read."""
    from tileir.render import render_error

    sys.stderr.write(render_error(error, colour=sys.stderr.isatty()) + "\n")


def _discard() -> None:
    """Have what is left for standard output go nowhere, so that it is not complained of again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
