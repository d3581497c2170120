"""Shape ops that move elements between threads. They store elements to shared memory at row-major
addresses without padding, so that any extents are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, registers, scalar_of
from tileir.backend.layouts.shape_ops import origin, stays
from tileir.backend.shared_memory.conversion_plan import Placement, placement
from tileir.layout import Layout, Vector
from tileir.types import I1, I32, Element, Tile

Coordinates: TypeAlias = list[str]
"""One i32 per dimension."""

Moved: TypeAlias = Callable[[Coordinates], Coordinates]


def coordinates(lowering: Lowering, tile: Tile, register: int) -> Coordinates:
    """The coordinates of a register's element in its tile."""
    return [lowering.coordinate(tile.layout, register, d) for d in range(len(tile.shape))]


def address(lowering: Lowering, place: Placement, at: Coordinates) -> str:
    """The byte offset of the element at `at`."""
    thread, total = lowering.thread, lowering.thread.integer(place.base)
    for x, stride in zip(at, place.strides, strict=True):
        term = thread.binary("mul", I32, x, thread.integer(stride))
        total = thread.binary("add", I32, total, term)
    return total


def scatter(
    lowering: Lowering, fragment: Fragment, tile: Tile, place: Placement, moved: Moved
) -> None:
    """Store the elements of `tile` at the positions that `moved` maps them to. The first owner of
    an element stores it."""
    thread, first = lowering.thread, lowering.first_owner(tile.layout)
    for register, handle in enumerate(fragment):
        inside = lowering.inside(tile.layout, tile.shape, register)
        if inside == "false":
            continue
        at = address(lowering, place, moved(coordinates(lowering, tile, register)))

        def write(at: str = at, handle: str = handle) -> list[str]:
            thread.store_shared(tile.element, at, [handle])
            return []

        thread.when(lowering.conjunction(first, inside) or "true", (), write)


def gather_from_smem(
    lowering: Lowering,
    tile: Tile,
    place: Placement,
    moved: Callable[[int, Coordinates], Coordinates],
) -> Fragment:
    """Load the elements of `tile` from the positions `moved`. Padding loads the first element."""
    thread, values = lowering.thread, list[str]()
    for register in range(registers(tile)):
        inside = lowering.inside(tile.layout, tile.shape, register)
        if inside == "false":
            values.append(thread.constant(tile.element, 0))
            continue
        at = address(lowering, place, moved(register, coordinates(lowering, tile, register)))
        if inside is not None:
            at = thread.select(I32, inside, at, thread.integer(place.base))
        values += thread.load_shared(tile.element, 1, at)
    return values


def reshape_through_memory(lowering: Lowering, op: Any, source: Tile, tile: Tile) -> Fragment:
    """Reshape through shared memory: addresses are in row-major order, whatever the shape."""
    base, size = lowering.scratch[op], source.element.bytes
    scatter(lowering, lowering.fragment(op.value), source, dense(source, base), list)
    lowering.thread.barrier()
    return gather_from_smem(lowering, tile, dense(tile, base), lambda _, at: at) if size else []


def dense(tile: Tile, base: int) -> Placement:
    """Row-major addresses without padding."""
    strides, step = list[int](), tile.element.bytes
    for extent in reversed(tile.shape):
        strides.append(step)
        step *= extent
    return Placement(tile.element, tuple(reversed(strides)), base, step)


def _rename_registers(lowering: Lowering, op: Any) -> list[Fragment]:
    """A join or split that only renames registers within each thread."""
    fragments = [lowering.fragment(v) for v in op.inputs]
    where = {v: r for r, v in enumerate(op.inputs[0].type.layout.registers)}
    results: list[Fragment] = []
    for half, result in enumerate(op.results):
        places = [origin(op, half, v) for v in result.type.layout.registers]
        results.append([fragments[part][where[v]] for part, v in places])
    return results


def _join(lowering: Lowering, op: Any) -> list[Fragment]:
    if stays(op):
        return _rename_registers(lowering, op)
    tile, thread = op.result.type, lowering.thread
    place = placement(tile, lowering.scratch[op])
    for half, value in enumerate((op.low, op.high)):
        last = thread.integer(half)
        fragment = lowering.fragment(value)
        if isinstance(value.type, Tile):
            scatter(lowering, fragment, value.type, place, lambda at, last=last: [*at, last])
        else:
            at = address(lowering, place, [last])
            _by_one(lowering, at, scalar_of(value.type), fragment)
    thread.barrier()
    return [gather_from_smem(lowering, tile, place, lambda _, at: at)]


def _by_one(lowering: Lowering, at: str, element: Element, values: Fragment) -> None:
    """Store a scalar's value, by the first thread."""
    thread = lowering.thread

    def write() -> list[str]:
        thread.store_shared(element, at, values)
        return []

    thread.when(lowering.first_owner(None) or "true", (), write)


