"""The loops around the dots: counted up or down, with the test at the start or the end, nested, or
bounded by a loaded value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.testing.matmul_programs.writing import Writing
from tileir.types import I32

_KINDS = 12


def kind(w: Writing) -> int:
    """The kind of loop."""
    return w.features["loop"][0] % _KINDS


def first(w: Writing) -> Any:
    """The first value of the induction variable."""
    match kind(w):
        case 5:
            return w["first"]
        case 6:
            return w["batch"] * w.bk
        case 4:
            return (w["k"] + (w.bk - 1)) // w.bk * w.bk - w.bk
        case _:
            return 0


def by(w: Writing) -> int:
    """The step of the induction variable."""
    return {4: -w.bk}.get(kind(w), w.bk)


def loop(w: Writing, body: Callable[[Any], None], end: str = "k") -> None:
    """Write the loop. `body` writes an iteration for one value of the induction variable."""
    b, stop, step = w.b, w[end], w.bk
    match kind(w):
        case 1:
            with b.for_(0, (stop + (step - 1)) // step) as number:
                body(number * step)
        case 2:
            at = b.var(b.constant(I32, 0))
            with b.while_(lambda: at.get() < stop):
                body(at.get())
                at.set(at.get() + step)
        case 3:
            _do_while(w, body, stop)
        case 4:
            with b.for_(first(w), -1, -step) as at:
                body(at)
        case 5 | 6:
            with b.for_(first(w), stop, step) as at:
                body(at)
        case 7:
            limit = (w["table"] + 3).load()
            with b.for_(0, b.smin(limit, stop), step) as at:
                body(at)
        case 8:
            with b.for_(0, 2), b.for_(0, stop, step) as at:
                body(at)
        case 9:
            with b.for_(0, 2 * step, step) as at:
                body(at)
        case _:
            with b.for_(0, stop, step) as at:
                body(at)


def _do_while(w: Writing, body: Callable[[Any], None], stop: Any) -> None:
    b = w.b
    at = b.var(b.constant(I32, 0))
    header, done = b.block("again"), b.block("finished")
    b.br(header)
    b.enter(header)
    body(at.get())
    at.set(at.get() + w.bk)
    b.cond_br(at.get() < stop, header, done)
    b.enter(done)
