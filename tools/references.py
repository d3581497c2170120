"""The reference functions that metadata may name, in numpy with double precision.

Each takes numpy arrays and numbers, and returns the expected array. Metadata can name only these
functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def add(x: Any, y: Any) -> Any:
    """Elementwise sum."""
    return x + y


def relu(x: Any) -> Any:
    """Elementwise max(x, 0)."""
    return np.maximum(x, 0)


def softmax(x: Any) -> Any:
    """Softmax along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def matmul(a: Any, b: Any) -> Any:
    """Matmul of the last two axes."""
    return a @ b


def layer_norm(x: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    """Rows of `x` with mean 0 and variance 1, scaled by `weight`, shifted by `bias`."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * weight + bias


def total(x: Any) -> Any:
    """Sum of all elements, as an array of one."""
    return np.asarray([x.sum()])


def copy(x: Any) -> Any:
    """`x` itself."""
    return x


REFERENCES: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (add, copy, layer_norm, matmul, relu, softmax, total)
}
"""Every reference by the name metadata uses."""
