"""Tables of `perf_report`, as files and pictures."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def heads(one: Any) -> list[str]:
    """Names of the columns: of what varies, and of what was measured with its unit."""
    unit = f" ({one.ylabel})" if one.ylabel else ""
    return [*one.x_names, *(f"{name}{unit}" for name in one.line_names)]


def frame(one: Any, rows: Sequence[Sequence[Any]]) -> Any:
    """The table as pandas has them; its rows where pandas is not installed."""
    pandas = _optional("pandas")
    return rows if pandas is None else pandas.DataFrame(rows, columns=heads(one))


def save_or_show(one: Any, rows: Sequence[Sequence[Any]], shown: bool, folder: str) -> None:
    """Write the table to `folder`, and where matplotlib is installed the plot, or show it."""
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with (Path(folder) / f"{one.plot_name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([heads(one), *rows])
    plots = _optional("matplotlib.pyplot") if shown or folder else None
    if plots is None:
        return
    figure, axes = plots.subplots()
    for i, name in enumerate(heads(one)[len(one.x_names) :]):
        color, style = one.styles[i] if one.styles else (None, None)
        points = [row[len(one.x_names) + i] for row in rows]
        axes.plot([row[0] for row in rows], points, label=name, color=color, ls=style)
    axes.legend()
    axes.set_xlabel(one.xlabel or one.x_names[0])
    axes.set_ylabel(one.ylabel)
    axes.set_xscale("log" if one.x_log else "linear")
    axes.set_yscale("log" if one.y_log else "linear")
    if folder:
        figure.savefig(Path(folder) / f"{one.plot_name}.png")
    if shown:
        plots.show()


def _optional(name: str) -> Any:
    """A module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
