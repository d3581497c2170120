"""Classic bugs, planted by hand, as changes."""

from __future__ import annotations

from pathlib import Path

from tileir.testing.mutation.change import Change
from tileir.testing.mutation.planted_bugs import BUGS, Bug


def changes(root: Path) -> list[Change]:
    """Every bug as a change. Raises ValueError for a bug whose `old` does not occur just once."""
    return [_change(bug, root) for bug in BUGS]


def _change(bug: Bug, root: Path) -> Change:
    source = (root / bug.file).read_text()
    if source.count(bug.old) != 1:
        raise ValueError(f"{bug.file} has {source.count(bug.old)} times {bug.old!r} ({bug.name})")
    line = source[: source.index(bug.old)].count("\n") + 1
    changed = source.replace(bug.old, bug.new)
    return Change(bug.file, line, bug.name, changed, bug.old + bug.new, bug.tests)
