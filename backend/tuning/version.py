"""Which compiler measurements were made with."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import tileir

_PARTS = ("tileir", "tileir.backend")
"""What decides about the code of a module."""

_OTHERS = ("/backend", "/builder", "/frontends", "/testing", "/textual", "/tools", "/tuning")
"""Folders, where parts are installed inside of each other, that do not, or are counted apart."""


@cache
def compiler_version() -> str:
    """The release, and a digest of the sources that code is made by: a compiler under work is
    another one after every change. Sources of the tuner do not count."""
    digest = hashlib.sha256()
    for part in _PARTS:
        for name, file in sorted(_sources(files(part), "")):
            digest.update(name.encode() + file.read_bytes())
    return f"{tileir.__version__}+{digest.hexdigest()[:12]}"


def _sources(folder: Traversable, path: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            skipped = entry.name == "__pycache__" or name in _OTHERS
            found += [] if skipped else _sources(entry, name)
        elif entry.name.endswith((".py", ".tir")):
            found.append((name, entry))
    return found
