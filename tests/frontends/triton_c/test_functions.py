"""Functions of Triton-C on tiles of every integer type, against numpy; atomic accesses under masks
and predicates."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tests.sizes import for_each
from tileir.frontends.triton_c import parse

TYPES = {
    "char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16,
    "int": np.int32, "unsigned int": np.uint32, "long": np.int64, "unsigned long": np.uint64,
}  # fmt: skip
Array = np.ndarray[Any, Any]


def promoted_type(kind: Any) -> Any:
    """The type in which C computes with numbers of a type."""
    return np.int32 if np.dtype(kind).itemsize < 4 else kind


def absolute(x: Array) -> Array:
    return x if x.dtype.kind == "u" else np.abs(x)


@for_each("name", TYPES)
def test_functions_of_integers_are_those_of_their_signs(name: str) -> None:
    kind = TYPES[name]
    ends, wide = np.iinfo(kind), promoted_type(kind)
    x = np.array([ends.min, ends.min + 1, 0, 1, 2, ends.max // 2 + 1, ends.max - 1, ends.max], kind)
    y = np.roll(x, 3)
    out = np.zeros(4 * 8, wide)
    result = {np.int32: "int"}.get(wide, name)
    text = f"""kernel void k({name}* x, {name}* y, {result}* out) {{
        int i[8] = 0 ... 8;
        {name} a[8] = *(x + i); {name} b[8] = *(y + i);
        *(out + i) = max(a, b); *(out + 8 + i) = min(a, b); *(out + 16 + i) = abs(a);
        {name} c[8] = 100; *(out + 24) = sum(c, 0);
    }}"""
    parse(text).kernel()[(1,)](x, y, out, on="interpreter")
    a, b = x.astype(wide), y.astype(wide)
    with np.errstate(over="ignore"):
        assert (out[:8] == np.maximum(a, b)).all() and (out[8:16] == np.minimum(a, b)).all()
        assert (out[16:24] == absolute(a)).all()
    assert out[24] == 800


CONDITIONS: dict[str, Callable[[Array], Array]] = {
    "i < 5": lambda i: i < 5, "i > 2": lambda i: i > 2, "(i & 1) == 0": lambda i: i % 2 == 0,
}  # fmt: skip
UPDATES = {
    "atomic_add(out + i, 3{})": 7 + 3,
    "atomic_xchg(out + i, 3{})": 3,
    "@({}) atomic_cas(out + i, 7, 3)": 3,
    "@({}) *(out + i) = 3": 3,
}  # fmt: skip
"""Updates of numbers that are 7 under a condition, and what they are then."""


@for_each(("outer", "inner", "update"), product(CONDITIONS, CONDITIONS, UPDATES))
def test_updates_are_made_where_every_condition_holds(outer: str, inner: str, update: str) -> None:
    own = inner if update.startswith("@") else f", {inner}"
    text = f"int i[8] = 0 ... 8; @({outer}) {update.format(own)};"
    out, i = np.full(8, 7, np.int32), np.arange(8)
    parse(f"kernel void k(int* out) {{ {text} }}").kernel()[(1,)](out, on="interpreter")
    chosen = CONDITIONS[outer](i) & CONDITIONS[inner](i)
    assert out.tolist() == np.where(chosen, UPDATES[update], 7).tolist()
