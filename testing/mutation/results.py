"""Results of changes, in a file to which new ones are appended."""

from __future__ import annotations

from pathlib import Path

from tileir.testing.mutation.change import Change
from tileir.testing.mutation.fork import Outcome


class MutationResults:
    """The status of each change by its key.

    A line of the file has a key, a status, and the seconds, or, for a change that is equivalent to
    the original (`equivalent`, entered by hand), the reason. The last line of a key counts. New
    lines are appended to `out`, which is the same file if none is named.
    """

    def __init__(self, path: Path, out: Path | None = None) -> None:
        self.path, self.out = path, out or path
        self._before = _lines(self.path)
        self._since = _lines(self.out) if self.out != self.path else {}
        self._lines = self._before | self._since

    def __contains__(self, key: str) -> bool:
        return key in self._lines

    def __getitem__(self, key: str) -> str:
        return self._lines[key].split("\t")[1]

    def before(self, key: str) -> str | None:
        """The initial status in `path`; None if there is none."""
        return self._before[key].split("\t")[1] if key in self._before else None

    def since(self, key: str) -> bool:
        """Whether a separate `out` has a line for the key."""
        return key in self._since

    def add(self, change: Change, outcome: Outcome) -> None:
        """Append an outcome immediately, so that a run that is stopped loses nothing."""
        line = f"{change.key}\t{outcome.status}\t{outcome.seconds}"
        self._lines[change.key] = line
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with self.out.open("a") as file:
            file.write(line + "\n")

    def merge(self, other: Path) -> int:
        """Add the results of another file, except for changes that are `equivalent`. Returns the
        number of new lines."""
        result = {line.split("\t")[0]: line for line in other.read_text().splitlines()}
        new = {
            key: line for key, line in result.items()
            if key not in self or (self[key] != "equivalent" and self._lines[key] != line)
        }  # fmt: skip
        self._lines.update(new)
        self.write()
        return len(new)

    def write(self) -> None:
        """Write every change once, in the order of the keys."""
        self.out.write_text("".join(f"{line}\n" for _, line in sorted(self._lines.items())))


def _lines(path: Path) -> dict[str, str]:
    """The last line of every key."""
    lines = path.read_text().splitlines() if path.exists() else ()
    return {line.split("\t")[0]: line for line in lines}
