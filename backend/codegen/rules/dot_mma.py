"""Matmuls by `mma`: fragments of A and B in registers, accumulators in those of C.

Padding along K is set to zero in both operands, so that it adds nothing. Padding along M and N only
affects rows and columns that are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tileir.backend.codegen.lowering import Fragment, Lowering, scalar_of
from tileir.backend.codegen.rules.cast import float_to_float, widen_pairs
from tileir.backend.layouts.dot_layouts import KOrder, k_order
from tileir.backend.layouts.mma import MmaInstruction, Vectors
from tileir.layout import Layout, Vector
from tileir.types import BF16, F8E4M3, F32, Element, Tile

Parts: TypeAlias = list[Fragment]
"""An operand as a sum of fragments that the instruction takes, largest first."""


def by_mma(lowering: Lowering, op: Any, mma: MmaInstruction, accumulators: Fragment) -> Fragment:
    """`accumulators`, in the layout of the dot's C, plus A times B."""
    left, right = (
        _parts(lowering, op.precision.value, mma, _mask_padding(lowering, value, k))
        for value, k in ((op.a, -1), (op.b, -2))
    )
    results = list(accumulators)
    signed = (op.lhs_signed, op.rhs_signed)
    blocks = list(_blocks(op, mma))
    for x, y in _pairs(left, right):
        for a, b, c in blocks:
            fragments = [x[r] for r in a], [y[r] for r in b], [results[r] for r in c]
            fragment = lowering.thread.mma(mma, *fragments, signed)
            for register, value in zip(c, fragment, strict=True):
                results[register] = value
    return results


def _pairs(left: Parts, right: Parts) -> Iterator[tuple[Fragment, Fragment]]:
    """Yield the pairs of parts to multiply, those with the smallest results first."""
    count = len(left)
    for rank in range(count - 1, -1, -1):
        for i in range(rank, -1, -1):
            yield left[i], right[rank - i]


def _blocks(op: Any, mma: MmaInstruction) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Yield the registers of A, B and C of every instruction; K varies slowest."""
    layouts = [v.type.layout for v in (op.a, op.b, op.c)]
    register_maps = [{v: r for r, v in enumerate(layout.registers)} for layout in layouts]
    offsets = [_offsets(v[0]) for v in (mma.a(), mma.b(), mma.c())]
    starts = [v for v in register_maps[2] if v[-2] % mma.m == 0 and v[-1] % mma.n == 0]
    order = k_order(mma, [v[-1] for v in layouts[0].lane[:2]])
    for k in range(0, layouts[0].extents[-1], mma.k):
        for *lead, m, n in starts:
            operand_starts = ((m, k), (k, n), (m, n))
            yield tuple(  # type: ignore[misc]
                [register_of[*lead, *_element(order, dim, start, move)] for move in moves]
                for register_of, dim, start, moves in zip(
                    register_maps, (1, 0, None), operand_starts, offsets, strict=True
                )
            )


def _element(order: KOrder, dim: int | None, start: Vector, move: Vector) -> Iterator[int]:
    """The coordinates of the element at `start` + `move`, with the index along dimension `dim`
    permuted by `order`."""
    for d, (x, y) in enumerate(zip(start, move, strict=True)):
        place = x + y
        if d != dim:
            yield place
            continue
        low = sum(step for i, step in enumerate(order) if place >> i & 1)
        yield (place >> len(order) << len(order)) + low


def _offsets(vectors: Vectors) -> list[Vector]:
    """The coordinates of a fragment's registers relative to the first one."""
    offsets: list[Vector] = [(0, 0)]
    for row, column in vectors:
        offsets += [(r + row, c + column) for r, c in offsets]
    return offsets


def _mask_padding(lowering: Lowering, operand: Any, k: int) -> tuple[Element, Fragment]:
    """The element type and the fragment of an operand, with zeros where K is padded."""
    tile: Tile = operand.type
    layout: Layout = tile.layout
    element, values = scalar_of(tile), lowering.fragment(operand)
    if layout.extents[k] == tile.shape[k]:
        return element, values
    shape = list(layout.extents)
    shape[k] = tile.shape[k]
    zero = lowering.thread.constant(element, 0)
    results: Fragment = []
    for register, value in enumerate(values):
        inside = lowering.inside(layout, tuple(shape), register)
        if inside == "false":
            results.append(zero)
        elif inside is None:
            results.append(value)
        else:
            results.append(lowering.thread.select(element, inside, value, zero))
    return element, results


def _parts(
    lowering: Lowering, precision: str, mma: MmaInstruction, operand: tuple[Element, Fragment]
) -> Parts:
    """The fragments into which `precision` splits an operand. The sum of the MMAs of all pairs of
    them is A times B."""
    element, values = operand
    if element is not F32:
        return [_as_operands(lowering, element, mma.operand, values)]
    if precision == "tf32":
        return [list(values)]  # the instruction ignores the low bits, as wgmma does
    count = {"tf32x3": 2, "bf16x3": 2, "bf16x6": 3}[precision]
    rounded = _rounding(lowering, mma)
    parts: Parts = [[] for _ in range(count)]
    for x in values:
        for i in range(count):
            part, wide = rounded(x)
            parts[i].append(part)
            if i + 1 < count:
                x = _remainder(lowering, x, wide)
    return parts


def _as_operands(
    lowering: Lowering, element: Element, target: Element, values: Fragment
) -> Fragment:
    t = lowering.thread
    if element is target:
        return values
    if element is F8E4M3 and t.f8_conversion:
        return widen_pairs(t, target, values)
    return [float_to_float(t, element, target, x, "rn", False) for x in values]


def _rounding(lowering: Lowering, mma: MmaInstruction) -> Callable[[Any], tuple[Any, Any]]:
    """A function from an f32 to the nearest operand element, and to that element as an f32."""
    thread = lowering.thread

    def tf32(x: Any) -> tuple[Any, Any]:
        rounded = thread.round_tf32(x)
        return rounded, rounded

    def bf16(x: Any) -> tuple[Any, Any]:
        rounded = thread.convert("fptrunc", F32, BF16, x)
        return rounded, thread.convert("fpext", BF16, F32, rounded)

    return bf16 if mma.operand is BF16 else tf32


def _remainder(lowering: Lowering, x: Any, part: Any) -> Any:
    """`x - part`, 0 where the part is infinite or NaN."""
    thread = lowering.thread
    zero = thread.binary("fsub", F32, part, part)
    finite = thread.compare("ord", F32, zero, zero)
    difference = thread.binary("fsub", F32, x, part)
    return thread.select(F32, finite, difference, thread.constant(F32, 0))
