"""Whether code is generated in a process of its own where a call says nothing of `isolate`.

    with default_isolation():
        ...

`tileir.backend.isolation` does it. The commands isolate; a library call does not, unless the
environment has TILEIR_ISOLATE=1.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

_by_default = [os.environ.get("TILEIR_ISOLATE", "") not in ("", "0", "off")]


@contextmanager
def default_isolation(on: bool = True) -> Generator[None, None, None]:
    """Isolate (or not), in all threads, what says nothing of `isolate`."""
    before, _by_default[0] = _by_default[0], on
    try:
        yield
    finally:
        _by_default[0] = before


def is_isolated(isolate: bool | None) -> bool:
    """Whether to isolate: `isolate`, or where it is None what is the default now."""
    return _by_default[0] if isolate is None else isolate
