"""Located errors of a running program."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.errors import Diagnostic, InterpretError, Location
from tileir.op import Op


def fail(
    code: str,
    op: Op,
    message: str,
    host: Any,
    *,
    lane: int | None = None,
    shape: tuple[int, ...] | None = None,
) -> InterpretError:
    """The error `message` of `op` in the instance that `host` runs, at element `lane` (a flat
    index into a tile of `shape`)."""
    where = "" if lane is None or shape == () else f", element {element(lane, shape)}"
    text = f"{op.mnemonic}: {message} (program {program(host)}{where})"
    return InterpretError(Diagnostic(code, text, op.location))


def element(lane: int, shape: tuple[int, ...] | None) -> str:
    """`[2, 5]`: the flat index `lane` by dimension."""
    index = (lane,) if shape is None else np.unravel_index(lane, shape)
    return "[" + ", ".join(str(int(i)) for i in index) + "]"


def program(host: Any) -> str:
    """`(1, 0, 0)`: the program ids of the instance that `host` runs."""
    return str(host.ids)


def place(op: Op) -> str:
    """`store at k.tir:7:3`: an op for a message."""
    return f"{op.mnemonic} at {op.location}" if op.location else op.mnemonic


def note(code: str, message: str, location: Location | None) -> Diagnostic:
    """A note with a related location."""
    return Diagnostic(code, message, location)
