"""Numbers for the operands of a cell, such that its op has a meaning on them."""

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
_SUMS = ("reduce", "scan", "dot", "dot_scaled", "atomic_rmw", "descriptor_reduce")


def numbers(random: np.random.Generator, op: Op, name: str, kind: Type, room: int) -> Array:
    """`room` elements of the operand `name` of `op`, of type `kind`; zeros for a result ("")."""
    element: Any = element_of(kind)
    dtype = _dtype(element)
    if name in ("", "false"):
        return np.zeros(room, dtype)
    chosen = _chosen(random, op, name, room) if op.inputs else None
    if chosen is not None:
        return chosen.astype(dtype)
    if isinstance(element, Pointer):
        return random.integers(0, 1 << 62, room).astype(dtype)
    assert isinstance(element, Scalar)
    if element is I1:
        return random.integers(0, 2, room).astype(bool)
    if element.is_integer and element is not I4:
        return _integers(random, op, name, element, room)
    return _floats(random, op, element, room).astype(dtype)


def _dtype(element: Element) -> Any:
    if isinstance(element, Pointer):
        return np.dtype(np.uint64)
    return np.dtype(np.float32) if element in (I4, F4E2M1) else dtype_of(element)


def _may_not_wrap(op: Op) -> bool:
    return getattr(getattr(op, "overflow", None), "value", "none") != "none"


def _chosen(random: np.random.Generator, op: Op, name: str, room: int) -> Array | None:
    """Operands that an op has a meaning on only where they are of a kind."""
    word = op.mnemonic
    if element_of(op.inputs[0].type) is I1 and name == "rhs" and word in (*_DIVISIONS, *_SHIFTS):
        return np.full(room, word in _DIVISIONS)
    if element_of(op.inputs[0].type) is I1 and name == "rhs" and _may_not_wrap(op):
        return np.zeros(room, bool)
    if word in ("assume", "assert"):
        return np.ones(room, bool)
    if word == "gather" and name == "index":
        return random.integers(0, min(shape_of(op.source.type)[op.axis], 127), room)  # type: ignore[attr-defined]
    if word in ("extract_slice", "insert_slice") and name == "offsets":
        return np.zeros(room)
    if word == "histogram" and name == "value":
        return random.integers(0, 16, room)
    if word == "dot_scaled" and name.endswith("scale"):
        held = element_of(getattr(op, name).type)
        return (
            random.integers(122, 132, room).astype(np.uint8).view(np.int8) if held is I8 else None
        )
    if word.startswith("descriptor") and name in ("indices", "column"):
        return random.integers(-1, 3, room)
    if word.startswith("descriptor") and name == "index":
        return random.permutation(np.arange(room)) if room > 3 else np.arange(room)
    return None


def _integers(random: np.random.Generator, op: Op, name: str, element: Scalar, room: int) -> Array:
    word, half = op.mnemonic, 1 << (element.bits - 1)
    if word in _SHIFTS and name == "rhs":
        return random.integers(0, element.bits, room).astype(dtype_of(element))
    if _may_not_wrap(op):
        top = 8 if word == "mul" else 50
        low, high = sorted((top, 2 * top)) if name == "lhs" else (1, top)
        low, high = (low % 10 + 1, 11) if word == "mul" else (low, high)
        return random.integers(low, high, room).astype(dtype_of(element))
    integers = random.integers(-half, half - 1, room, endpoint=True, dtype=np.int64)
    if room > 4:
        integers[:4] = (0, -1, half - 1, -half)
    if word in _DIVISIONS and name == "rhs":
        integers = np.where(integers == 0, 1, integers)
    return integers.astype(dtype_of(element))


def _floats(random: np.random.Generator, op: Op, element: Scalar, room: int) -> Array:
    if element is F8E8M0:
        return 2.0 ** random.integers(-6, 6, room)
    word = op.mnemonic
    approximate = getattr(getattr(op, "fast", None), "value", "none") in ("approx", "fast")
    if approximate:
        return random.uniform(0.1, 1.2, room)
    if word in ("fptosi", "fptoui") and not op.saturate:  # type: ignore[attr-defined]
        top = 0.9 if element_of(op.to) is I1 else 100.0  # type: ignore[attr-defined]
        return random.uniform(*((0.0, top + 1) if word == "fptoui" else (-top - 1, top)), room)
    if word in _SUMS:
        multiplies = getattr(getattr(op, "combiner", None), "value", None) == "fmul"
        signs = random.choice((-1.0, 1.0), room)
        return signs * random.uniform(0.8, 1.25, room) if multiplies else random.normal(0, 2, room)
    floats = random.normal(0, 4.0, room)
    count = min(room, len(_SPECIAL))
    floats[:count] = random.permutation(_SPECIAL)[:count]
    return floats
