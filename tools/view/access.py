"""The picture `access`: the addresses that a warp accesses at every access to global memory.
128-byte lines are rows, their 32-byte sectors are framed, and each address has the colour of its
lane (MAPL 2019, Figure 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tileir.backend.simt.counts import LINE, SECTOR, OpCounters
from tileir.op import Op
from tileir.tools.view.input import Subject
from tileir.tools.view.lane_orders import TransposedAccesses, transposed_accesses
from tileir.tools.view.naming import ValueNames, count_text, place
from tileir.tools.view.svg import (
    MARGIN,
    SMALL,
    Sheet,
    clip,
    lane_colour,
    rect,
    text,
)
from tileir.tools.view.tracing import (
    WARP,
    Trace,
    TracedAccess,
    accesses_by_op,
    run_and_trace,
    usage,
)

_BYTE, _ROW, _LEFT = 6.0, 18, 190.0
"""Pixels of a byte, of a line of memory, and of what stands left of it."""

_MOST_LINES, _MOST_PATTERNS, _MOST_OTHER = 16, 3, 4
"""Lines of memory drawn of an access; accesses of an op that differ in more than their place;
lines of what an access might have been."""

_HOW = (
    "A row is a line of 128 bytes, a frame a sector of 32, which is what memory moves. A coloured "
    "segment is what one lane reads or writes, with the lane's number; pale sectors are not "
    "touched, and what is empty in a framed one is moved for nothing. Of tiles with several "
    "dimensions it is also shown what the first access would be with lanes along another one."
)


@attrs.frozen
class ByteSpan:
    """Bytes `start` to `end` of a line of memory, and the lanes that access exactly these bytes."""

    start: int
    end: int
    lanes: tuple[int, ...]


def picture(subject: Subject) -> str:
    """The SVG of the accesses to global memory of the kernel's first warp, in one instance."""
    trace, subject = run_and_trace(subject)
    names = subject.laid_out_names
    result = subject.about(accesses_by_op(trace, False).items(), lambda item: item[0], "access")
    sheet = Sheet(f"{subject.name}: addresses that the first warp touches")
    sheet.words(_HOW, "soft")
    sheet.legend([(lane_colour(i), f"lane {i}") for i in (0, 1, 2, 8, 16, 24, 31)])
    if not result:
        sheet.words(
            f"no thread of this kernel accesses global memory{by_units(subject, 'gpu.tma')}"
        )
    for same in _alike(trace, result):
        _draw(sheet, trace, names, same)
    return sheet.done()


def by_units(subject: Subject, *units: str) -> str:
    """A sentence that names the ops, by the prefixes `units` of their mnemonics, whose asynchronous
    units access memory without addresses of threads; '' if there are none."""
    ops = (op.mnemonic for function in subject.laid_out_functions for op in function.ops)
    names = sorted({name for name in ops if name.startswith(units)} - {"gpu.tma_wait"})
    return f"; {' and '.join(names)} do, by boxes of tensors" if names else ""


