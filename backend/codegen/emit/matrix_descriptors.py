"""Matrix descriptors of operands in shared memory.

PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": "Shared Memory Matrix Layout",
"Strides", "Matrix Descriptor Format". The atom is 8 rows of a panel. If K is contiguous, the other
dimension continues after 8 rows, K in the row and then in the next panel. If M or N is contiguous,
K continues after 8 rows, the other dimension in the next panel.
"""

from __future__ import annotations

import attrs

from tileir.backend.shared_memory.shared_tile import CHUNK, SharedTile

ATOM = 8
"""Rows of a core matrix."""

_MODES = {0: 0, 3: 1, 2: 2, 1: 3}
"""Bits 62 and 63, by swizzle."""


@attrs.frozen
class SmemMatrix:
    """A stage with the placement `place` that contains an operand; `k_contiguous` where its rows
    run along K."""

    place: SharedTile
    k_contiguous: bool

    def unfit(self) -> str | None:
        """The reason why no descriptor describes the placement; None where one does."""
        place = self.place
        if place.pitch != CHUNK << place.swizzle:
            return f"its buffer must have panels of {CHUNK << place.swizzle} bytes"
        return None

    @property
    def extents(self) -> tuple[int, int]:
        """Rows or columns of the operand, and K."""
        rows, row = self.place.shape[self.place.slow], self.place.shape[self.place.fast]
        return (rows, row) if self.k_contiguous else (row, rows)

    def offset(self, outer: int, k: int) -> int:
        """The byte of the element at row or column `outer` and step `k`."""
        row, column = (outer, k) if self.k_contiguous else (k, outer)
        return self.place.along(column * self.place.element.bytes) + row * self.place.pitch

    def reaches(self, outer: int) -> bool:
        """Whether an instruction may begin at row or column `outer`: at the start of an atom."""
        if self.k_contiguous:
            return outer % ATOM == 0
        return outer * self.place.element.bytes % self.place.pitch == 0

    @property
    def bits(self) -> int:
        """The descriptor of an operand at address 0."""
        leading, stride = self._strides()
        mode = _MODES[self.place.swizzle]
        return (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62

    def _strides(self) -> tuple[int, int]:
        """The leading and the stride dimension byte offset."""
        atom, panel = ATOM * self.place.pitch, self.place.panel_bytes
        if self.place.swizzle:
            return (CHUNK, atom) if self.k_contiguous else (panel, atom)
        return (panel, atom) if self.k_contiguous else (atom, panel)
