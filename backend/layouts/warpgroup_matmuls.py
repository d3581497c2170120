"""Which dots warpgroups can compute (`wgmma`), and how shared memory holds their operands.

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from typing import cast

from tileir.ops.dot import Dot, Precision
from tileir.refusal import Refusal
from tileir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    I8,
    I32,
    Element,
    element_of,
    shape_of,
)

HALVES = (F16, BF16)
"""Factors that `wgmma` reads from shared memory either way round (PTX ISA, "Asynchronous Warpgroup
Level Matrix Multiply-Accumulate": transposition is for 16-bit types alone)."""

_SUMS: dict[Element, tuple[Element, ...]] = {
    F16: (F16, F32), BF16: (F32,), F32: (F32,), F8E4M3: (F16, F32), F8E5M2: (F16, F32), I8: (I32,),
}  # fmt: skip
_ROWS, _COLUMNS, _DEPTH = 64, 8, 32
"""Rows of a warpgroup's product, columns it is a multiple of, bytes of K of one instruction."""
_WIDEST = 256
_SWIZZLES = ((3, 128), (2, 64), (1, 32))
_PATTERN = 8
"""Rows after which a swizzle repeats."""


def swizzle_of(rows: int, row: int) -> int:
    """The widest swizzle whose panels make up `rows` rows of `row` bytes; 0 where there is none,
    and for fewer rows than its pattern has."""
    if rows % _PATTERN:
        return 0
    return next((bits for bits, span in _SWIZZLES if row % span == 0), 0)


def why_not_wgmma(dot: Dot) -> Refusal | None:
    """Why `dot` is no product by warpgroups; None where it is one."""
    (m, n), k = shape_of(dot.c.type)[-2:], shape_of(dot.a.type)[-1]
    a, b, c = (cast(Element, element_of(x.type)) for x in (dot.a, dot.b, dot.c))
    if len(shape_of(dot.c.type)) != 2:
        return Refusal("it has batches")
    if c not in _SUMS.get(a, ()) or (a is F32 and dot.precision is not Precision.TF32):
        return Refusal(f"no product of {a} at precision {dot.precision.value} in {c}")
    if a.bits != b.bits or (a is I8 and b is not I8):
        return Refusal(f"no product of {a} and {b}")
    step = 16 if a is I8 and n > 32 else _COLUMNS
    if m % _ROWS or n % step or n > _WIDEST or k * a.bytes % _DEPTH:
        return Refusal(f"no product of {m}x{k} and {k}x{n} {a}")
    if a.bits == 8 and a.is_float and dot.max_imprecise < k:
        return Refusal("sums of 8-bit products must be exact")
    return None