def spans(addresses: Sequence[int | None], size: int) -> dict[int, list[ByteSpan]]:
    """The accessed bytes of each accessed line, by number of the line, lowest address first."""
    lanes_by_bytes: dict[tuple[int, int], list[int]] = {}
    for lane, address in enumerate(addresses):
        if address is not None:
            lanes_by_bytes.setdefault((address, address + size), []).append(lane)
    result: dict[int, list[ByteSpan]] = {}
    for (start, end), lanes in sorted(lanes_by_bytes.items()):
        for number in range(start // LINE, (end - 1) // LINE + 1):
            low, high = max(start - number * LINE, 0), min(end - number * LINE, LINE)
            result.setdefault(number, []).append(ByteSpan(low, high, tuple(lanes)))
    return dict(sorted(result.items()))


@attrs.frozen(eq=False)
class _Pattern:
    """Accesses of warps that differ only in their first address. The first one is drawn."""

    access: TracedAccess
    warp: int
    times: int


Pattern = tuple[object, ...]


def _key(access: TracedAccess, warp: int) -> Pattern:
    """A key that is equal for accesses that differ by an offset and have the same cost."""
    at = access.warp(warp)
    first = min(a for a in at if a is not None)
    moved = (None if a is None else a - first for a in at)
    return (access.kind, access.size, usage(at, access.size), *moved)


def _patterns(accesses: Sequence[TracedAccess]) -> list[_Pattern]:
    """For each op, the accesses of the first warp that makes any."""
    patterns: dict[Pattern, _Pattern] = {}
    for access in accesses:
        warp = access.warps[0]
        key = _key(access, warp)
        pattern = patterns.get(key)
        times = 1 if pattern is None else pattern.times + 1
        first = access if pattern is None else pattern.access
        patterns[key] = _Pattern(first, warp if pattern is None else pattern.warp, times)
    return list(patterns.values())


Alike = list[tuple[Op, list[_Pattern]]]


def _alike(trace: Trace, accesses_by_op: Sequence[tuple[Op, list[TracedAccess]]]) -> list[Alike]:
    """Ops of one line with equal access patterns, combined. They occur, for example, if the first
    iterations of a loop are peeled."""
    groups: dict[object, Alike] = {}
    for op, accesses in accesses_by_op:
        patterns = _patterns(accesses)
        keys = tuple(_key(p.access, p.warp) for p in patterns)
        groups.setdefault((place(op), op.mnemonic, keys), []).append((op, patterns))
    return list(groups.values())


def _draw(sheet: Sheet, trace: Trace, names: ValueNames, same: Alike) -> None:
    op, patterns = same[0]
    more = f"  ({len(same)} such ops)" if len(same) > 1 else ""
    sheet.skip(10)
    sheet.words(f"{place(op)}: {clip(names.op(op), 780)}{more}", "head")
    sheet.words(_total([trace.counts.of(o) for o, _ in same]), "soft")
    for pattern in patterns[:_MOST_PATTERNS]:
        _draw_pattern(sheet, trace, pattern)
    if len(patterns) > _MOST_PATTERNS:
        more = sum(p.times for p in patterns[_MOST_PATTERNS:])
        sheet.words(f"… and {count_text(more, 'access')} of other patterns", "soft")
    transposed = transposed_accesses(op, accesses_by_op(trace, False)[op])
    if transposed is not None:
        _draw_transposed(sheet, trace, transposed)


def _total(tallies: Sequence[OpCounters]) -> str:
    accesses, sectors, fewest = (
        sum(getattr(t, what) for t in tallies) for what in ("accesses", "sectors", "ideal")
    )
    return (
        f"by all warps, over the whole instance: {count_text(accesses, 'access')}, "
        f"{count_text(sectors, 'sector')}; {fewest} are enough for these bytes"
    )


def _draw_pattern(sheet: Sheet, trace: Trace, pattern: _Pattern) -> None:
    access = pattern.access
    at = access.warp(pattern.warp)
    cost, lanes = usage(at, access.size), sum(a is not None for a in at)
    bad = cost.sectors > cost.fewest
    words = (
        f"warp {pattern.warp}: {lanes} of {WARP} lanes, {count_text(access.size, 'byte')} each: "
        f"{count_text(cost.sectors, 'sector')} ({cost.fewest} would do) in "
        f"{count_text(cost.lines, 'line')}"
    )
    times = f"; {pattern.times} accesses alike" if pattern.times > 1 else ""
    sheet.words(words + times, "bad" if bad else "")
    _draw_lines(sheet, trace, at, access.size, _MOST_LINES)


def _draw_transposed(sheet: Sheet, trace: Trace, other: TransposedAccesses) -> None:
    """Draw the accesses as they would be with lanes along another dimension."""
    cost = usage(other.addresses, other.size)
    words = (
        f"were lanes side by side along dimension {other.dim}: "
        f"{count_text(cost.sectors, 'sector')} in {count_text(cost.lines, 'line')} "
        f"by an access of {count_text(other.size, 'byte')} each"
    )
    sheet.words(words, "soft")
    _draw_lines(sheet, trace, other.addresses, other.size, _MOST_OTHER)


def _draw_lines(sheet: Sheet, trace: Trace, at: Sequence[int | None], size: int, most: int) -> None:
    """Draw the lines of memory that lanes access, at most `most` of them."""
    rows = list(spans(at, size).items())
    shown = rows[:most]
    parts = [p for i, (number, spans) in enumerate(shown) for p in _row(trace, i, number, spans)]
    sheet.put(len(shown) * (_ROW + 4) + 4, parts, label="access")
    if len(rows) > len(shown):
        more = count_text(len(rows) - len(shown), "more line")
        sheet.words(f"… and {more}", "soft", _LEFT)


def _row(trace: Trace, index: int, number: int, spans: Sequence[ByteSpan]) -> Iterator[str]:
    """The line of memory at row `index` of a drawing."""
    y = index * (_ROW + 4)
    yield text(MARGIN, y + 13, _address(trace, number, spans), "soft")
    touched = {b // SECTOR for s in spans for b in (s.start, s.end - 1)}
    for span in spans:
        yield from _span_parts(span, y)
    for sector in range(LINE // SECTOR):
        kind = "frame" if sector in touched else "faint"
        yield rect(_LEFT + sector * SECTOR * _BYTE, y, SECTOR * _BYTE, _ROW, kind)


def _span_parts(span: ByteSpan, y: float) -> Iterator[str]:
    x, width = _LEFT + span.start * _BYTE, (span.end - span.start) * _BYTE
    lanes = ", ".join(map(str, span.lanes))
    title = f"lane {lanes}: bytes {span.start} to {span.end - 1}"
    yield rect(x, y + 1, width, _ROW - 2, "cell", lane_colour(span.lanes[0]), title)
    words = label(span.lanes)
    if len(words) * SMALL + 2 <= width:
        yield text(x + width / 2, y + 13, words, "in", "middle")


def label(lanes: Sequence[int]) -> str:
    """Lanes as a short text: `3`, `0–7`, or `0+` for several that are not consecutive."""
    first, last = lanes[0], lanes[-1]
    if len(lanes) == 1:
        return str(first)
    return f"{first}–{last}" if last - first == len(lanes) - 1 else f"{first}+"


def _address(trace: Trace, number: int, spans: Sequence[ByteSpan]) -> str:
    name, offset = trace.where(number * LINE + spans[0].start)
    return f"{clip(name, 80)} + {offset - spans[0].start:#x}" if name else f"{number * LINE:#x}"
