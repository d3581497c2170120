"""Scans: every thread a run of neighbours, then lanes, then warps.

The tile goes through shared memory into a layout in which a thread holds consecutive elements
along the axis, lanes follow, then warps; a reverse scan reads it backwards. Threads then hold
prefixes of their runs, to which the totals of all runs before are joined: within the warp by
shuffles, across warps through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tileir.backend.lowering import Fragment, Lowering, scalar_of
from tileir.backend.reduction import Item, Join, joiner
from tileir.backend.rules.rearrange import collect, dense, scatter
from tileir.layout import Layout, Repeat, Vector, layout
from tileir.types import I1, I32, Element, Tile


def scan_tile(lowering: Lowering, op: Any) -> list[Fragment]:
    """The fragments of the results of a `scan`."""
    thread, tiles = lowering.thread, [v.type for v in op.values]
    elements = [scalar_of(t) for t in tiles]
    spread = scan_layout(tiles[0].shape, op.axis, lowering.num_warps)
    places = list(_places(op, lowering.scratch[op]))
    moved = _direction(lowering, op, tiles[0].shape[op.axis])
    for value, place in zip(op.values, places, strict=True):
        scatter(lowering, lowering.fragment(value), value.type, place, moved)
    thread.barrier()
    inner = [Tile(t.element, t.shape, spread) for t in tiles]
    columns = [
        collect(lowering, t, p, lambda _, at: at) for t, p in zip(inner, places, strict=True)
    ]
    join = joiner(lowering, op, elements, False)
    items = _scanned(lowering, op, spread, elements, list(zip(*columns, strict=True)), join)
    thread.barrier()
    found: list[Fragment] = []
    for i, (t, place) in enumerate(zip(inner, places, strict=True)):
        scatter(lowering, [item[i] for item in items], t, place, list)
    thread.barrier()
    for result, place in zip(op.results, places, strict=True):
        found.append(collect(lowering, result.type, place, lambda _, at: moved(at)))
    return found


def scan_bytes(op: Any) -> int:
    """Shared memory of a `scan`: every operand once, and one value per warp and run."""
    tiles = [v.type for v in op.values]
    return sum(_aligned(t.size * t.element.bytes) + _totals(t) for t in tiles)


def _totals(tile: Tile) -> int:
    """Bytes for the totals of 32 warps for every register a thread may hold across the axis."""
    return _aligned(32 * 8)


def scan_layout(shape: Vector, axis: int, num_warps: int) -> Layout:
    """Runs of neighbours along `axis` in a thread, then 32 lanes, then warps where there is more
    to do; other dimensions in registers."""
    run = -(-shape[axis] // (32 * num_warps))
    steps = [
        Repeat("register", run, axis),
        Repeat("lane", 32, axis),
        Repeat("warp", num_warps, axis),
    ]
    steps += [Repeat("register", n, d) for d, n in enumerate(shape) if d != axis]
    return layout(len(shape), repeats=tuple(steps))


def _places(op: Any, base: int) -> Any:
    for value in op.values:
        yield dense(value.type, base)
        base += _aligned(value.type.size * value.type.element.bytes)


def _direction(lowering: Lowering, op: Any, extent: int) -> Any:
    """Coordinates as they are scanned: backwards with `reverse`."""
    thread = lowering.thread

    def moved(at: list[str]) -> list[str]:
        if not op.reverse:
            return list(at)
        back = thread.binary("sub", I32, thread.integer(extent - 1), at[op.axis])
        return [*at[: op.axis], back, *at[op.axis + 1 :]]

    return moved


def _scanned(
    lowering: Lowering, op: Any, spread: Layout, elements: Sequence[Element], items: list[Item],
    join: Join,
) -> list[Item]:  # fmt: skip
    """Prefixes of all items: those of one result row belong to registers that differ along the
    axis alone."""
    rows: dict[Vector, list[int]] = {}
    for register, vector in enumerate(spread.registers):
        rows.setdefault((*vector[: op.axis], *vector[op.axis + 1 :]), []).append(register)
    found = list(items)
    for number, registers in enumerate(rows.values()):
        registers.sort(key=lambda r: spread.registers[r][op.axis])
        for before, register in pairwise(registers):
            found[register] = join(found[before], found[register])
        carried = _before(lowering, op, elements, found[registers[-1]], join, number)
        for register in registers:
            found[register] = _prefixed(lowering, elements, carried, found[register], join)
    return found


def _before(
    lowering: Lowering, op: Any, elements: Sequence[Element], total: Item, join: Join, row: int
) -> tuple[Item, str]:
    """The total of everything before this thread's run, and whether there is anything."""
    thread = lowering.thread
    lane = thread.lane()
    for distance in (1, 2, 4, 8, 16):
        source = thread.binary("sub", I32, lane, thread.integer(distance))
        there = tuple(
            thread.shuffle_index(e, x, source) for e, x in zip(elements, total, strict=True)
        )
        has = thread.compare("uge", I32, lane, thread.integer(distance))
        joined = join(there, total)
        total = _chosen(lowering, elements, has, joined, total)
    previous = thread.binary("sub", I32, lane, thread.integer(1))
    exclusive = tuple(
        thread.shuffle_index(e, x, previous) for e, x in zip(elements, total, strict=True)
    )
    has = thread.compare("ne", I32, lane, thread.integer(0))
    if lowering.num_warps == 1:
        return exclusive, has
    return _across(lowering, op, elements, (exclusive, has), total, join, row)


