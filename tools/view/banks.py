"""The picture `banks`: bank conflicts of shared memory. The 32 banks are columns and each wavefront
is a row; each word has the colour of the lane that receives it. The picture also shows the same
accesses without swizzling and padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from tileir.backend.shared_memory.bank_conflicts import BANKS, WORD, phase_lanes
from tileir.op import Op
from tileir.tools.view.access import by_units, label
from tileir.tools.view.input import Subject
from tileir.tools.view.naming import ValueNames, count_text, place
from tileir.tools.view.svg import (
    LINE,
    MARGIN,
    SMALL,
    Sheet,
    clip,
    lane_colour,
    rect,
    text,
)
from tileir.tools.view.swizzles import plain_offset_of
from tileir.tools.view.tracing import TracedAccess, accesses_by_op, bank_cost, run_and_trace

_CELL, _ROW, _LEFT = 25.0, 18, 160.0
"""Pixels of a bank, of a wavefront, and of what stands left of them."""

_MOST_ROWS, _MOST_SHAPES = 12, 3
"""Wavefronts drawn of an access; accesses of an op that take them differently."""

_HOW = (
    "A column is a bank, 4 bytes wide; a row is a wavefront, what the banks give at once. A "
    "segment is a word, with the lane that reads or writes it, in that lane's colour. A red row is "
    "a wavefront more than the access needs: a bank conflict. 0+ is lane 0 and others."
)


@attrs.frozen
class Word:
    """A word of one wavefront: its bank, and the lanes that receive it."""

    bank: int
    lanes: tuple[int, ...]


@attrs.frozen
class Wavefront:
    """The words that the banks deliver at once, in phase `phase` of an access. `lost` states
    whether a bank conflict causes it."""

    phase: int
    lost: bool
    words: tuple[Word, ...]


def picture(subject: Subject) -> str:
    """The SVG of the accesses to shared memory of the kernel's first warp, in one instance."""
    trace, subject = run_and_trace(subject)
    names = subject.laid_out_names
    result = subject.about(
        accesses_by_op(trace, True).items(), lambda item: item[0], "shared access"
    )
    sheet = Sheet(f"{subject.name}: bank conflicts of a warp")
    sheet.words(_HOW, "soft")
    sheet.legend([(lane_colour(i), f"lane {i}") for i in (0, 1, 2, 8, 16, 24, 31)])
    if not result:
        units = by_units(subject, "gpu.tma", "gpu.wgmma")
        sheet.words(f"no thread of this kernel accesses shared memory{units}")
    for same in _alike(subject, result):
        _draw(sheet, names, same)
    return sheet.done()


