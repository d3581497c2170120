"""Module globals in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tileir.errors import Diagnostic, InterpretError
from tileir.interp.arguments import Binder
from tileir.interp.memory import RAW
from tileir.ir import Global, Module
from tileir.limits import used_globals
from tileir.machine.tensor import fits_dtype


def place_globals(module: Module, binder: Binder, arrays: Mapping[str, Any]) -> dict[str, int]:
    """Put the module's globals into memory; their addresses by name.

    An array of `arrays` is a global's memory itself. A global without initial value and array is
    undefined until it is written; one that no function names has no memory. Raises
    InterpretError for arrays that do not fit.
    """
    unknown = sorted(set(arrays) - set(module.globals))
    if unknown:
        raise InterpretError(Diagnostic("TIR0510", f"the module has no global @{unknown[0]}"))
    addresses: dict[str, int] = {}
    used = used_globals(module)
    for name, symbol in module.globals.items():
        if name not in used and name not in arrays:
            continue
        array = arrays.get(name)
        if array is None:
            array = _initial(symbol)
        else:
            _check(symbol, array)
        binder.place([(name, array)])
        bound = binder.bound[-1]
        addresses[name] = bound.address
        if symbol.constant:
            bound.region.denied_write = f"@{name} is constant"
        if symbol.initial is None and name not in arrays:
            bound.region.spoil()[:] = 0xFF
    return addresses


def _initial(symbol: Global) -> np.ndarray[Any, Any]:
    raw = RAW[symbol.element.bytes]  # type: ignore[union-attr]
    values = [constant.bits for constant in symbol.initial or ()]
    if len(values) == 1:
        return np.full(symbol.count, values[0], raw)
    return np.array(values, raw) if values else np.zeros(symbol.count, raw)


def _check(symbol: Global, array: Any) -> None:
    fits = isinstance(array, np.ndarray) and fits_dtype(array.dtype, symbol.element)
    if not fits or array.size != symbol.count:
        message = f"@{symbol.name} needs an array of {symbol.count} {symbol.element}"
        raise InterpretError(Diagnostic("TIR0511", message, symbol.location))
