"""Progress output of tuning, on standard error: a bar if rich is installed and standard error is a
terminal."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import attrs

from tileir.backend.measurement.outcome import CandidateOutcome
from tileir.backend.tuning.report import duration
from tileir.backend.tuning.tune import Silent, TuningObserver


def observer(quiet: bool = False) -> TuningObserver:
    """Progress output: a bar on a terminal, a line per phase elsewhere, none if `quiet`."""
    if quiet:
        return Silent()
    if sys.stderr.isatty() and importlib.util.find_spec("rich") is not None:
        return Bar()
    return Lines()


@attrs.define
class Lines:
    """Prints a line when a phase begins, and for each new best candidate."""

    best: float = float("inf")

    def begin(self, what: str, total: int) -> None:
        sys.stderr.write(f"{what}: about {total}\n")

    def on_survey(self) -> None:
        pass

    def on_result(self, outcome: CandidateOutcome, best: CandidateOutcome | None) -> None:
        if best is not None and best.seconds is not None and best.seconds < self.best:
            self.best = best.seconds
            sys.stderr.write(f"  {duration(best.seconds)}  {best.name}\n")


@attrs.define
class Bar:
    """A progress bar that also shows the best time so far. `close` it, or use it as a context."""

    _progress: Any = None
    _task: Any = None
    _failed: int = 0

    def begin(self, what: str, total: int) -> None:
        if self._progress is None:
            self._progress = _progress()
            self._progress.start()
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=total, note="")

    def on_survey(self) -> None:
        self._progress.advance(self._task)

    def on_result(self, outcome: CandidateOutcome, best: CandidateOutcome | None) -> None:
        self._failed += not outcome.good
        note = "" if best is None else f"{duration(best.seconds)}  {best.name}"
        note += f"  [red]{self._failed} failed[/red]" if self._failed else ""
        self._progress.update(self._task, advance=1, note=note)

    def close(self) -> None:
        """Restore the state of the terminal."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _progress() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[note]}"), console=Console(stderr=True),
        transient=True,
    )  # fmt: skip
