"""The picture `shared`: shared memory over time, with the live range and the offset of each
allocation (MAPL 2019, Figure 7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tileir.tools.view.input import Subject
from tileir.tools.view.lifetimes import (
    BlockSpan,
    LiveAllocation,
    allocations,
    block_spans,
    in_order,
    most_at_once,
)
from tileir.tools.view.naming import ValueNames, place
from tileir.tools.view.svg import (
    CHARACTER,
    LINE,
    MARGIN,
    SMALL,
    Sheet,
    clip,
    line,
    rect,
    text,
    warp_colour,
)

_LEFT, _WIDE, _HIGH, _BAR = 290.0, 670.0, 300.0, 17
"""Pixels left of the drawings, of all ops, of all bytes, and of a bar."""

_MOST_BARS = 40

_HOW = (
    "From left to right the ops of the kernel in program order; loops are shaded. Above, the "
    "live range of each allocation, with a mark for every op that accesses it; below, its offsets. "
    "Dashed red lines are barriers."
)


def picture(subject: Subject) -> str:
    """The SVG of the shared memory of the kernel, over its ops in program order."""
    function, plan = subject.laid_out, subject.lowered_kernel.memory
    result = subject.about(
        allocations(function, plan), lambda allocation: allocation.op, "shared memory"
    )
    sheet = Sheet(f"{subject.name}: shared memory over time")
    sheet.words(_HOW, "soft")
    if not result:
        sheet.words("this kernel needs no shared memory")
        return sheet.done()
    least = most_at_once(result)
    sheet.words(f"{plan.size} bytes; {least} is the most needed at once")
    time = _Time(block_spans(function), len(in_order(function)))
    names = ValueNames(function)
    waits = [i for i, op in enumerate(in_order(function)) if op.mnemonic == "gpu.barrier"]
    sheet.put(2 * LINE, time.heads())
    shown = sorted(sorted(result, key=lambda r: -r.size)[:_MOST_BARS], key=lambda r: r.first)
    colours = {id(allocation): warp_colour(i) for i, allocation in enumerate(shown)}
    sheet.put(len(shown) * _BAR + 8, _bars(time, names, shown, colours, waits), label="ranges")
    if len(shown) < len(result):
        sheet.words(f"… and {len(result) - len(shown)} smaller ones", "soft")
    sheet.skip(8)
    parts = _memory(time, names, result, colours, plan.size, waits)
    sheet.put(_HIGH + 12, parts, label="memory")
    return sheet.done()


@attrs.frozen
class _Time:
    """The horizontal axis: `count` ops, block by block."""

    blocks: Sequence[BlockSpan]
    count: int

    def x(self, op: int) -> float:
        """The position at which op number `op` starts."""
        return _LEFT + op * _WIDE / max(self.count, 1)

    def heads(self) -> Iterator[str]:
        """Yield the labels of blocks above their ops."""
        free = 0.0
        for block in self.blocks:
            x, width = self.x(block.start), self.x(block.end) - self.x(block.start)
            yield line([(x, 12), (x, 2 * LINE)], "faint")
            words = block.label
            low = x < free
            yield text(x + 3, 2 * LINE - 4 if low else 12, clip(words, max(width, 60)), "soft")
            free = x + 3 + len(words) * CHARACTER if not low else free

    def bands(self, height: float) -> Iterator[str]:
        """Yield shading for loops, and lines between blocks."""
        for block in self.blocks:
            x, width = self.x(block.start), self.x(block.end) - self.x(block.start)
            if block.depth:
                yield rect(x, 0, width, height, "band", "", f"{block.label}, in a loop")
            yield line([(x, 0), (x, height)], "faint")

    def barriers(self, waits: Sequence[int], height: float) -> Iterator[str]:
        """Yield a line per barrier."""
        for at in waits:
            yield line([(self.x(at), 0), (self.x(at), height)], "rule")


def _bars(
    time: _Time,
    names: ValueNames,
    allocations: Sequence[LiveAllocation],
    colours: dict[int, str],
    waits: Sequence[int],
) -> Iterator[str]:
    height = len(allocations) * _BAR + 4
    yield from time.bands(height)
    yield from time.barriers(waits, height)
    for row, allocation in enumerate(allocations):
        y = row * _BAR + 3
        words = f"{_name(names, allocation)}: {_bytes(allocation.size)}, {place(allocation.op)}"
        yield text(MARGIN, y + 11, clip(words, _LEFT - 2 * MARGIN))
        for x, width in _extents(time, allocation):
            yield rect(
                x, y, width, _BAR - 4, "cell", colours[id(allocation)], _title(names, allocation)
            )
        for at in allocation.touched:
            yield line([(time.x(at) + 1, y + 3), (time.x(at) + 1, y + _BAR - 7)], "mark")


def _memory(
    time: _Time, names: ValueNames, allocations: Sequence[LiveAllocation], colours: dict[int, str],
    size: int, waits: Sequence[int],
) -> Iterator[str]:  # fmt: skip
    yield from time.bands(_HIGH)
    scale = _HIGH / max(size, 1)
    last = -100.0
    for offset in sorted({0, size, *(r.offset for r in allocations)}):
        y = _HIGH - offset * scale
        if abs(y - last) >= 12 or offset == size:
            yield text(_LEFT - 8, y + 4, _bytes(offset), "soft", "end")
            last = y
    for allocation in allocations:
        y, height = _HIGH - (allocation.offset + allocation.size) * scale, allocation.size * scale
        colour, label = colours.get(id(allocation), "#9aa4af"), _name(names, allocation)
        for x, width in _extents(time, allocation):
            yield rect(x, y, width, height, "cell", colour, _title(names, allocation))
            if height >= 11 and len(label) * SMALL < width - 4:
                yield text(x + 4, y + min(height / 2 + 3, 14), label, "in")
    yield from time.barriers(waits, _HIGH)
    yield rect(_LEFT, 0, _WIDE, _HIGH, "frame")


def _extents(time: _Time, allocation: LiveAllocation) -> Iterator[tuple[float, float]]:
    """Yield the start and the length, along the axis, of each live range of an allocation."""
    for first, last in allocation.spans:
        yield time.x(first), max(time.x(last + 1) - time.x(first), 4.0)


def _name(names: ValueNames, allocation: LiveAllocation) -> str:
    return f"{names.results(allocation.op) or '_'} {allocation.op.mnemonic.removeprefix('gpu.')}"


def _title(names: ValueNames, allocation: LiveAllocation) -> str:
    span = f"bytes {allocation.offset} to {allocation.offset + allocation.size - 1}"
    return f"{names.op(allocation.op)}: {span}"


def _bytes(number: int) -> str:
    is_multiple = number and number % 1024 == 0
    return f"{number // 1024} KiB" if is_multiple else f"{number} B"
