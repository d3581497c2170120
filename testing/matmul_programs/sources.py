"""Matrices in memory from which tiles are loaded and to which they are stored, with the usual forms
of addresses."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.builder import I32, I64, Builder

POINTERS, DESCRIPTOR, GATHERED = range(3)
"""The access to a source: by pointers, by a descriptor, or by rows that a table selects."""
COMPUTED, ADVANCED, OFFSETS, STARTS = range(4)
"""The loop-carried value: none, pointers, offsets, or the start."""


@attrs.frozen(eq=False)
class MatmulAxis:
    """An index of a matrix: its extent, and the extent of a tile along it. `wraps` states whether
    it is taken modulo the extent; `lead` is the stride."""

    extent: Any
    size: int
    lead: Any
    wraps: bool = False


@attrs.frozen(eq=False)
class OperandSource:
    """Tiles of `rows` by `columns`, addressed from `base`. `masked` selects the form of the mask;
    `wide` states whether indices are i64; `least` whether the mask tests for indices below 0."""

    b: Builder
    base: Any
    rows: MatmulAxis
    columns: MatmulAxis
    masked: int = 0
    how: int = POINTERS
    wide: bool = False
    table: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.size, self.columns.size

    def load(self, row: Any, column: Any) -> Any:
        """The tile that starts at `row` and `column`, with zeros out of bounds."""
        if self.how == DESCRIPTOR:
            return self._load_block(row, column)
        r, c = self.indices(row, column)
        return self.read(self.base + self.offsets(r, c), row, column)

    def read(self, pointers: Any, row: Any, column: Any) -> Any:
        """Load the elements at `pointers`, under the mask of the tile that starts at `row` and
        `column`."""
        mask = self.mask(*self.indices(row, column), row, column)
        return pointers.load() if mask is None else pointers.load(mask, 0)

    def store(self, value: Any, row: Any, column: Any) -> None:
        """Store the tile that starts at `row` and `column`."""
        if self.how == DESCRIPTOR:
            transposed = self._is_column_major
            self.b.descriptor_store(
                self.base, value.permute(1, 0) if transposed else value,
                [column, row] if transposed else [row, column],
            )  # fmt: skip
            return
        r, c = self.indices(row, column)
        (self.base + self.offsets(r, c)).store(value, self.mask(r, c, row, column))

    def indices(self, row: Any, column: Any) -> tuple[Any, Any]:
        """The row indices as a column, and the column indices as a row."""
        r, c = (self._index(a, s) for a, s in ((self.rows, row), (self.columns, column)))
        return r[:, None], c[None, :]

    def offsets(self, r: Any, c: Any) -> Any:
        """The offsets of elements from the base."""
        if self.how == GATHERED:
            r = (self.table + r).load()
        if self.wide:
            r, c = r.to(I64), c.to(I64)
        return _times(r, self.rows.lead) + _times(c, self.columns.lead)

    def step(self, by: Any, along: int) -> Any:
        """The offset by which pointers advance for `by` elements along a dimension."""
        return _times(by, (self.rows, self.columns)[along].lead)

    def mask(self, r: Any, c: Any, row: Any, column: Any) -> Any:
        """The mask for indices that start at `row` and `column`; None if there is no mask."""
        first = self._bounds(self.rows, r, row, 0)
        second = self._bounds(self.columns, c, column, 1)
        if self.masked % 12 in (5, 7):
            second = []
        if self.masked % 12 in (6, 7):
            first = []
        bounds = [*second, *first] if self.masked % 12 in (1, 3) else [*first, *second]
        if not bounds:
            return None
        result = bounds[0].broadcast_to(*self.shape)
        for bound in bounds[1:]:
            result = result & bound.broadcast_to(*self.shape)
        return result

    def _bounds(self, axis: MatmulAxis, index: Any, start: Any, dim: int) -> list[Any]:
        if axis.wraps:
            return []
        end = axis.extent
        match self.masked % 12:
            case 2 | 3:
                return [index >= 0, index < end][:: 1 if self.masked % 12 == 2 else -1]
            case 4:
                return [end > index] if isinstance(end, int) is False else [index < end]
            case 8:
                return [index.ult(end)]
            case 9:
                return [index <= end - 1]
            case 10:
                lane = self.b.arange(axis.size)
                lane = lane[None, :] if dim else lane[:, None]
                return [lane < end - start]
            case _:
                return [index < end]

    def _index(self, axis: MatmulAxis, start: Any) -> Any:
        index = self.b.arange(axis.size) + start
        return index.srem(axis.extent) if axis.wraps else index

    @property
    def _is_column_major(self) -> bool:
        return self.rows.lead is None

    def _load_block(self, row: Any, column: Any) -> Any:
        if self._is_column_major:
            return self.b.descriptor_load(self.base, [column, row]).permute(1, 0)
        return self.b.descriptor_load(self.base, [row, column])


@attrs.define(eq=False)
class Moving:
    """A source whose tile advances along one dimension (0 or 1) in a loop, starting at `first`.
    `fixed` is the start in the other dimension. If `transposed`, the operand is the transpose of
    the tile."""

    source: OperandSource
    along: int
    fixed: Any
    first: Any
    by: int
    how: int = COMPUTED
    transposed: bool = False
    carried: Any = None

    def begin(self) -> Moving:
        """Write the ops before the loop."""
        b = self.source.b
        if self.source.how == DESCRIPTOR and self.how != STARTS:
            self.how = COMPUTED
        if self.how in (ADVANCED, OFFSETS):
            r, c = self.source.indices(*self._starts(self.first))
            offsets = self.source.offsets(r, c)
            self.carried = b.var(self.source.base + offsets if self.how == ADVANCED else offsets)
        elif self.how == STARTS:
            self.carried = b.var(
                self.first if not isinstance(self.first, int) else b.constant(I32, self.first)
            )
        return self

    def load(self, at: Any) -> Any:
        """The operand of the iteration at `at`."""
        tile = self._load_tile(at)
        return tile.permute(1, 0) if self.transposed else tile

    def _load_tile(self, at: Any) -> Any:
        if self.how in (ADVANCED, OFFSETS):
            pointers = self.carried.get()
            if self.how == OFFSETS:
                pointers = self.source.base + pointers
            return self.source.read(pointers, *self._starts(at))
        return self.source.load(*self._starts(at if self.how == COMPUTED else self.carried.get()))

    def step(self) -> None:
        """Write the ops at the end of an iteration."""
        if self.how in (ADVANCED, OFFSETS):
            step = self.source.step(self.by, self.along)
            if self.source.wide and self.how == OFFSETS and not isinstance(step, int):
                step = step.to(I64)
            self.carried.set(self.carried.get() + step)
        elif self.how == STARTS:
            self.carried.set(self.carried.get() + self.by)

    def _starts(self, at: Any) -> tuple[Any, Any]:
        return (self.fixed, at) if self.along else (at, self.fixed)


def _times(index: Any, lead: Any) -> Any:
    if lead is None:
        return index
    wide = getattr(index, "type", None)
    if not isinstance(lead, int) and wide is not None and "i64" in str(wide):
        return index * lead.to(I64)
    return index * lead
