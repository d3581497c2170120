"""Functions of libdevice under their names without `__nv_`."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton.language import math
from tileir.frontends.triton.language.device_functions import EXACT


def __getattr__(name: str) -> Any:
    return EXACT.get(name) or getattr(math, name)
