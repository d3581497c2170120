"""Matrix products by `mma`: fragments of A and B in registers, sums in those of C.

What pads K is zero in both factors, so that padding adds nothing; what pads M and N stays in the
rows and columns that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tileir.backend.codegen.lowering import Fragment, Lowering, scalar_of
from tileir.backend.codegen.rules.cast import float_to_float
from tileir.backend.layouts.mma import MmaInstruction, Vectors
from tileir.layout import Layout, Vector
from tileir.types import BF16, F32, Element, Tile

Parts: TypeAlias = list[Fragment]
"""A factor as a sum of fragments that the instruction takes, largest first."""


def by_mma(lowering: Lowering, op: Any, mma: MmaInstruction, sums: Fragment) -> Fragment:
    """`sums`, in the layout of the dot's C, plus the product."""
    left, right = (
        _parts(lowering, op.precision.value, mma, _masked(lowering, value, k))
        for value, k in ((op.a, -1), (op.b, -2))
    )
    found = list(sums)
    signed = (op.lhs_signed, op.rhs_signed)
    blocks = list(_blocks(op, mma))
    for x, y in _pairs(left, right):
        for a, b, c in blocks:
            fragments = [x[r] for r in a], [y[r] for r in b], [found[r] for r in c]
            made = lowering.thread.mma(mma, *fragments, signed)
            for register, value in zip(c, made, strict=True):
                found[register] = value
    return found


def _pairs(left: Parts, right: Parts) -> Iterator[tuple[Fragment, Fragment]]:
    """The products to add, smallest first."""
    count = len(left)
    for rank in range(count - 1, -1, -1):
        for i in range(rank, -1, -1):
            yield left[i], right[rank - i]


def _blocks(op: Any, mma: MmaInstruction) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Registers of A, B and C of every instruction, along K slowest."""
    layouts = [v.type.layout for v in (op.a, op.b, op.c)]
    where = [{v: r for r, v in enumerate(it.registers)} for it in layouts]
    offsets = [_offsets(v[0]) for v in (mma.a(), mma.b(), mma.c())]
    starts = [v for v in where[2] if v[-2] % mma.m == 0 and v[-1] % mma.n == 0]
    for k in range(0, layouts[0].extents[-1], mma.k):
        for *lead, m, n in starts:
            near = ((m, k), (k, n), (m, n))
            yield tuple(  # type: ignore[misc]
                _registers(known, tuple(lead), start, moves)
                for known, start, moves in zip(where, near, offsets, strict=True)
            )


def _registers(
    known: Mapping[Vector, int], lead: Vector, start: Vector, moves: Sequence[Vector]
) -> list[int]:
    return [known[*lead, start[0] + m[0], start[1] + m[1]] for m in moves]


def _offsets(vectors: Vectors) -> list[Vector]:
    """Coordinates of a fragment's registers from its first."""
    found: list[Vector] = [(0, 0)]
    for row, column in vectors:
        found += [(r + row, c + column) for r, c in found]
    return found


def _masked(lowering: Lowering, operand: Any, k: int) -> tuple[Element, Fragment]:
    """The fragment of a factor with zeros where K is padded."""
    tile: Tile = operand.type
    layout: Layout = tile.layout
    element, values = scalar_of(tile), lowering.fragment(operand)
    if layout.extents[k] == tile.shape[k]:
        return element, values
    shape = list(layout.extents)
    shape[k] = tile.shape[k]
    zero = lowering.thread.constant(element, 0)
    found: Fragment = []
    for register, value in enumerate(values):
        inside = lowering.inside(layout, tuple(shape), register)
        if inside == "false":
            found.append(zero)
        elif inside is None:
            found.append(value)
        else:
            found.append(lowering.thread.select(element, inside, value, zero))
    return element, found


def _parts(
    lowering: Lowering, precision: str, mma: MmaInstruction, factor: tuple[Element, Fragment]
) -> Parts:
    """The fragments whose products make up the product at `precision`."""
    element, values = factor
    if element is not F32:
        return [[_as_factor(lowering, element, mma.operand, x) for x in values]]
    count = {"tf32": 1, "tf32x3": 2, "bf16x3": 2, "bf16x6": 3}[precision]
    rounded = _rounding(lowering, mma)
    found: Parts = [[] for _ in range(count)]
    for x in values:
        for i in range(count):
            part, wide = rounded(x)
            found[i].append(part)
            if i + 1 < count:
                x = _rest(lowering, x, wide)
    return found


def _as_factor(lowering: Lowering, element: Element, factor: Element, x: Any) -> Any:
    if element is factor:
        return x
    return float_to_float(lowering.thread, element, factor, x, "rn", False)


def _rounding(lowering: Lowering, mma: MmaInstruction) -> Callable[[Any], tuple[Any, Any]]:
    """A function of an f32: the factor nearest to it, and that as an f32."""
    thread = lowering.thread

    def tf32(x: Any) -> tuple[Any, Any]:
        found = thread.round_tf32(x)
        return found, found

    def bf16(x: Any) -> tuple[Any, Any]:
        found = thread.convert("fptrunc", F32, BF16, x)
        return found, thread.convert("fpext", BF16, F32, found)

    return bf16 if mma.operand is BF16 else tf32


def _rest(lowering: Lowering, x: Any, part: Any) -> Any:
    """`x - part`, 0 where the part is infinite or NaN."""
    thread = lowering.thread
    nothing = thread.binary("fsub", F32, part, part)
    finite = thread.compare("ord", F32, nothing, nothing)
    rest = thread.binary("fsub", F32, x, part)
    return thread.select(F32, finite, rest, thread.constant(F32, 0))
