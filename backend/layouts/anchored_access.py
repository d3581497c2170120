"""What an access to global memory costs, by the neighbours that threads own."""

from __future__ import annotations

from tileir.backend.target import LINE_BYTES, VECTOR_BYTES

_LANES = 32
_SECTOR_BYTES = 32
"""The bytes that a cache reads from memory at once."""
_WORD = 4
"""Bytes of a register."""
_ADDED_ALONE = 64
"""The cost of an atomic addition of floats smaller than a word, which is a loop of
compare-and-swap. Lanes whose elements share a word repeat it. Two neighbours take one addition."""
_STRIDE = 64
"""The assumed distance in bytes of neighbours whose stride is not known."""


class AnchoredAccess:
    """An access of elements of `size` bytes, `width` of them at once, that runs `frequency` times.
    `sectors` states whether the sectors that two 16-byte writes share count, `adds` whether the
    access adds floats to memory, and `stride` is the distance of neighbours in bytes, 0
    if they are contiguous, and None if it is not known."""

    def __init__(
        self, width: int, size: int, write: bool, frequency: int, sectors: bool, adds: bool,
        stride: int | None,
    ) -> None:  # fmt: skip
        self.width, self.size, self.write = width, size, write
        self.frequency, self.sectors, self.adds, self.stride = frequency, sectors, adds, stride

    @property
    def is_near(self) -> bool:
        """Whether neighbours are known to share lines."""
        return self.stride is not None and self.stride < LINE_BYTES

    @property
    def sector_elements(self) -> int:
        """The number of elements in a sector of the cache, of those `stride` bytes apart."""
        return max(1, _SECTOR_BYTES // self.stride) if self.stride else 1

    def scatters(self, owned: int) -> bool:
        """Whether lanes that own `owned` neighbours leave expensive gaps in the addresses of an
        instruction: a narrow access touches more lines, and a write only parts of its sectors. The
        bytes in the gaps of a 16-byte read are in the L1 cache for the next read."""
        width = min(self.width, owned)
        return width < owned and (self.sectors or width * self.size < VECTOR_BYTES)

    def cost(self, owned: int) -> float:
        """The cost per element if threads own `owned` neighbours: the instruction, its lines of 128
        bytes, and the sectors of 32 bytes that further instructions write again."""
        width = min(self.width, owned)
        if self.adds and width * self.size < _WORD:
            return self.frequency * _ADDED_ALONE
        if self.stride != 0:
            stride = _STRIDE if self.stride is None else self.stride
            return self.frequency * (1 + min(_LANES, owned * _LANES * stride / LINE_BYTES))
        if not self.scatters(owned):
            return self.frequency * 2 / width
        lines = max(1.0, owned * self.size * _LANES / LINE_BYTES)
        rewritten = 2 * (owned / width - 1) if self.write else 0
        return self.frequency * (1 + lines + rewritten) / width
