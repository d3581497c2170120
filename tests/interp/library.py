"""Kernels that call one function of the library on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir.builder import F16, F32, F64, I1, I8, I16, I32, Builder, Expr, pointer
from tileir.executor import executor as named
from tileir.std import function
from tileir.types import Type, element_of, shape_of, tile

ELEMENTS = {
    "float16": F16, "float32": F32, "float64": F64, "int8": I8, "int16": I16, "int32": I32,
}  # fmt: skip
NAMES = {kind: name for name, kind in ELEMENTS.items()}


def on_rows(
    name: str,
    *args: Any,
    results: Sequence[Type] | None = None,
    executor: str = "interpreter",
) -> list[np.ndarray]:
    """What the library's `name` makes of arrays, each a tile, and of numbers."""
    expected = results and [str(t) for t in results]
    kinds = function(name, expected, [str(_type(x)) for x in args]).results
    arrays = [x.copy() for x in args if isinstance(x, np.ndarray)]
    out = [np.zeros(shape_of(k), NAMES[element_of(k)]) for k in kinds]  # type: ignore[index]
    b = Builder()
    parameters = {f"p{i}": pointer(ELEMENTS[x.dtype.name]) for i, x in enumerate([*arrays, *out])}
    with b.kernel("k", **parameters) as places:
        outputs = b.library(name, *_values(b, args, places), results=results)
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        for value, place in zip(several, places[len(arrays) :], strict=True):
            (place + _offsets(b, value.shape)).store(value)
    named(executor).launch(b.module(), "k", (1,), [*arrays, *out])
    return out


def _type(argument: Any) -> Type:
    if isinstance(argument, np.ndarray):
        return tile(ELEMENTS[argument.dtype.name], argument.shape)
    return I1 if isinstance(argument, bool) else I32


def _values(b: Builder, arguments: Sequence[Any], places: Sequence[Expr]) -> list[Any]:
    """The arrays among `given` as tiles loaded from the first of `places`."""
    rest = iter(places)
    return [
        (next(rest) + _offsets(b, x.shape)).load() if isinstance(x, np.ndarray) else x
        for x in arguments
    ]


def _offsets(b: Builder, shape: tuple[int, ...]) -> Expr:
    """Of a tile of `shape`, row by row."""
    return b.arange(int(np.prod(shape))).reshape(*shape)
