"""One changed source file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs

FOLDERS = {
    "tileir": "tileir",
    "builder": "tileir.builder",
    "textual": "tileir.textual",
    "backend": "tileir.backend",
    "frontends": "tileir.frontends",
    "tools": "tileir.tools",
    "testing": "tileir.testing",
}
"""The package that each top-level folder is imported as."""


@attrs.frozen
class Change:
    """A change: `file` (relative to the repository) with `source` instead of its text.

    `name` describes the change, `context` is the changed text of the surrounding definition.
    """

    file: str
    line: int
    name: str
    source: str = attrs.field(repr=False)
    context: str = attrs.field(repr=False)
    tests: tuple[str, ...] = ()
    """Paths of the tests that judge it; those of the file's area where there are none."""

    @property
    def module(self) -> str:
        """The full name of the module that `file` defines."""
        folder, *rest = Path(self.file).with_suffix("").parts
        parts = rest[:-1] if rest and rest[-1] == "__init__" else rest
        return ".".join((FOLDERS[folder], *parts))

    @property
    def key(self) -> str:
        """A key that is equal for equal changes of equal surroundings, wherever they are in the
        file."""
        digest = hashlib.sha256(self.context.encode()).hexdigest()[:12]
        return f"{self.file} {self.name} #{digest}"
