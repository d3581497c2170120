"""Bank conflicts of shared memory, from addresses.

Shared memory has 32 banks of 4 bytes. An access of a warp takes one wavefront per phase: all 32
lanes for up to 4 bytes each, half of them for 8, a quarter for 16. Lanes of a phase that need
different words of one bank wait for each other (CUDA C++ Programming Guide, "Shared Memory").
"""

from __future__ import annotations

from collections.abc import Sequence

BANKS, WORD = 32, 4


def wavefronts(offsets: Sequence[int | None], size: int) -> int:
    """Wavefronts of one access of `size` bytes by each lane of a warp at its byte offset; None
    for lanes that make none."""
    lanes = phase_lanes(size)
    return sum(_phase(offsets[i : i + lanes], size) for i in range(0, len(offsets), lanes))


def conflicts(offsets: Sequence[int | None], size: int) -> int:
    """Wavefronts beyond one per phase."""
    lanes = phase_lanes(size)
    phases = [offsets[i : i + lanes] for i in range(0, len(offsets), lanes)]
    return sum(max(0, _phase(p, size) - 1) for p in phases)


def phase_lanes(size: int) -> int:
    """Lanes that access shared memory together, `size` bytes each."""
    return min(BANKS, BANKS * WORD // size)


def _phase(offsets: Sequence[int | None], size: int) -> int:
    """The largest number of words that one bank delivers."""
    words: set[int] = set()
    for offset in offsets:
        if offset is not None:
            words.update(range(offset // WORD, (offset + size - 1) // WORD + 1))
    banks = [0] * BANKS
    for word in words:
        banks[word % BANKS] += 1
    return max(banks)
