"""Classic bugs, planted by hand: one wrong line each, of the kind that compilers have had."""

from __future__ import annotations

from pathlib import Path

import attrs

from tileir.testing.mutation.change import Change


@attrs.frozen
class Bug:
    """In `file`, `old` (which occurs once) is replaced by `new`; `name` says what breaks."""

    name: str
    file: str
    old: str
    new: str


BUGS: tuple[Bug, ...] = ()


def changes(root: Path) -> list[Change]:
    """Every bug as a change. Raises ValueError for a bug whose `old` does not occur just once."""
    return [_change(bug, root) for bug in BUGS]


def _change(bug: Bug, root: Path) -> Change:
    source = (root / bug.file).read_text()
    if source.count(bug.old) != 1:
        raise ValueError(f"{bug.file} has {source.count(bug.old)} times {bug.old!r} ({bug.name})")
    line = source[: source.index(bug.old)].count("\n") + 1
    changed = source.replace(bug.old, bug.new)
    return Change(bug.file, line, bug.name, changed, bug.old + bug.new)
