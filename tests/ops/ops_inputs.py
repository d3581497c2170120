"""Operands for op tests: special values first, then random ones, undefined lanes nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.machine import Tensor, dtype_of
from tileir.types import Pointer, Scalar, Type, element_of, shape_of

SPECIAL_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, float("inf"), float("-inf"),
    float("nan"), 6e-8, -6e-8, 1e-40, 1.1754944e-38, 65504.0, 3e38, 448.0, 1e-3, 100.7, -7.0,
)  # fmt: skip
SPECIAL_INTEGERS = (0, 1, -1, 2, -2, 3, 7, -8, 127, -128, 32767, -32768, 2**31 - 1, -(2**31),
                    2**63 - 1, -(2**63), 5, 100)  # fmt: skip


def tensor(type: Type, seed: int) -> Tensor:
    """A value of `type` from `seed`: special values shuffled among random ones."""
    element, shape = element_of(type), shape_of(type)
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape, dtype=int))
    if isinstance(element, Pointer):
        data = (rng.integers(0, 1 << 30, count) * 8 + (1 << 40)).astype(np.uint64)
    else:
        assert isinstance(element, Scalar)
        data = numbers(element, count, rng)
    return Tensor(data.reshape(shape))


def numbers(element: Scalar, count: int, rng: Any) -> np.ndarray[Any, Any]:
    """`count` numbers of `element`: up to half of them special."""
    dtype = dtype_of(element)
    if element.is_integer:
        return integers(element, count, rng)
    spread = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
    special = rng.choice(SPECIAL_FLOATS, count)
    with np.errstate(all="ignore"):
        return np.where(rng.random(count) < 0.4, special, spread).astype(dtype)


def integers(element: Scalar, count: int, rng: Any) -> np.ndarray[Any, Any]:
    """`count` integers of `element`, its ends among them."""
    bits = element.bits
    if bits == 1:
        return rng.random(count) < 0.5
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    special = [n for n in SPECIAL_INTEGERS if low <= n <= high]
    values = np.where(
        rng.random(count) < 0.5,
        rng.choice(np.array(special, np.int64), count),
        rng.integers(low, high, count, dtype=np.int64, endpoint=True),
    )
    return values.astype(dtype_of(element))
