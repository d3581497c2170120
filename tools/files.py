"""Reading and writing the files that tools are given."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Module


def read_text(path: str) -> str:
    """The text of `path`, or of standard input for `-`. Raises ToolError (TIR0904)."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode()
    except OSError as error:
        raise ToolError(Diagnostic("TIR0904", f"cannot read {path}: {error.strerror}")) from None
    except UnicodeDecodeError as error:
        message = f"{path} is no UTF-8 text: byte {error.start} is {error.object[error.start]:#x}"
        raise ToolError(Diagnostic("TIR0904", message)) from None


def read_module(path: str) -> Module:
    """The module in the file `path`, or on standard input for `-`.

    Raises ToolError where it cannot be read, ParseError and VerifyError as `parse` does.
    """
    from tileir.textual import parse

    return parse(read_text(path), path)


def write_file(path: str, data: bytes) -> None:
    """Write `data` to `path` whole or not at all, or to standard output for `-`.

    Raises ToolError (TIR0905).
    """
    if path == "-":
        sys.stdout.buffer.write(data)
        return
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(scratch).chmod(0o644)
        Path(scratch).replace(target)
    except OSError as error:
        raise ToolError(Diagnostic("TIR0905", f"cannot write {path}: {error.strerror}")) from None
