"""A planted bug."""

from __future__ import annotations

import attrs


@attrs.frozen
class Bug:
    """A planted bug: in `file`, `old` (which occurs once) is replaced by `new`.

    `name` describes the defect. `tests` are the tests that should fail; if there are none, the
    tests of the file's area.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()


def bugs_in(file: str, tests: tuple[str, ...], *bugs: tuple[str, str, str]) -> tuple[Bug, ...]:
    """The bugs of one file. Each is a name, the original text and its replacement."""
    return tuple(Bug(name, file, old, new, tests) for name, old, new in bugs)
