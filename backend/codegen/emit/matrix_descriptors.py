"""Matrix descriptors of operands in shared memory.

PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": "Shared Memory Matrix Layout",
"Strides", "Matrix Descriptor Format". The atom is 8 rows of a panel. If K is contiguous, K
continues along the row and then in the next panel; M or N continues in the atom of the next 8 rows.
If M or N is contiguous, K continues in the atom of the next 8 rows; M or N continues in the next
panel.
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
    """A stage of a buffer that contains a wgmma operand. `place` is its placement; `k_contiguous`
    states whether its rows run along K."""

    place: SharedTile
    k_contiguous: bool

    def unfit(self) -> str | None:
        """The reason why no descriptor can describe the placement, else None."""
        place = self.place
        if place.pitch != CHUNK << place.swizzle:
            return f"its buffer must have panels of {CHUNK << place.swizzle} bytes"
        return None

    @property
    def extents(self) -> tuple[int, int]:
        """The number of rows of A or columns of B, and K."""
        rows, row = self.place.shape[self.place.slow], self.place.shape[self.place.fast]
        return (rows, row) if self.k_contiguous else (row, rows)

    def offset(self, outer: int, k: int) -> int:
        """The byte offset of the element at row or column `outer` and index `k` along K."""
        row, column = (outer, k) if self.k_contiguous else (k, outer)
        return self.place.along(column * self.place.element.bytes) + row * self.place.pitch

    def reaches(self, outer: int) -> bool:
        """Whether an instruction may begin at row or column `outer`, which must start an atom."""
        if self.k_contiguous:
            return outer % ATOM == 0
        return outer * self.place.element.bytes % self.place.pitch == 0

    @property
    def bits(self) -> int:
        """The bits of the descriptor of an operand at address 0."""
        leading, stride = self._strides()
        mode = _MODES[self.place.swizzle]
        return (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62

    def _strides(self) -> tuple[int, int]:
        """The leading dimension byte offset and the stride dimension byte offset."""
        atom, panel = ATOM * self.place.pitch, self.place.panel_bytes
        if self.place.swizzle:
            return (CHUNK, atom) if self.k_contiguous else (panel, atom)
        return (panel, atom) if self.k_contiguous else (atom, panel)
