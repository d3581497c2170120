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
    *given: Any,
    results: Sequence[Type] | None = None,
    executor: str = "interpreter",
) -> list[np.ndarray]:
    """What the library's `name` makes of arrays, each a tile, and of numbers."""
    wanted = results and [str(t) for t in results]
    kinds = function(name, wanted, [str(_type(x)) for x in given]).results
    arrays = [x.copy() for x in given if isinstance(x, np.ndarray)]
    out = [np.zeros(shape_of(k), NAMES[element_of(k)]) for k in kinds]  # type: ignore[index]
    b = Builder()
    parameters = {f"p{i}": pointer(ELEMENTS[x.dtype.name]) for i, x in enumerate([*arrays, *out])}
    with b.kernel("k", **parameters) as places:
        made = b.library(name, *_values(b, given, places), results=results)
        several = made if isinstance(made, tuple) else (made,)
        for value, place in zip(several, places[len(arrays) :], strict=True):
            (place + _offsets(b, value.shape)).store(value)
    named(executor).launch(b.module(), "k", (1,), [*arrays, *out])
    return out


def _type(given: Any) -> Type:
    if isinstance(given, np.ndarray):
        return tile(ELEMENTS[given.dtype.name], given.shape)
    return I1 if isinstance(given, bool) else I32


def _values(b: Builder, given: Sequence[Any], places: Sequence[Expr]) -> list[Any]:
    """The arrays among `given` as tiles loaded from the first of `places`."""
    rest = iter(places)
    return [
        (next(rest) + _offsets(b, x.shape)).load() if isinstance(x, np.ndarray) else x
        for x in given
    ]


def _offsets(b: Builder, shape: tuple[int, ...]) -> Expr:
    """Of a tile of `shape`, row by row."""
    return b.arange(int(np.prod(shape))).reshape(*shape)
