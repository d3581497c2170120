"""Input and output of the files that are named on the command line."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Module

SOURCES: dict[str, str] = {}
"""The texts that this process has read, by their names on the command line. Errors quote them."""

_MOST = 1 << 28
"""The most bytes that are read of a file: programs are shorter, and some devices have no end."""


def read_text(path: str) -> str:
    """The text of `path`, or of standard input for `-`, without a byte order mark. Raises ToolError
    (TIR0904)."""
    try:
        data = _read(path)
        if len(data) > _MOST:
            message = f"{_quote(path)} is longer than {_MOST >> 20} MiB"
            raise ToolError(Diagnostic("TIR0904", message))
        SOURCES[path] = text = data.decode("utf-8-sig")
    except OSError as error:
        message = f"cannot read {_quote(path)}: {error.strerror}"
        raise ToolError(Diagnostic("TIR0904", message)) from None
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is {error.object[error.start]:#x}"
        message = f"{_quote(path)} is not UTF-8 text: {byte}"
        raise ToolError(Diagnostic("TIR0904", message)) from None
    except ValueError as error:  # the system cannot encode the name
        raise ToolError(Diagnostic("TIR0904", f"cannot read {path!r}: {error}")) from None
    return text


def _quote(path: str) -> str:
    """Quote a path in an error message if it is empty or contains invisible characters."""
    if path == "-":
        return "standard input"
    return path if path and path.isprintable() else repr(path)


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(_MOST + 1)
    with Path(path).open("rb") as file:
        return file.read(_MOST + 1)


def read_module(path: str) -> Module:
    """The module in the file `path`, or on standard input for `-`.

    Raises ToolError if it cannot be read, and ParseError and VerifyError as `parse` does.
    """
    from tileir.textual import parse

    return parse(read_text(path), path)


def file_name(kernel: str) -> str:
    """The name of a kernel as part of a file name, without separators of folders."""
    return re.sub(r"[^\w.$-]", "_", kernel)


def write_file(path: str, data: bytes) -> None:
    """Write `data` to `path` atomically, or to standard output for `-`. A path that is not an
    ordinary file (`/dev/null`, a pipe) is written to, not replaced. Raises ToolError (TIR0905)."""
    target = Path(path)
    try:
        if path == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        elif target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(target.resolve(), data)
    except BrokenPipeError:
        raise  # that the reader has ended is no error
    except OSError as error:
        where = "standard output" if path == "-" else path
        raise ToolError(Diagnostic("TIR0905", f"cannot write {where}: {error.strerror}")) from None
    except ValueError as error:  # the system cannot encode the name
        raise ToolError(Diagnostic("TIR0905", f"cannot write {path!r}: {error}")) from None


def _replace(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    import tempfile  # a slow import, and most commands write to standard output

    handle, name = tempfile.mkstemp(dir=target.parent)
    scratch = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        scratch.chmod(0o644)
        scratch.replace(target)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
