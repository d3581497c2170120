"""The mathematical functions by mnemonic, for every float type.

f32 and narrower are computed in f64 and rounded once, so the error is within half a unit (and a
hair); the error of f64 is within the bound its op states.
"""

from __future__ import annotations

from collections.abc import Callable

from tileir.machine import exponential, f32_functions, special, trigonometric
from tileir.machine.f32_functions import in_blocks
from tileir.machine.float_formats import F64, canonical, round_to, widen
from tileir.machine.tensor import Array

Kernel = Callable[..., Array]


def _rounding_kernel(name: str) -> Kernel:
    precise, quick = _F64[name], f32_functions.KERNELS.get(name, _F64[name])

    def kernel(*operands: Array) -> Array:
        dtype = operands[0].dtype
        if dtype == F64:
            return canonical(in_blocks(precise, *operands))
        return round_to(in_blocks(quick, *map(widen, operands)), dtype)

    return kernel


_F64: dict[str, Kernel] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": exponential.log,
    "log2": exponential.log2,
    "log10": exponential.log10,
    "log1p": exponential.log1p,
    "pow": exponential.power,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "asinh": exponential.asinh,
    "acosh": exponential.acosh,
    "atanh": exponential.atanh,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": trigonometric.asin,
    "acos": trigonometric.acos,
    "atan": trigonometric.atan,
    "atan2": trigonometric.atan2,
    "erf": special.erf,
    "erfc": special.erfc,
    "cbrt": special.cbrt,
    "rsqrt": special.rsqrt,
}

KERNELS: dict[str, Kernel] = {name: _rounding_kernel(name) for name in _F64}
"""Kernels by mnemonic."""
