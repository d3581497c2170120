"""Functions of libdevice, by the symbols that TTIR calls (libdevice user's guide).

Triton's `libdevice.div_rn` is `__nv_fdiv_rn` of floats and `__nv_ddiv_rn` of doubles, `clz` is
`__nv_clz` and `__nv_clzll`: the types of operands choose, so these symbols lead to one formula.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tileir.builder import Builder, Expr
from tileir.frontends.triton.language.builtin import Builtin, CompileScope
from tileir.frontends.triton.language.extra import libdevice
from tileir.frontends.triton.tensor import Tensor
from tileir.values import Constant


class LibdeviceFunction(NamedTuple):
    """A formula, and whether it is of unsigned integers."""

    formula: Builtin
    unsigned: bool = False


def function_of(symbol: str) -> LibdeviceFunction | None:
    """The function that `symbol` names: for `__nv_tanhf`, `__nv_tanh`, `__nv_isnand`,
    `__nv_fdiv_rn`, `__nv_umul64hi`. None where there is no formula."""
    name = symbol.removeprefix("__nv_")
    if name in _OTHERS:
        return _OTHERS[name]
    rounding = _ROUNDED.fullmatch(name)
    names = (name, name.removesuffix("f"), name.removesuffix("d"))
    for symbol in (f"{rounding[1]}_{rounding[2]}",) if rounding else names:
        try:
            return LibdeviceFunction(getattr(libdevice, symbol))
        except AttributeError:
            continue
    return None


_ROUNDED = re.compile("[fd](add|sub|mul|div|rcp|sqrt|rsqrt)_(r[nzdu])")


_LARGEST_EXPONENT = 64
"""Constant exponents up to here become multiplications, at most 11, as in libdevice."""


def _integer_power(s: CompileScope, x: Any, y: Any) -> Tensor:
    """`x` to the power of an integer, whose parity is that of the integer also where the nearest
    float is even."""
    b, exponent = s.b, y.expr
    if isinstance(exponent.value, Constant) and abs(int(exponent.value.value)) <= _LARGEST_EXPONENT:
        return Tensor(_power_by_squares(b, x.expr, int(exponent.value.value)), x.dtype)
    size = b.pow(b.fabs(x.expr), exponent.to(x.dtype.element, signed=True))
    is_odd = (exponent & 1) == b.constant(exponent.type, 1)
    return Tensor(b.select(is_odd, b.copysign(size, x.expr), size), x.dtype)


def _power_by_squares(b: Builder, x: Expr, exponent: int) -> Expr:
    """`x` to the power of `exponent`, by squares; its inverse below 0."""
    one, result, square, remaining = b.constant(x.type, 1.0), None, x, abs(exponent)
    while remaining:
        if remaining & 1:
            result = square if result is None else result * square
        remaining >>= 1
        square = square * square if remaining else square
    if result is None:
        return one
    return result if exponent > 0 else one / result


_INTEGER_POWER = LibdeviceFunction(Builtin("powi", _integer_power))

_OTHERS = {
    "powi": _INTEGER_POWER,
    "powif": _INTEGER_POWER,
    **{
        f"fmaf_{mode}": LibdeviceFunction(getattr(libdevice, f"fma_{mode}"))
        for mode in ("rn", "rz", "rd", "ru")
    },
    "fast_fdividef": LibdeviceFunction(libdevice.fast_dividef),
    **{name: LibdeviceFunction(libdevice.abs) for name in ("fabs", "fabsf", "llabs")},
    **{
        f"{name}ll": LibdeviceFunction(getattr(libdevice, name))
        for name in ("clz", "popc", "brev", "ffs")
    },
    "mul64hi": LibdeviceFunction(libdevice.mulhi),
    **{
        symbol: LibdeviceFunction(getattr(libdevice, name), unsigned=True)
        for symbol, name in {
            "umulhi": "mulhi", "umul64hi": "mulhi", "umul24": "mul24", "usad": "sad",
            "uhadd": "hadd", "urhadd": "rhadd", "umin": "min", "umax": "max", "ullmin": "min",
            "ullmax": "max",
        }.items()
        if hasattr(libdevice, name)
    },
}  # fmt: skip
