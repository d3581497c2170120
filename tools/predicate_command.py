"""Predicates on modules that are shell commands."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Module

Predicate = Callable[[Module], bool]


def by_command(command: str, *, timeout: float | None = None, quiet: bool = False) -> Predicate:
    """The predicate that is true if `command` exits with 0 within `timeout` seconds. The path of a
    file with the module replaces `{}`, or is appended if there is no `{}`. With `quiet`, the output
    of the command is dropped. Raises ToolError (TIR0910) if `command` is not a command line, or
    cannot be run."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _mistake(f"{command!r} is not a command: {error}") from None
    if not words:
        raise _mistake(f"{command!r} is not a command")
    if not any("{}" in word for word in words):
        words.append("{}")

    def holds(module: Module) -> bool:
        from tileir.textual import print_module

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "module.tir")
            path.write_text(print_module(module))
            argv = [word.replace("{}", str(path)) for word in words]
            return _exits_well(argv, timeout, quiet)

    return holds


def _exits_well(words: list[str], timeout: float | None, quiet: bool) -> bool:
    output = subprocess.DEVNULL if quiet else None
    try:
        done = subprocess.run(words, check=False, timeout=timeout, stdout=output, stderr=output)
    except subprocess.TimeoutExpired:
        return False
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise _mistake(f"cannot run {words[0]}: {why}") from None
    return done.returncode == 0


def _mistake(message: str) -> ToolError:
    return ToolError(Diagnostic("TIR0910", message))
