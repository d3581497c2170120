"""Results of changes, in a file that grows."""

from __future__ import annotations

from pathlib import Path

from tileir.testing.mutation.change import Change
from tileir.testing.mutation.fork import Outcome


class MutationResults:
    """Status by key of a change. One line each: key, status, seconds or, for a change that means
    the same as the original (`equivalent`, noted by hand), the reason; the last line of a key
    counts. What is new goes to `out`, the same file where none is named."""

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
        """The status in `path` as it was; None where it has none."""
        return self._before[key].split("\t")[1] if key in self._before else None

    def since(self, key: str) -> bool:
        """Whether an `out` of its own had a line for it."""
        return key in self._since

    def add(self, change: Change, outcome: Outcome) -> None:
        """Note an outcome, at once, so that a run that is stopped loses nothing."""
        line = f"{change.key}\t{outcome.status}\t{outcome.seconds}"
        self._lines[change.key] = line
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with self.out.open("a") as file:
            file.write(line + "\n")

    def merge(self, other: Path) -> int:
        """Take over what was found elsewhere, but for changes that are `equivalent`; how many
        lines are new."""
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
