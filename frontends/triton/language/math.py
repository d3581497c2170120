"""`triton.language.math`: functions of one or several floats."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton.language import arithmetic, device_bits, device_rounding, special
from tileir.frontends.triton.language.arithmetic import (
    abs_ as abs,
    cdiv,
    clamp,
    div_rn,
    fdiv,
    fma,
    isinf,
    isnan,
    maximum as max,
    minimum as min,
    sigmoid,
    umulhi,
)
from tileir.frontends.triton.language.device_functions import FUNCTIONS as _DEVICE
from tileir.frontends.triton.language.reductions import softmax

_MORE = (device_bits, device_rounding, special)
"""Modules whose functions are among `_DEVICE`."""

__all__ = [
    "abs", "cdiv", "clamp", "div_rn", "fdiv", "fma", "isinf", "isnan", "max", "min", "sigmoid",
    "softmax", "umulhi",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    result = arithmetic.FUNCTIONS.get(name) or _DEVICE.get(name)
    if result is None:
        raise AttributeError(f"there is no function {name} of floats here")
    return result