def wavefront_rows(offsets: Sequence[int | None], size: int) -> list[Wavefront]:
    """The wavefronts of one access of a warp, as `tileir.backend.shared_memory.bank_conflicts`
    counts them."""
    together = phase_lanes(size)
    wavefronts: list[Wavefront] = []
    for phase, first in enumerate(range(0, len(offsets), together)):
        words: dict[int, list[int]] = {}
        for lane, offset in enumerate(offsets[first : first + together], first):
            if offset is not None:
                for word in range(offset // WORD, (offset + size - 1) // WORD + 1):
                    words.setdefault(word, []).append(lane)
        wavefronts += _wavefronts_of(phase, words)
    return wavefronts


def _wavefronts_of(phase: int, words: dict[int, list[int]]) -> Iterator[Wavefront]:
    """Distribute the words of one phase to wavefronts: words of one bank are in different
    wavefronts."""
    by_bank: dict[int, list[int]] = {}
    for word in sorted(words, key=lambda w: words[w]):
        by_bank.setdefault(word % BANKS, []).append(word)
    for row in range(max(map(len, by_bank.values()), default=0)):
        words_of_row = [
            Word(bank, tuple(words[numbers[row]]))
            for bank, numbers in sorted(by_bank.items())
            if row < len(numbers)
        ]
        yield Wavefront(phase, row > 0, tuple(words_of_row))


Shift = Callable[[int], int]


@attrs.frozen(eq=False)
class _Case:
    """An op, its accesses, and the same accesses without swizzling if that makes a difference."""

    op: Op
    accesses: Sequence[TracedAccess]
    plain: Sequence[TracedAccess] | None

    @property
    def key(self) -> object:
        """A key that is equal for ops of one line that look alike."""
        return (place(self.op), self.op.mnemonic, self.cost, self.plain and bank_cost(self.plain))

    @property
    def cost(self) -> tuple[int, int, int]:
        """The numbers of accesses, of wavefronts, and of wavefronts caused by conflicts."""
        return bank_cost(self.accesses)


def _alike(
    subject: Subject, accesses_by_op: Sequence[tuple[Op, list[TracedAccess]]]
) -> list[list[_Case]]:
    groups: dict[object, list[_Case]] = {}
    for op, accesses in accesses_by_op:
        case = _Case(op, accesses, _plain(subject, op, accesses))
        groups.setdefault(case.key, []).append(case)
    return list(groups.values())


def _plain(subject: Subject, op: Op, accesses: Sequence[TracedAccess]) -> list[TracedAccess] | None:
    function = next(f for f in subject.laid_out_functions if op in set(f.ops))
    moved = plain_offset_of(function, subject.lowered_kernel.memory, op)
    if moved is None:
        return None
    result = [attrs.evolve(a, addresses=a.addresses.copy()) for a in accesses]
    for access in result:
        for thread, is_active in enumerate(access.active):
            if is_active:
                access.addresses[thread] = moved(int(access.addresses[thread]))
    return result


def _draw(sheet: Sheet, names: ValueNames, same: Sequence[_Case]) -> None:
    case = same[0]
    more = f"  ({len(same)} such ops)" if len(same) > 1 else ""
    sheet.skip(10)
    sheet.words(f"{place(case.op)}: {clip(names.op(case.op), 780)}{more}", "head")
    sheet.words("all warps, once: " + _cost(case.cost), "bad" if case.cost[2] else "")
    for access, times in _shapes(case.accesses)[:_MOST_SHAPES]:
        _draw_access(sheet, access, times)
    if case.plain is not None and bank_cost(case.plain) == case.cost:
        sheet.words("without swizzling and padding it would be the same", "soft")
    elif case.plain is not None:
        cost = bank_cost(case.plain)
        sheet.words(
            "without swizzling and padding it would be: " + _cost(cost), "bad" if cost[2] else ""
        )
        for access, times in _shapes(case.plain)[:1]:
            _draw_access(sheet, access, times)


def _cost(cost: tuple[int, int, int]) -> str:
    accesses, fronts, lost = cost
    words = f"{count_text(accesses, 'access')}, {count_text(fronts, 'wavefront')}"
    return f"{words}, {lost} of them for conflicts"


def _shapes(accesses: Sequence[TracedAccess]) -> list[tuple[TracedAccess, int]]:
    """The accesses that differ in their wavefronts, each with the number of accesses that are equal
    to it."""
    result: dict[object, tuple[TracedAccess, int]] = {}
    for access in accesses:
        rows = wavefront_rows(access.warp(access.warps[0]), access.size)
        key = (access.kind, access.size, tuple((r.phase, r.lost, len(r.words)) for r in rows))
        first, times = result.get(key, (access, 0))
        result[key] = (first, times + 1)
    return list(result.values())


def _draw_access(sheet: Sheet, access: TracedAccess, times: int) -> None:
    warp = access.warps[0]
    rows = wavefront_rows(access.warp(warp), access.size)
    what = {"copy": "copy into", "matrix": "matrices from"}.get(access.kind, access.kind)
    many = f", {times} such accesses" if times > 1 else ""
    sheet.words(f"{what} shared memory, {access.size} bytes a lane, warp {warp}{many}", "soft")
    shown = rows[:_MOST_ROWS]
    parts = [text(_LEFT + b * _CELL + _CELL / 2, 11, str(b), "soft small", "middle")
             for b in range(0, BANKS, 4)]  # fmt: skip
    for index, row in enumerate(shown):
        parts += _row(row, LINE + index * _ROW)
    sheet.put(LINE + len(shown) * _ROW + 4, parts, label="wavefronts")
    if len(rows) > len(shown):
        hidden_rows = rows[_MOST_ROWS:]
        lost = sum(r.lost for r in hidden_rows)
        sheet.words(f"… and {len(hidden_rows)} more, {lost} of them for conflicts", "soft", _LEFT)


def _row(row: Wavefront, y: float) -> Iterator[str]:
    words = f"phase {row.phase}" + (", conflict" if row.lost else "")
    yield text(MARGIN, y + 13, words, "bad" if row.lost else "soft")
    for run in _runs(row.words):
        x, width = _LEFT + run[0].bank * _CELL, len(run) * _CELL
        lanes = run[0].lanes
        title = f"bank {run[0].bank}: lane {', '.join(map(str, lanes))}"
        yield rect(x, y + 1, width, _ROW - 2, "cell", lane_colour(lanes[0]), title)
        if len(label(lanes)) * SMALL <= width:
            yield text(x + width / 2, y + 13, label(lanes), "in", "middle")
    yield rect(_LEFT, y, BANKS * _CELL, _ROW, "clash" if row.lost else "faint")


def _runs(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Adjacent banks that serve the same lanes."""
    run: list[Word] = []
    for word in words:
        if run and (word.bank != run[-1].bank + 1 or word.lanes != run[-1].lanes):
            yield run
            run = []
        run.append(word)
    if run:
        yield run
