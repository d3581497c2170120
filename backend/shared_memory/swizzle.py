"""Swizzles of shared memory that two layouts both access with wide vectors and no bank conflicts.

Offsets are a basis of the coordinate space over GF(2), lowest offset bit first: vectors that are
contiguous in the registers of both sides, then those of one side alone, then bits that choose the
bank, then the remaining ones. Two lanes conflict in a bank exactly if their coordinates differ by a
combination of the remaining vectors. These are chosen as a common complement of the spans of the
lanes that access together on either side. Such a complement always exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tileir.layout_bits import (
    Subspace,
    apply,
    common_complement,
    independent,
    intersection,
    inverse,
)

WIDEST = 16
"""Bytes of the widest access of a thread (PTX ISA, ld: .v4.b32)."""


@attrs.frozen
class Columns:
    """The bits of the layout of one side, each with the packed coordinates by which it moves."""

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]

    @property
    def threads(self) -> tuple[int, ...]:
        """Lanes and warps."""
        return self.lanes + self.warps


@attrs.frozen
class Swizzle:
    """`matrix[i]` is the offset, in elements, of bit `i` of the coordinates; accesses are of
    `1 << stored` elements where the tile is written and `1 << loaded` where it is read."""

    matrix: tuple[int, ...]
    stored: int
    loaded: int


@attrs.frozen
class _Split:
    """Bits of vectors: shared by both sides, then those of the side that writes or reads."""

    common: tuple[int, ...]
    alone: tuple[int, ...]
    writer: bool

    def low(self, writer: bool) -> tuple[int, ...]:
        """The vector of one side."""
        return self.common + (self.alone if writer == self.writer else ())


def swizzle(source: Columns, target: Columns, bits: int, size: int) -> Swizzle:
    """The offsets for tiles of `1 << bits` elements of `size` bytes, written as `source` and read
    as `target`, that take the fewest instructions, without bank conflicts."""
    attempts = (
        _attempt(split, source, target, bits, size)
        for split in sorted(
            _splits(source, target, size), key=lambda s: _instructions(s, source, target)
        )
    )
    return next(s for s in attempts if s is not None)


def swizzle_rows(
    row: Sequence[int], shared: int, writer: bool, source: Columns, target: Columns, bits: int,
    size: int,
) -> Swizzle | None:  # fmt: skip
    """The offsets where `row` has the lowest bits, as vectors of the side that writes (`writer`)
    or reads; up to `shared` of these bits are the vector of the other side as well. None where a
    lane would break a vector up."""
    attempts = (
        _attempt(_Split(tuple(row[:count]), tuple(row[count:]), writer), source, target, bits, size)
        for count in range(shared, -1, -1)
    )
    return next((s for s in attempts if s is not None), None)


def _instructions(split: _Split, source: Columns, target: Columns) -> tuple[int, int]:
    """The number of accesses of a thread on both sides, with a second number that prefers wide
    reads among equals."""
    stores = len(source.registers) - len(split.low(True))
    loads = len(target.registers) - len(split.low(False))
    return (1 << max(stores, 0)) + (1 << max(loads, 0)), loads


def _splits(source: Columns, target: Columns, size: int) -> Iterator[_Split]:
    """Yield ways to form vectors, wide ones first. The last one, without vectors, always works."""
    most = (WIDEST // size).bit_length() - 1
    shared = intersection(source.registers, target.registers)
    threads = independent([*source.threads, *target.threads])
    common = independent(shared, threads)[:most]
    for count in range(len(common), -1, -1):
        conflicting = common[:count]
        for writer, side in ((True, source), (False, target)):
            alone = independent(side.registers, [*side.threads, *conflicting])
            for more in range(min(most - count, len(alone)), -1, -1):
                yield _Split(tuple(conflicting), tuple(alone[:more]), writer)


def _attempt(
    split: _Split, source: Columns, target: Columns, bits: int, size: int
) -> Swizzle | None:
    """The offsets with these vectors; None where a lane would break one up."""
    low = _fill_word([*split.common, *split.alone], source, target, bits, size)
    sides = ((split.low(True), source), (split.low(False), target))
    reached = [_together(low, vector, side, size) for vector, side in sides]
    high = _complete_basis(reached, low, sides, bits)
    bank = independent(
        [*source.threads, *target.threads, *source.registers, *(1 << i for i in range(bits))],
        [*low, *high],
    )
    matrix = inverse([*low, *bank, *high], bits)
    assert all(row is not None for row in matrix)
    swizzle = tuple(row for row in matrix if row is not None)
    for vector, side in sides:
        mask = (1 << len(vector)) - 1
        if any(apply(swizzle, t) & mask for t in side.threads):
            return None
    return Swizzle(swizzle, len(split.low(True)), len(split.low(False)))


def _fill_word(
    low: list[int], source: Columns, target: Columns, bits: int, size: int
) -> tuple[int, ...]:
    """`low` with further bits until it fills a bank's word: elements of one word never conflict."""
    from tileir.backend.shared_memory.bank_conflicts import WORD

    word = (WORD // size).bit_length() - 1
    units = (1 << i for i in range(bits))
    more = independent([*source.registers, *target.registers, *source.lanes, *units], low)
    return (*low, *more[: max(0, word - len(low))])


def _together(low: Sequence[int], vector: Sequence[int], side: Columns, size: int) -> list[int]:
    """The words that the lanes of one phase of a side access at once."""
    from tileir.backend.shared_memory.bank_conflicts import WORD, phase_lanes

    wide = size << len(vector)
    lanes = phase_lanes(max(wide, WORD)).bit_length() - 1
    word = max(len(vector), min(len(low), (WORD // size).bit_length() - 1))
    return [*low[:word], *side.lanes[:lanes]]


def _complete_basis(
    reached: list[list[int]],
    low: Sequence[int],
    sides: Sequence[tuple[tuple[int, ...], Columns]],
    bits: int,
) -> list[int]:
    """Coordinates that may share a bank, those that registers move by last. Vectors of one side
    alone are paired with what no thread of that side moves by, so that threads find them whole."""
    (stored, source), (loaded, target) = sides
    wide, other = (reached, source) if len(stored) >= len(loaded) else (reached[::-1], target)
    moved = Subspace.of(other.threads)
    left = sorted(wide[0], key=lambda v: v not in low)
    right = sorted(wide[1], key=lambda v: v in moved)
    complement = common_complement(left, right, bits)
    last: list[int] = []
    for vectors in (
        intersection(complement, intersection(source.registers, target.registers)),
        intersection(complement, source.registers),
        intersection(complement, target.registers),
    ):
        last += independent(vectors, last)
    return independent(complement, last) + last[::-1]
