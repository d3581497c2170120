"""Tiles that lie in buffers on the stack, as factors and sums of products do."""

from __future__ import annotations

from typing import Any

from tileir import records
from tileir.backend.cpu.lanes import WIDTH, scalar_type
from tileir.backend.lower.lowering import Fragment, Lowering, thread_span
from tileir.types import I32, AddressSpace, Element, Pointer, Tile


@records.frozen
class Matrix:
    """A buffer for a tile: rows of `pitch` elements, a multiple of the lanes. In `panels`, the
    first `WIDTH` columns of all rows come before the next ones."""

    place: str
    element: Element
    shape: tuple[int, ...]
    panels: bool = False

    @property
    def pitch(self) -> int:
        """Elements of a row."""
        return -(-self.shape[-1] // WIDTH) * WIDTH

    @property
    def count(self) -> int:
        """Elements of one matrix."""
        return self.shape[-2] * self.pitch

    @property
    def batch(self) -> int:
        """Matrices."""
        return self.shape[0] if len(self.shape) == 3 else 1

    def allocate(self, thread: Any) -> Matrix:
        """Itself, with room on the stack."""
        kind = f"[{self.batch * self.count} x {scalar_type(self.element)}]"
        thread.at_entry.append(f"  {self.place} = alloca {kind}, align 64")
        return self

    def put(self, lowering: Lowering, tile: Tile, register: int, x: Any) -> None:
        """Store the register `x` of a tile."""
        thread: Any = lowering.thread
        mask = lowering.inside(tile.layout, tile.shape, register)
        if mask != "false":
            thread.store_elements(self.element, self._address(lowering, tile, register), x, mask)

    def get(self, lowering: Lowering, tile: Tile) -> Fragment:
        """All registers of a tile."""
        thread: Any = lowering.thread
        found: Fragment = []
        for register in range(tile.layout.size("register")):
            mask = lowering.inside(tile.layout, tile.shape, register)
            if mask == "false":
                found.append(thread.constant(self.element, 0))
            else:
                at = self._address(lowering, tile, register)
                found.append(thread.load_elements(self.element, at, mask))
        return found

    def _address(self, lowering: Lowering, tile: Tile, register: int) -> Any:
        """Where the element of a register lies."""
        thread: Any = lowering.thread
        index: Any = "0"
        for at, stride in self._terms(lowering, tile, register):
            term = thread.binary("mul", I32, at, thread.integer(stride), "nsw nuw")
            index = thread.binary("add", I32, index, term, "nsw nuw")
        kind = Pointer(self.element, AddressSpace.GENERIC)
        return thread.advance(kind, self.place, index, I32)

    def _terms(self, lowering: Lowering, tile: Tile, register: int) -> list[tuple[Any, int]]:
        """Coordinates, and the distance of neighbours along them."""
        thread: Any = lowering.thread
        dims = range(len(tile.shape))
        at: list[Any] = [lowering.coordinate(tile.layout, register, dim) for dim in dims]
        batch = [(at[0], self.count)] if len(at) == 3 else []
        if not self.panels:
            return [*batch, (at[-2], self.pitch), (at[-1], 1)]
        rows = self.shape[-2]
        fixed = tile.layout.registers[register][-1]
        inner = fixed % WIDTH
        if inner + thread_span(tile.layout, dims[-1]) < WIDTH:
            panel, column = thread.integer(fixed - inner), thread.binary(
                "sub", I32, at[-1], thread.integer(fixed - inner))  # fmt: skip
        else:
            column = thread.binary("and", I32, at[-1], thread.integer(WIDTH - 1))
            panel = thread.binary("sub", I32, at[-1], column)
        return [*batch, (panel, rows), (at[-2], WIDTH), (column, 1)]
