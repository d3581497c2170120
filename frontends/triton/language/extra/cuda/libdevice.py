"""Functions of libdevice under their names without `__nv_`."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton.language.extra import libdevice


def __getattr__(name: str) -> Any:
    return getattr(libdevice, name)