def _split(lowering: Lowering, op: Any) -> list[Fragment]:
    if stays(op):
        return _rename_registers(lowering, op)
    source, thread = op.value.type, lowering.thread
    place = placement(source, lowering.scratch[op])
    scatter(lowering, lowering.fragment(op.value), source, place, list)
    thread.barrier()
    results: list[Fragment] = []
    for half, result in enumerate(op.results):
        last = thread.integer(half)
        if isinstance(result.type, Tile):
            results.append(
                gather_from_smem(lowering, result.type, place, lambda _, at, last=last: [*at, last])
            )
        else:
            results.append(thread.load_shared(source.element, 1, address(lowering, place, [last])))
    return results


def _cat(lowering: Lowering, op: Any) -> list[Fragment]:
    if stays(op):
        return _rename_registers(lowering, op)
    tile, thread = op.result.type, lowering.thread
    place = placement(tile, lowering.scratch[op])
    shift = thread.integer(op.low.type.shape[op.axis])
    scatter(lowering, lowering.fragment(op.low), op.low.type, place, list)
    after = _shift_along(lowering, op.axis, shift)
    scatter(lowering, lowering.fragment(op.high), op.high.type, place, after)
    thread.barrier()
    return [gather_from_smem(lowering, tile, place, lambda _, at: at)]


def _shift_along(lowering: Lowering, axis: int, shift: str) -> Moved:
    def position(at: Coordinates) -> Coordinates:
        along = lowering.thread.binary("add", I32, at[axis], shift)
        return [*at[:axis], along, *at[axis + 1 :]]

    return position


def _gather(lowering: Lowering, op: Any) -> list[Fragment]:
    from tileir.backend.shared_memory.warp_gathers import gathers_within_warps

    source, thread = op.source.type, lowering.thread
    place = placement(source, lowering.scratch[op])
    scatter(lowering, lowering.fragment(op.source), source, place, list)
    near = gathers_within_warps(source, op.result.type, op.axis)
    (thread.warp_barrier if near else thread.barrier)()
    indices, most = lowering.fragment(op.index), thread.integer(source.shape[op.axis] - 1)
    kind = scalar_of(op.index.type)

    def position(register: int, at: Coordinates) -> Coordinates:
        index = indices[register]
        if kind.bits != I32.bits:
            index = thread.convert("trunc" if kind.bits > I32.bits else "zext", kind, I32, index)
        clamped = thread.intrinsic("umin", I32, index, most)
        return [*at[: op.axis], clamped, *at[op.axis + 1 :]]

    return [gather_from_smem(lowering, op.result.type, place, position)]


def _slice_at(lowering: Lowering, op: Any, part: Vector, shape: Vector) -> Moved:
    """A function from coordinates in the slice to those in the whole tile. Offsets are clamped to
    the range."""
    thread, starts = lowering.thread, _starts(lowering, op, part, shape)
    strides = op.strides or (1,) * len(part)

    def position(at: Coordinates) -> Coordinates:
        coordinates: Coordinates = []
        for x, start, stride in zip(at, starts, strides, strict=True):
            scaled = thread.binary("mul", I32, x, thread.integer(stride))
            coordinates.append(thread.binary("add", I32, scaled, start))
        return coordinates

    return position


def _starts(lowering: Lowering, op: Any, part: Vector, shape: Vector) -> Coordinates:
    """The offsets of a slice, clamped to the range."""
    thread, starts = lowering.thread, Coordinates()
    strides = op.strides or (1,) * len(part)
    for offset, extent, size, stride in zip(op.offsets, part, shape, strides, strict=True):
        most = size - (extent - 1) * stride - 1
        starts.append(thread.intrinsic("umin", I32, lowering.scalar(offset), thread.integer(most)))
    return starts


def _extract_slice(lowering: Lowering, op: Any) -> list[Fragment]:
    source, tile = op.value.type, op.result.type
    place = placement(source, lowering.scratch[op])
    scatter(lowering, lowering.fragment(op.value), source, place, list)
    lowering.thread.barrier()
    moved = _slice_at(lowering, op, tile.shape, source.shape)
    return [gather_from_smem(lowering, tile, place, lambda _, at: moved(at))]


def _insert_slice(lowering: Lowering, op: Any) -> list[Fragment]:
    """Insert a slice: it is stored to shared memory, and the owners of its positions load it from
    there."""
    thread, tile, small = lowering.thread, op.value.type, op.small.type
    place = placement(small, lowering.scratch[op])
    scatter(lowering, lowering.fragment(op.small), small, place, list)
    thread.barrier()
    starts, values = _starts(lowering, op, small.shape, tile.shape), list[str]()
    for register, old in enumerate(lowering.fragment(op.value)):
        coordinate = coordinates(lowering, tile, register)
        replaced, at = _in_part(lowering, op, coordinate, starts)
        first = thread.integer(place.base)
        offset = thread.select(I32, replaced, address(lowering, place, at), first)
        (new,) = thread.load_shared(tile.element, 1, offset)
        values.append(thread.select(tile.element, replaced, new, old))
    return [values]


