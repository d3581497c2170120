"""Tables on standard output: coloured if it is a terminal and rich is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

import attrs


@attrs.frozen
class Row:
    """The cells of one line; `good` is None if the line has no verdict."""

    cells: tuple[str, ...]
    good: bool | None = None


@attrs.frozen
class Table:
    """Rows with column headings."""

    heads: Sequence[str]
    rows: Sequence[Row]
    blank: int | str = ""
    """The meaning of an empty cell."""

    def show(self) -> None:
        """Print the table to standard output."""
        if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
            _show_rich(self.heads, self.rows)
        else:
            sys.stdout.write(plain(self.heads, self.rows) + "\n")

    @property
    def records(self) -> list[dict[str, int | float | str]]:
        """A mapping from headings to cells per row, for JSON. Numbers stay numbers."""
        cells = ([self._value(cell) for cell in row.cells] for row in self.rows)
        return [dict(zip(self.heads, values, strict=True)) for values in cells]

    def _value(self, cell: str) -> int | float | str:
        if not cell:
            return self.blank
        for kind in (int, float):
            try:
                return kind(cell)
            except ValueError:
                pass
        return cell


def plain(heads: Sequence[str], rows: Sequence[Row]) -> str:
    """The table as text, columns aligned by spaces."""
    lines = [tuple(heads), *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _show_rich(heads: Sequence[str], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    for head in heads:
        table.add_column(head)
    for row in rows:
        style = {None: "", True: "green", False: "bold red"}[row.good]
        table.add_row(*(Text(cell, style) for cell in row.cells))
    Console().print(table)
