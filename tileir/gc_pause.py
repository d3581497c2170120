"""Python's collector of cycles, paused while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """No search for garbage cycles meanwhile; also a decorator.

    Reading and compiling make many objects that live to their end and few cycles. The
    collector would look at all of them again and again: three quarters of the time in which text
    is written. Where others have paused it, it stays paused.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
