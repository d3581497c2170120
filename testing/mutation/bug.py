"""A planted bug."""

from __future__ import annotations

import attrs


@attrs.frozen
class Bug:
    """In `file`, `old` (which occurs once) is replaced by `new`; `name` says what breaks, `tests`
    are those that should notice, the tests of the file's area where there are none."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()


def planted(file: str, tests: tuple[str, ...], *bugs: tuple[str, str, str]) -> tuple[Bug, ...]:
    """Bugs of one file, each by its name, what stands there and what shall."""
    return tuple(Bug(name, file, old, new, tests) for name, old, new in bugs)