def _in_part(
    lowering: Lowering, op: Any, coordinate: Coordinates, starts: Coordinates
) -> tuple[str, Coordinates]:
    """Whether an element of the whole tile is in the slice, and its coordinates there."""
    thread, at = lowering.thread, Coordinates()
    inside: str | None = None
    strides = op.strides or (1,) * len(coordinate)
    for x, start, extent, stride in zip(
        coordinate, starts, op.small.type.shape, strides, strict=True
    ):
        part = thread.binary("sub", I32, x, start)
        if stride > 1:
            by = thread.integer(stride)
            remainder = thread.binary("urem", I32, part, by)
            inside = lowering.conjunction(
                inside, thread.compare("eq", I32, remainder, thread.integer(0))
            )
            part = thread.binary("udiv", I32, part, by)
        inside = lowering.conjunction(
            inside, thread.compare("ult", I32, part, thread.integer(extent))
        )
        at.append(part)
    assert inside is not None  # tiles have dimensions
    return inside, at


def _unsplat(lowering: Lowering, op: Any) -> list[Fragment]:
    """The element of a one-element tile. Every thread owns it, or its owner broadcasts it."""
    tile = op.value.type
    if all(n == 1 for n in tile.layout.extents):
        return [lowering.fragment(op.value)[:1]]
    place = placement(tile, lowering.scratch[op])
    scatter(lowering, lowering.fragment(op.value), tile, place, list)
    lowering.thread.barrier()
    return [lowering.thread.load_shared(tile.element, 1, lowering.thread.integer(place.base))]


def _histogram(lowering: Lowering, op: Any) -> list[Fragment]:
    """A histogram whose bins are in shared memory, counted by atomic additions."""
    tile, source, thread = op.result.type, op.value.type, lowering.thread
    base, element = lowering.scratch[op], I32
    place = dense(Tile(I32, tile.shape, tile.layout), base)
    zeros = [thread.constant(I32, 0)] * registers(tile)
    scatter(lowering, zeros, Tile(I32, tile.shape, tile.layout), place, list)
    if not (_by_thread_0(tile.layout) and _by_thread_0(source.layout)):
        thread.barrier()
    masks = None if op.mask is None else lowering.fragment(op.mask)
    predicates = None if op.predicate is None else lowering.fragment(op.predicate)
    for register, handle in enumerate(lowering.fragment(op.value)):
        inside = lowering.inside(source.layout, source.shape, register)
        if inside == "false":
            continue
        counts = (
            thread.compare(
                "ult", source.element, handle, thread.constant(source.element, tile.shape[0])
            )
            if tile.shape[0] < 1 << source.element.bits
            else thread.constant(I1, 1)
        )
        holds = None if predicates is None else predicates[register if len(predicates) > 1 else 0]
        terms = [inside, None if masks is None else masks[register], holds]
        terms.append(lowering.first_owner(source.layout))
        for term in terms:
            if term is not None:
                counts = thread.select(I1, term, counts, thread.constant(I1, 0))
        _count(lowering, source, handle, counts, base)
    thread.barrier()
    histogram = gather_from_smem(
        lowering, Tile(I32, tile.shape, tile.layout), place, lambda _, at: at
    )
    kind = tile.element
    if kind is element:
        return [histogram]
    name = "zext" if kind.bits > I32.bits else "trunc"
    return [[thread.convert(name, I32, kind, x) for x in histogram]]


def _by_thread_0(layout: Layout) -> bool:
    """Whether thread 0 is the first owner of any element."""
    return all(
        not any(map(any, layout.atom(axis))) and not any(any(d.step) for d in layout.digits(axis))
        for axis in ("lane", "warp")
    )


def _count(lowering: Lowering, source: Tile, handle: str, counts: str, base: int) -> None:
    thread, kind = lowering.thread, source.element
    if kind.bits != I32.bits:
        handle = thread.convert("trunc" if kind.bits > I32.bits else "zext", kind, I32, handle)
    at = thread.binary("mul", I32, handle, thread.integer(4))
    at = thread.binary("add", I32, at, thread.integer(base))

    def add() -> list[str]:
        thread.add_shared(at, thread.integer(1))
        return []

    thread.when(counts, (), add)


RULES: dict[str, Rule] = {
    "join": _join,
    "split": _split,
    "cat": _cat,
    "gather": _gather,
    "extract_slice": _extract_slice,
    "insert_slice": _insert_slice,
    "unsplat": _unsplat,
    "histogram": _histogram,
}
