"""The planted bugs as changes."""

from __future__ import annotations

from pathlib import Path

from tileir.testing.mutation.change import Change
from tileir.testing.mutation.planted_bugs import BUGS, Bug


def changes(root: Path, file: str | None = None) -> list[Change]:
    """All bugs, or those of one file, as changes. Raises ValueError that lists the bugs whose `old`
    does not occur exactly once in their file."""
    bugs = [b for b in BUGS if file in (None, b.file)]
    sources = {f: (root / f).read_text() for f in {b.file for b in bugs}}
    misfits = [
        f"{b.file} has {count} times {b.old!r} ({b.name})"
        for b in bugs
        if (count := sources[b.file].count(b.old)) != 1
    ]
    if misfits:
        raise ValueError("\n".join(misfits))
    return [_change(b, sources[b.file]) for b in bugs]


def _change(bug: Bug, source: str) -> Change:
    line = source[: source.index(bug.old)].count("\n") + 1
    changed = source.replace(bug.old, bug.new)
    return Change(bug.file, line, bug.name, changed, bug.old + bug.new, bug.tests)
