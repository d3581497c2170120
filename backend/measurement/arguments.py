"""Keys of measurements, derived from the arguments of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def numbers_in(inputs: Mapping[str, Any]) -> dict[str, int]:
    """The integers among the arguments, by name."""
    integers = {k: v for k, v in inputs.items() if isinstance(v, (int, np.integer))}
    return {name: int(value) for name, value in integers.items() if not isinstance(value, bool)}


def footprint_of(inputs: Mapping[str, Any]) -> float:
    """The total size in bytes of the arrays among the arguments."""
    sizes = (getattr(v, "nbytes", 0) for v in inputs.values() if hasattr(v, "shape"))
    return float(sum(sizes))


def shape_of(inputs: Mapping[str, Any]) -> str:
    """The key of measurements on these arguments: `a=float16[64,32] n=931`. Floats are left out."""
    return " ".join(_words(inputs, lambda n: n))


def shape_class(inputs: Mapping[str, Any]) -> str:
    """The class of the arguments, within which a choice carries over. Extents and integers above 16
    are rounded up to a power of two, and marked `/16` if 16 divides them."""
    return " ".join(_words(inputs, _bucket))


def _words(inputs: Mapping[str, Any], word: Callable[[int], int | str]) -> list[str]:
    words: list[str] = []
    for name in sorted(inputs):
        value = inputs[name]
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            extents = ",".join(str(word(int(n))) for n in value.shape)
            words.append(f"{name}={str(value.dtype).removeprefix('torch.')}[{extents}]")
        elif name in numbers_in({name: value}):
            words.append(f"{name}={word(int(value))}")
    return words


def _bucket(number: int) -> int | str:
    if abs(number) <= 16:
        return number
    power = 1 << (abs(number) - 1).bit_length()
    return f"{'-' if number < 0 else ''}~{power}{'' if number % 16 else '/16'}"
