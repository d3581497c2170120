"""Matmuls: by `mma`, or by multiply-adds on a micro-tile per thread.

A dot accumulates in the precision of its accumulator, or a higher one.
"""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.emit.shared_addresses import SharedTileWindow
from tileir.backend.codegen.emit.tile_access import load_tile, store_window
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.codegen.rules.cast import float_to_float
from tileir.backend.codegen.rules.dot_mma import by_mma
from tileir.backend.layouts.dot_layouts import operand_layouts
from tileir.backend.layouts.mma import instruction
from tileir.backend.shared_memory.fma_dot_staging import FmaDotStaging, in_registers, staging, steps
from tileir.layout import Layout, Vector
from tileir.types import F16, F32, I32, Element, Tile


def _dot(lowering: Lowering, op: Any) -> list[Fragment]:
    operand_element, total = scalar_of(op.a.type), scalar_of(op.c.type)
    accumulators = [_to_work(lowering, total, x) for x in lowering.fragment(op.c)]
    mma = instruction(operand_element, op.precision.value)
    if mma is not None:
        accumulators = by_mma(lowering, op, mma, accumulators)
    elif in_registers(op):
        left = _widen(lowering, op.lhs_signed, operand_element, lowering.fragment(op.a))
        right = _widen(lowering, op.rhs_signed, operand_element, lowering.fragment(op.b))
        layouts = op.a.type.layout, op.b.type.layout
        accumulators = _multiply_accumulate(
            lowering, op.c.type, layouts, (left, right), accumulators
        )
    else:
        accumulators = _dot_from_smem(lowering, op, accumulators)
    return [[_from_work(lowering, total, x) for x in accumulators]]


def _dot_from_smem(lowering: Lowering, op: Any, accumulators: Fragment) -> Fragment:
    """A dot whose operands are in shared memory, loaded chunk by chunk along K."""
    operand_tiles, total = staging(op), scalar_of(op.c.type)
    assert operand_tiles is not None
    places, k, each = operand_tiles.at(lowering.scratch[op]), op.a.type.shape[-1], steps(op)
    for place, value in ((places.a, op.a), (places.b, op.b)):
        store_window(lowering, SharedTileWindow(place), value.type, lowering.fragment(value))
    lowering.thread.barrier()
    if each == k:
        return _chunk(lowering, op, places, None, k, accumulators)

    def step(index: Any, carried: Fragment) -> Fragment:
        start = lowering.thread.binary("mul", I32, index, lowering.thread.integer(each))
        return _chunk(lowering, op, places, start, each, carried)

    return lowering.thread.loop(k // each, [_work(total)] * len(accumulators), accumulators, step)


def _chunk(
    lowering: Lowering,
    op: Any,
    places: FmaDotStaging,
    start: Any,
    count: int,
    accumulators: Fragment,
) -> Fragment:
    """Accumulate `count` steps of K from `start` on (None: 0)."""
    a, b, layouts = op.a.type, op.b.type, operand_layouts(op.c.type.layout, count)
    left = Tile(a.element, (*a.shape[:-1], count), layouts[0])
    right = Tile(b.element, (*b.shape[:-2], count, b.shape[-1]), layouts[1])
    windows = (
        SharedTileWindow(places.a, moved=(None, start)),
        SharedTileWindow(places.b, moved=(start, None)),
    )
    operands = tuple(
        _widen(lowering, signed, tile.element, load_tile(lowering, window, tile))
        for signed, tile, window in zip(
            (op.lhs_signed, op.rhs_signed), (left, right), windows, strict=True
        )
    )
    return _multiply_accumulate(lowering, op.c.type, layouts, operands, accumulators)


def _multiply_accumulate(
    lowering: Lowering,
    c: Tile,
    layouts: tuple[Layout, Layout],
    operands: Any,
    accumulators: Fragment,
) -> Fragment:
    """Accumulate a thread's elements of C from its elements of A and B."""
    work = _work(scalar_of(c))
    where = [{v: r for r, v in enumerate(layout.registers)} for layout in layouts]
    depth = layouts[0].extents[-1]
    results = list(accumulators)
    for k in range(depth):
        for register, vector in enumerate(c.layout.registers):
            a = operands[0][where[0][*vector[:-1], k]]
            b = operands[1][where[1][_at_k(vector, k)]]
            results[register] = _multiply_add(lowering, work, a, b, results[register])
    return results


def _at_k(vector: Vector, k: int) -> Vector:
    return (*vector[:-2], k, vector[-1])


def _multiply_add(lowering: Lowering, work: Element, a: Any, b: Any, c: Any) -> Any:
    thread = lowering.thread
    if work.is_integer:
        return thread.binary("add", work, thread.binary("mul", work, a, b), c)
    return thread.intrinsic("fma", work, a, b, c)


def _widen(lowering: Lowering, signed: bool, element: Element, values: Fragment) -> Fragment:
    """The operands in the precision of the multiplication."""
    thread = lowering.thread
    if element.is_integer:
        name = "sext" if signed else "zext"
        return [thread.convert(name, element, I32, x) for x in values]
    return [float_to_float(thread, element, F32, x, "rn", False) for x in values]


def _work(element: Element) -> Element:
    """The element type in which a dot accumulates."""
    return F32 if element is F16 else element


def _to_work(lowering: Lowering, element: Element, x: Any) -> Any:
    return lowering.thread.convert("fpext", element, _work(element), x)


def _from_work(lowering: Lowering, element: Element, x: Any) -> Any:
    return lowering.thread.convert("fptrunc", _work(element), element, x)


RULES: dict[str, Rule] = {"dot": _dot}
