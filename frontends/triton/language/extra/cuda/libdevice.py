"""Functions of libdevice under their names without `__nv_`."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton.language import math


def __getattr__(name: str) -> Any:
    return getattr(math, name)
