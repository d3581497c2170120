"""What is known about changes, kept in a file that grows."""

from __future__ import annotations

from pathlib import Path

from tileir.testing.mutation.change import Change
from tileir.testing.mutation.fork import Outcome


class Results:
    """Status by key of a change. One line each: key, status, seconds or, for a change that means
    the same as the original (`equivalent`, noted by hand), the reason."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._status = {k: s for k, s, _ in (line.split("\t") for line in lines)}

    def __contains__(self, key: str) -> bool:
        return key in self._status

    def __getitem__(self, key: str) -> str:
        return self._status[key]

    def add(self, change: Change, outcome: Outcome) -> None:
        """Note an outcome, at once, so that a run that is stopped loses nothing."""
        self._status[change.key] = outcome.status
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(f"{change.key}\t{outcome.status}\t{outcome.seconds}\n")