def _across(
    lowering: Lowering, op: Any, elements: Sequence[Element], lanes: tuple[Item, str],
    total: Item, join: Join, row: int,
) -> tuple[Item, str]:  # fmt: skip
    """Join the totals of the warps before to that of the lanes before."""
    thread, warp = lowering.thread, lowering.thread.warp()
    bases = list(_total_bases(op, lowering.scratch[op]))
    last = thread.compare("eq", I32, thread.lane(), thread.integer(31))

    def write() -> list[str]:
        for element, handle, base in zip(elements, total, bases, strict=True):
            thread.store_shared(element, _slot(lowering, element, base, warp), [handle])
        return []

    if row:
        thread.barrier()
    thread.when(last, (), write)
    thread.barrier()
    exclusive, has = lanes
    carried: Item | None = None
    some = thread.constant(I1, 0)
    for index in range(lowering.num_warps - 1):
        each = tuple(
            thread.load_shared(e, 1, thread.integer(base + index * e.bytes))[0]
            for e, base in zip(elements, bases, strict=True)
        )
        counts = thread.compare("ugt", I32, warp, thread.integer(index))
        joined = each if carried is None else join(carried, each)
        carried = (
            joined if carried is None else _chosen(lowering, elements, counts, joined, carried)
        )
        some = thread.binary("or", I1, some, counts)
    assert carried is not None
    both = _chosen(lowering, elements, has, join(carried, exclusive), carried)
    found = _chosen(lowering, elements, some, both, exclusive)
    return found, thread.binary("or", I1, some, has)


def _prefixed(
    lowering: Lowering, elements: Sequence[Element], before: tuple[Item, str], item: Item,
    join: Join,
) -> Item:  # fmt: skip
    carried, has = before
    return _chosen(lowering, elements, has, join(carried, item), item)


def _chosen(
    lowering: Lowering, elements: Sequence[Element], condition: str, a: Item, b: Item
) -> Item:
    thread = lowering.thread
    return tuple(thread.select(e, condition, x, y) for e, x, y in zip(elements, a, b, strict=True))


def _total_bases(op: Any, base: int) -> Any:
    base += sum(_aligned(v.type.size * v.type.element.bytes) for v in op.values)
    for value in op.values:
        yield base
        base += _totals(value.type)


def _slot(lowering: Lowering, element: Element, base: int, warp: str) -> str:
    thread = lowering.thread
    scaled = thread.binary("mul", I32, warp, thread.integer(element.bytes))
    return thread.binary("add", I32, scaled, thread.integer(base))


def _aligned(size: int) -> int:
    return -(-size // 16) * 16
