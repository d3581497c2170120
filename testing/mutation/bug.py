"""A planted bug."""

from __future__ import annotations

import attrs


@attrs.frozen
class Bug:
    """A planted bug: in `file`, `old` (which occurs once) is replaced by `new`.

    `name` describes the defect. `tests` are those that should fail, the tests of the file's area if
    there are none.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()


def bugs_in(file: str, tests: tuple[str, ...], *bugs: tuple[str, str, str]) -> tuple[Bug, ...]:
    """Bugs of one file, each by its name, the original text and its replacement."""
    return tuple(Bug(name, file, old, new, tests) for name, old, new in bugs)
