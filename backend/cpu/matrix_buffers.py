"""Tiles in buffers on the stack: operands and accumulators of dots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from tileir.backend.codegen.lowering import Fragment, Lowering, thread_span
from tileir.backend.cpu.lane_values import WIDTH, scalar_type
from tileir.backend.cpu.transpose_kernel import BLOCK, transposing_function
from tileir.types import I32, AddressSpace, Element, Pointer, Tile


@attrs.frozen
class Matrix:
    """A buffer for a tile: rows of `pitch` elements, which is a multiple of the lanes. With
    `panels`, the first `WIDTH` columns of all rows are stored first, then the next `WIDTH` columns.
    `shape` is that of the stored rows; if the tile is stored `column_major`, the stored rows are
    its columns."""

    place: str
    element: Element
    shape: tuple[int, ...]
    panels: bool = False
    column_major: bool = False

    @property
    def pitch(self) -> int:
        """The number of elements of a row, including padding."""
        return -(-self.shape[-1] // WIDTH) * WIDTH

    @property
    def count(self) -> int:
        """The number of elements of one matrix."""
        return self.shape[-2] * self.pitch

    @property
    def batch(self) -> int:
        """The number of matrices."""
        return self.shape[0] if len(self.shape) == 3 else 1

    def allocate(self, thread: Any) -> Matrix:
        """The same buffer, allocated on the stack."""
        kind = f"[{self.batch * self.count} x {scalar_type(self.element)}]"
        thread.at_entry.append(f"  {self.place} = alloca {kind}, align 64")
        return self

    def clear(self, thread: Any) -> None:
        """Set every element to zero."""
        size = self.batch * self.count * self.element.bytes
        thread.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        thread.line(f"call void @llvm.memset.p0.i64(ptr {self.place}, i8 0, i64 {size}, i1 false)")

    def matrix(self, thread: Any, number: int) -> str:
        """The address of matrix number `number`."""
        if number == 0:
            return self.place
        kind, offset = scalar_type(self.element), number * self.count
        return thread.emit(f"getelementptr {kind}, ptr {self.place}, i64 {offset}")

    def part(self, thread: Any, starts: Sequence[str]) -> Matrix:
        """The same buffer, starting at the element `starts` (i32)."""
        distances = (self.count, self.pitch, 1)[-len(starts) :]
        index = _index(thread, zip(starts, distances, strict=True))
        kind = scalar_type(self.element)
        place = thread.emit(f"getelementptr {kind}, ptr {self.place}, i32 {index}")
        return attrs.evolve(self, place=place)

    def put(self, lowering: Lowering, tile: Tile, register: int, x: Any) -> None:
        """Store register `register` of a tile, with value `x`."""
        thread: Any = lowering.thread
        mask = lowering.inside(tile.layout, tile.shape, register)
        if mask != "false":
            thread.store_elements(self.element, self._address(lowering, tile, register), x, mask)

    def put_all(self, lowering: Lowering, tile: Tile, fragment: Fragment) -> None:
        """Store all registers of a tile."""
        for register, x in enumerate(fragment):
            self.put(lowering, tile, register, x)

    def get(self, lowering: Lowering, tile: Tile) -> Fragment:
        """Load all registers of a tile."""
        thread: Any = lowering.thread
        values: Fragment = []
        for register in range(tile.layout.size("register")):
            mask = lowering.inside(tile.layout, tile.shape, register)
            if mask == "false":
                values.append(thread.constant(self.element, 0))
            else:
                at = self._address(lowering, tile, register)
                values.append(thread.load_elements(self.element, at, mask))
        return values

    def _address(self, lowering: Lowering, tile: Tile, register: int) -> Any:
        """The address of the element of a register."""
        thread: Any = lowering.thread
        index = _index(thread, self._terms(lowering, tile, register))
        kind = Pointer(self.element, AddressSpace.GENERIC)
        return thread.advance(kind, self.place, index, I32)

    def _terms(self, lowering: Lowering, tile: Tile, register: int) -> list[tuple[Any, int]]:
        """Coordinates, each with the distance of neighbours along it."""
        thread: Any = lowering.thread
        dims = range(len(tile.shape))
        at: list[Any] = [lowering.coordinate(tile.layout, register, dim) for dim in dims]
        batch = [(at[0], self.count)] if len(at) == 3 else []
        down, along = (dims[-1], dims[-2]) if self.column_major else (dims[-2], dims[-1])
        if not self.panels:
            return [*batch, (at[down], self.pitch), (at[along], 1)]
        fixed = tile.layout.registers[register][along]
        inner = fixed % WIDTH
        if inner + thread_span(tile.layout, along) < WIDTH:
            panel, column = thread.integer(fixed - inner), thread.binary(
                "sub", I32, at[along], thread.integer(fixed - inner))  # fmt: skip
        else:
            column = thread.binary("and", I32, at[along], thread.integer(WIDTH - 1))
            panel = thread.binary("sub", I32, at[along], column)
        return [*batch, (panel, self.shape[-2]), (at[down], WIDTH), (column, 1)]


def _index(thread: Any, terms: Iterable[tuple[Any, int]]) -> Any:
    """The index of the element at coordinates, each paired with the distance of neighbours along
    it."""
    index: Any = "0"
    for at, distance in terms:
        term = thread.binary("mul", I32, at, thread.integer(distance), "nsw nuw")
        index = thread.binary("add", I32, index, term, "nsw nuw")
    return index


def call(thread: Any, name: str, matrices: Sequence[Matrix], sizes: Sequence[int]) -> None:
    """Call a function of the module on every matrix of a batch. Its arguments are the addresses of
    the matrices, and `sizes`."""
    for i in range(matrices[-1].batch):
        places = [m.matrix(thread, i) for m in matrices]
        arguments = ", ".join([*(f"ptr {p}" for p in places), *(f"i64 {n}" for n in sizes)])
        thread.line(f"call void {name}({arguments})")


@attrs.frozen
class PackedOperand:
    """The buffer to which an operand is written, and the buffer from which dots read it: its
    transpose, if they differ."""

    put: Matrix
    read: Matrix

    def finish(self, thread: Any) -> None:
        """Complete the operand: all its elements have been written."""
        if self.put is not self.read:
            _transpose(thread, self.put, self.read)


def allocate_packed(
    thread: Any, tile: Tile, element: Element, *, panels: bool, turned: bool
) -> PackedOperand:
    """Allocate an operand whose elements are in registers of `tile`. With `turned`, dots read its
    transpose.

    Rows whose elements are in neighbouring lanes are written as rows. If dots read columns, whole
    blocks of the rows are then transposed. Elements outside whole blocks are written as columns
    directly.
    """

    def matrix(shape: tuple[int, ...], panels: bool, column_major: bool) -> Matrix:
        return Matrix(thread.fresh(), element, shape, panels, column_major).allocate(thread)

    transposed_shape = (*tile.shape[:-2], tile.shape[-1], tile.shape[-2])
    read = transposed_shape if turned else tile.shape
    if _is_column_major(tile) == turned or any(n % BLOCK for n in tile.shape[-2:]):
        only = matrix(read, panels, turned)
        return PackedOperand(only, only)
    rows = tile.shape if turned else transposed_shape
    return PackedOperand(matrix(rows, False, not turned), matrix(read, panels, False))


def _is_column_major(tile: Tile) -> bool:
    """Whether neighbouring lanes own neighbours along a column."""
    lanes = tile.layout.atom("lane")  # type: ignore[union-attr]
    return bool(lanes) and lanes[0][-2:] == (1, 0)


def _transpose(thread: Any, rows: Matrix, to: Matrix) -> None:
    """Write the transpose of `rows` to `to`. The extents are multiples of `BLOCK`."""
    name, (count, columns) = transposing_function(thread, to.element), rows.shape[-2:]
    panel, row = (columns * WIDTH, WIDTH) if to.panels else (WIDTH, to.pitch)
    call(thread, name, (rows, to), (count, columns, rows.pitch, panel, row))
