"""Values for the operands of a cell for which its op is defined."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.machine import dtype_of
from tileir.op import Op
from tileir.types import (
    F4E2M1,
    F8E8M0,
    I1,
    I4,
    I8,
    Element,
    Pointer,
    Scalar,
    Type,
    element_of,
    shape_of,
)

Array = np.ndarray[Any, Any]
_SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1e-40, -2.5)
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_SHIFTS = ("shl", "lshr", "ashr")
_REDUCTIONS = ("reduce", "scan", "dot", "dot_scaled", "atomic_rmw", "descriptor_reduce")


def numbers(random: np.random.Generator, op: Op, name: str, kind: Type, count: int) -> Array:
    """`count` elements of the operand `name` of `op`, of type `kind`; zeros for a result ("")."""
    element: Any = element_of(kind)
    dtype = _dtype(element)
    if name in ("", "false"):
        return np.zeros(count, dtype)
    restricted = _restricted_operand(random, op, name, count) if op.inputs else None
    if restricted is not None:
        return restricted.astype(dtype)
    if isinstance(element, Pointer):
        return random.integers(0, 1 << 62, count).astype(dtype)
    assert isinstance(element, Scalar)
    if element is I1:
        return random.integers(0, 2, count).astype(bool)
    if element.is_integer and element is not I4:
        return _integers(random, op, name, element, count)
    return _floats(random, op, element, count).astype(dtype)


def _dtype(element: Element) -> Any:
    if isinstance(element, Pointer):
        return np.dtype(np.uint64)
    return np.dtype(np.float32) if element in (I4, F4E2M1) else dtype_of(element)


def _may_not_wrap(op: Op) -> bool:
    return getattr(getattr(op, "overflow", None), "value", "none") != "none"


def _restricted_operand(random: np.random.Generator, op: Op, name: str, count: int) -> Array | None:
    """Operands for an op that is defined only for some values; None for other ops."""
    word = op.mnemonic
    if element_of(op.inputs[0].type) is I1 and name == "rhs" and word in (*_DIVISIONS, *_SHIFTS):
        return np.full(count, word in _DIVISIONS)
    if element_of(op.inputs[0].type) is I1 and name == "rhs" and _may_not_wrap(op):
        return np.zeros(count, bool)
    if word in ("assume", "assert"):
        return np.ones(count, bool)
    if word == "gather" and name == "index":
        return random.integers(0, min(shape_of(op.source.type)[op.axis], 127), count)  # type: ignore[attr-defined]
    if word in ("extract_slice", "insert_slice") and name == "offsets":
        return np.zeros(count)
    if word == "histogram" and name == "value":
        return random.integers(0, 16, count)
    if word == "dot_scaled" and name.endswith("scale"):
        scale_type = element_of(getattr(op, name).type)
        return (
            random.integers(122, 132, count).astype(np.uint8).view(np.int8)
            if scale_type is I8
            else None
        )
    if word.startswith("descriptor") and name in ("indices", "column"):
        return random.integers(-1, 3, count)
    if word.startswith("descriptor") and name == "index":
        return random.permutation(np.arange(count)) if count > 3 else np.arange(count)
    return None


def _integers(random: np.random.Generator, op: Op, name: str, element: Scalar, count: int) -> Array:
    word, half = op.mnemonic, 1 << (element.bits - 1)
    if word in _SHIFTS and name == "rhs":
        return random.integers(0, element.bits, count).astype(dtype_of(element))
    if _may_not_wrap(op):
        top = 8 if word == "mul" else 50
        low, high = sorted((top, 2 * top)) if name == "lhs" else (1, top)
        low, high = (low % 10 + 1, 11) if word == "mul" else (low, high)
        return random.integers(low, high, count).astype(dtype_of(element))
    integers = random.integers(-half, half - 1, count, endpoint=True, dtype=np.int64)
    if count > 4:
        integers[:4] = (0, -1, half - 1, -half)
    if word in _DIVISIONS and name == "rhs":
        integers = np.where(integers == 0, 1, integers)
    return integers.astype(dtype_of(element))


def _floats(random: np.random.Generator, op: Op, element: Scalar, count: int) -> Array:
    if element is F8E8M0:
        return 2.0 ** random.integers(-6, 6, count)
    word = op.mnemonic
    approximate = getattr(getattr(op, "fast", None), "value", "none") in ("approx", "fast")
    if approximate:
        return random.uniform(0.1, 1.2, count)
    if word in ("fptosi", "fptoui") and not op.saturate:  # type: ignore[attr-defined]
        top = 0.9 if element_of(op.to) is I1 else 100.0  # type: ignore[attr-defined]
        return random.uniform(*((0.0, top + 1) if word == "fptoui" else (-top - 1, top)), count)
    if word in _REDUCTIONS:
        multiplies = getattr(getattr(op, "combiner", None), "value", None) == "fmul"
        signs = random.choice((-1.0, 1.0), count)
        return (
            signs * random.uniform(0.8, 1.25, count) if multiplies else random.normal(0, 2, count)
        )
    floats = random.normal(0, 4.0, count)
    special = min(count, len(_SPECIAL))
    floats[:special] = random.permutation(_SPECIAL)[:special]
    return floats
