"""Dots of a pipelined loop that warpgroups compute (`wgmma`), and where their operands are.

PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": B is in shared memory, A there or in
registers; 16-bit operands may be contiguous along any dimension, others are along K.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs

from tileir.analysis.loops import Loop
from tileir.analysis.uses import arguments, defining_blocks, definitions, uses
from tileir.backend.codegen.emit.matrix_descriptors import SmemMatrix
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.dot_layouts import mma_of
from tileir.backend.layouts.wgmma import (
    HALVES,
    WARPS,
    columns_of,
    swizzle_of,
    warpgroup_grid,
    why_not_wgmma,
)
from tileir.backend.shared_memory.shared_tile import CHUNK, SharedTile
from tileir.backend.software_pipeline.store_plan import StoredOperand
from tileir.effects import Effects
from tileir.errors import CompileError
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.ops.rearrange import Join
from tileir.ops.shape import Broadcast, Reshape, Trans
from tileir.types import Element, Tile, element_of, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.backend.software_pipeline.expand import StagedLoad

Dimensions: TypeAlias = tuple[int | None, ...]
"""For each dimension of a tile, the one of an operand along which it runs."""

Source = tuple[SharedTile, bool]
"""The placement of a stage that holds an operand, and whether it holds the operand transposed."""


@attrs.frozen(eq=False)
class WarpgroupOperands:
    """The sources of the operands of a dot by `wgmma`.

    With `a_staged` and `b_staged`, the operand is in a stage of the copies of its loop. With
    `a_stored`, A does not change in the loop and is stored before it; `b_fixed` is the part of B
    for which this is true. Otherwise A is in registers, and B is stored to `b_place` in every
    iteration.
    """

    a_staged: bool
    a_stored: bool
    b_staged: bool
    b_fixed: StoredOperand | None
    b_place: SharedTile | None

    @property
    def a_in_registers(self) -> bool:
        return not (self.a_staged or self.a_stored)

    @property
    def b_is_there(self) -> bool:
        """Whether no iteration stores B."""
        return self.b_staged or self.b_fixed is not None


def panel_layout(
    element: Element, shape: tuple[int, ...], fast: int, part: int = 0
) -> SharedTile | None:
    """A stage of rows along `fast` in panels, as matrix descriptors describe them; None where
    there are no panels of 32 bytes or more. A panel begins after each `part` elements of a row, if
    there is a part."""
    rows, row = shape[1 - fast], gcd(shape[fast], part) * element.bytes
    swizzle = swizzle_of(rows, row)
    panel = (CHUNK << swizzle) // element.bytes
    return SharedTile(element, shape, fast, swizzle, panel=panel) if swizzle else None


def stored_place(tile: Tile, k: int) -> SharedTile | None:
    """The placement of an operand that threads store, `k` the dimension that is K: rows along the
    last dimension where the operand may be stored so."""
    element = tile.element
    last = panel_layout(element, tile.shape, 1) if element in HALVES or k == 1 else None
    return last or panel_layout(element, tile.shape, k)


def warpgroup_operands(
    function: Function, loop: Loop, loads: Sequence[StagedLoad], warps: int
) -> Mapping[Dot, WarpgroupOperands]:
    """The dots of `loop` that `warps` warps compute as warpgroups. An operand of such a dot is
    copied ahead by one of `loads`, or computed from such a load, or B does not change in the
    loop."""
    from tileir.backend.software_pipeline.expand import source_of

    if not warps or warps % WARPS:
        return {}
    staged = {load.op.results[0]: load for load in loads}
    fed = {dot for load in loads for dot in load.dots}
    stages = {load: stage_in_panels(function, load, warps) for load in loads}
    operands: dict[Dot, WarpgroupOperands] = {}
    for dot in _dots(function, loop):
        a, b = (_place(source_of(function, staged, x), stages) for x in (dot.a, dot.b))
        if not is_computed(dot, warps):
            continue
        a_fits = a is not None and fits(dot, "a", a, warps)
        b_fits = b is not None and fits(dot, "b", b, warps)
        fixed = None if b_fits else _fixed_b(function, loop, dot, warps)
        stored = None if b_fits or fixed else _place_of_b(function, dot, warps)
        if fixed is None and (dot not in fed or not (b_fits or stored)):
            continue
        a_stored = not a_fits and _is_fixed(function, loop, dot.a)
        operands[dot] = WarpgroupOperands(a_fits, a_stored, b_fits, fixed, stored)
    return operands


def dots_through_registers(function: Function, value: Value, warps: int) -> list[Dot]:
    """The dots in the innermost loop of `value`, computed by warpgroups, whose operands ops on
    registers compute from it, or that it looks up in a table. If `warps` is 0: the dots of any
    block that `mma` computes."""
    from tileir.backend.software_pipeline.expand import in_one_loop, passed_on

    origin = definitions(function)[value]
    fed: dict[Dot, None] = {}
    waiting, seen = [value], {value}
    while waiting:
        value = waiting.pop()
        for op in uses(function).get(value, ()):
            if isinstance(op, Dot):
                here = not warps or in_one_loop(function, origin, [op])
                if op.c not in seen and here:
                    fed[op] = None
                continue
            following = passed_on(function, op, value)
            if not op.effects & ~Effects.TRAP or _looks_up(function, op):
                following += op.results
            more = [v for v in following if v not in seen and isinstance(v.type, Tile)]
            seen.update(more)
            waiting += more
    if not warps:
        return [dot for dot in fed if mma_of(dot) is not None]
    return [dot for dot in fed if warps % WARPS == 0 and is_computed(dot, warps)]


def _looks_up(function: Function, op: Op) -> bool:
    """Whether `op` loads single elements, whose addresses are not those of neighbours."""
    if not isinstance(op, Load) or op.volatile or not isinstance(op.pointer.type, Tile):
        return False
    widths = AccessWidths(function)
    return widths.width(op, widths.nearest(op.pointer)) == 1


def _dots(function: Function, loop: Loop) -> Iterator[Dot]:
    return (op for x in loop.order for op in function.blocks[x].ops if isinstance(op, Dot))


def stage_in_panels(function: Function, load: StagedLoad, warps: int) -> SharedTile | None:
    """A stage of `load` in panels. If warpgroups divide the columns of a dot whose B it holds, the
    columns of each begin a panel, where this leaves panels."""
    from tileir.backend.software_pipeline.expand import source_of

    place, part = load.place, 0
    for dot in load.dots:
        source = source_of(function, {load.op.results[0]: load}, dot.b)
        if source is not None and source[1] == (place.fast == 0) and is_computed(dot, warps):
            part = gcd(part, columns_of_group(dot, warps))
    divided = panel_layout(place.element, place.shape, place.fast, part)
    return divided or panel_layout(place.element, place.shape, place.fast)


def panels_that_fit(
    dot: Dot, name: str, stored: tuple[Tile, bool], along: int, warps: int
) -> SharedTile | None:
    """A stage of an operand that threads store, with rows along `along` in panels: the widest that
    matrix descriptors describe; None where there are none. `stored`: the tile, and whether it is
    the operand transposed."""
    kind, transposed = stored
    divided = name == "b" and transposed == (along == 0)
    for part in (0, columns_of_group(dot, warps)) if divided else (0,):
        place = panel_layout(kind.element, kind.shape, along, part)
        if place is not None and fits(dot, name, (place, transposed), warps):
            return place
    return None


def columns_of_group(dot: Dot, warps: int) -> int:
    """The columns of a dot that each warpgroup computes."""
    return shape_of(dot.c.type)[1] // warpgroup_grid(dot, warps)[1]


def _place(
    source: tuple[StagedLoad, bool] | None, stages: Mapping[StagedLoad, SharedTile | None]
) -> Source | None:
    """The placement of an operand that is copied ahead, in panels."""
    if source is None:
        return None
    load, transposed = source
    place = stages[load]
    return None if place is None else (place, transposed)


def is_computed(dot: Dot, warps: int) -> bool:
    """Whether this number of warps can compute the dot as warpgroups."""
    if dot.predicate is not None or why_not_wgmma(dot) is not None:
        return False
    try:
        warpgroup_grid(dot, warps)
    except CompileError:
        return False
    return True


def fits(dot: Dot, name: str, source: Source, warps: int) -> bool:
    """Whether matrix descriptors can describe an operand in its placement: the part of each
    warpgroup, and that of each instruction."""
    place, transposed = source
    k_last = (name == "a") != transposed
    matrix = SmemMatrix(place, k_last == (place.fast == 1))
    if matrix.unfit() is not None:
        return False
    if not matrix.k_contiguous and place.element not in HALVES:
        return False
    if name == "a":
        return True
    part, whole = columns_of_group(dot, warps), shape_of(dot.c.type)[1]
    columns = columns_of(part, cast(Element, element_of(dot.a.type)))
    return columns is not None and all(
        matrix.reaches(first) for all_columns, first in ((whole, part), (part, columns))
        if first < all_columns
    )  # fmt: skip


def _place_of_b(function: Function, dot: Dot, warps: int) -> SharedTile | None:
    """The placement of a B that threads store: along the dimension in which its elements were
    contiguous, if matrix descriptors describe that. None for narrow tiles, for which the fence and
    the barrier of each store cost more than `wgmma` saves."""
    kind = cast(Tile, dot.b.type)
    usual = stored_place(kind, 0)
    if usual is None or panels_that_fit(dot, "b", (kind, False), usual.fast, warps) is None:
        return None
    fast = contiguous_dimension(function, dot.b)
    for along in (fast, 1 - fast):
        place = panels_that_fit(dot, "b", (kind, False), along, warps)
        if place is not None:
            return place
    return None


def contiguous_dimension(function: Function, operand: Operand) -> int:
    """The dimension in which the elements of an operand were contiguous in memory, where it is
    computed of loads, element by element, also of halves that are interleaved, or in which words
    are repeated; else the last one. Loads of several branches may be passed to it."""
    origin, widths, passed = definitions(function), AccessWidths(function), arguments(function)
    waiting: list[tuple[Operand, Dimensions]] = [(operand, (0, 1))]
    loaded, seen = set[int | None](), set[Operand]()
    while waiting:
        value, dims = waiting.pop()
        if value in seen or not isinstance(value, Value) or not isinstance(value.type, Tile):
            continue
        seen.add(value)
        op = origin.get(value)
        if op is None:
            waiting += [(v, dims) for v in passed.get(value, ())]
        elif isinstance(op, Load):
            loaded.add(dims[widths.nearest(op.pointer)])
        elif op.elementwise:
            waiting += [(v, dims) for v in op.inputs if shape_of(v.type) == shape_of(value.type)]
        elif isinstance(op, Broadcast):
            loaded.update(_dimensions_of_repetition(op, dims))
        elif isinstance(op, Trans):
            waiting.append((op.value, tuple(dims[op.order.index(d)] for d in range(len(dims)))))
        elif isinstance(op, Join):
            waiting += [(v, dims[:-1]) for v in op.inputs]
        elif isinstance(op, Reshape):
            waiting.append((op.value, _before_reshape(op, dims)))
    return loaded.pop() or 0 if len(loaded) == 1 and None not in loaded else 1


def _dimensions_of_repetition(op: Broadcast, dims: Dimensions) -> Iterator[int | None]:
    """The dimensions of an operand, `dims` by those of the result of `op`, along which `op` repeats
    each of several elements."""
    source, result = shape_of(op.value.type), shape_of(op.result.type)
    for d, (n, m) in enumerate(zip(source, result, strict=True)):
        if n != m and any(dims[e] == dims[d] and source[e] > 1 for e in range(d)):
            yield dims[d]


def _before_reshape(op: Reshape, dims: Dimensions) -> Dimensions:
    """`dims` of the operand of a reshape: of dimensions that become one, or parts of one."""
    old, (new, dims) = shape_of(op.value.type), _merge_parts(shape_of(op.result.type), dims)
    result: list[int | None] = []
    at, extent = 0, 1
    for i, n in enumerate(old):
        while at < len(new) and new[at] == 1 and n > 1:
            at += 1
        extent *= n
        fits_in = at < len(new) and new[at] % extent == 0
        result.append(dims[at] if fits_in else None)
        if not fits_in:
            return (*result, *(None for _ in old[i + 1 :]))
        if extent == new[at]:
            at, extent = at + 1, 1
    return tuple(result)


def _merge_parts(shape: Sequence[int], dims: Dimensions) -> tuple[list[int], Dimensions]:
    """`shape` and its `dims`, with the neighbouring parts of a dimension as one."""
    extents, merged = list[int](), list[int | None]()
    for extent, dim in zip(shape, dims, strict=True):
        if merged and dim is not None and merged[-1] == dim:
            extents[-1] *= extent
        else:
            extents.append(extent)
            merged.append(dim)
    return extents, tuple(merged)


def _fixed_b(function: Function, loop: Loop, dot: Dot, warps: int) -> StoredOperand | None:
    """Return B, or the value that it is the transpose of, if it is stored before the loop: it is
    the same in all iterations, and matrix descriptors can describe it. Otherwise None."""
    op = definitions(function).get(cast(Value, dot.b))
    transposed = isinstance(op, Trans) and tuple(op.order) == (1, 0)
    value = op.value if isinstance(op, Trans) and transposed else dot.b
    if not _is_fixed(function, loop, value):
        return None
    kind = cast(Tile, value.type)
    place = stored_place(kind, 1 if transposed else 0)
    if place is not None:
        place = panels_that_fit(dot, "b", (kind, transposed), place.fast, warps)
    return None if place is None else StoredOperand(value, place, transposed)


def _is_fixed(function: Function, loop: Loop, operand: Operand) -> bool:
    """Whether an operand is the same in all iterations."""
    if not isinstance(operand, Value) or element_of(operand.type).bits % 8:  # type: ignore[union-attr]
        return False
    return defining_blocks(function).get(operand) not in loop.blocks
