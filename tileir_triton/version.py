"""Releases: what of tileir the code of a kernel depends on, for the keys of Triton's caches, and
numbers of versions.

Found without importing tileir: a kernel that Triton has in its cache needs nothing else of it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

_PARTS = ("builder", "textual", "backend", "frontends")
"""Folders imported as parts of `tileir`: next to it in a checkout, in it where wheels are
installed."""

_OTHERS = ("tileir", "llvmlite", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12")
"""Distributions that machine code is made by."""


@cache
def key() -> str:
    """16 hexadecimal digits: releases of what makes code, and size and time of each source."""
    digest = hashlib.sha256()
    for name in _OTHERS:
        digest.update(f"{name} {_version(name)}\n".encode())
    spec = find_spec("tileir")
    package = os.path.dirname(spec.origin) if spec is not None and spec.origin else ""
    checkout = "" if os.path.isdir(os.path.join(package, "backend")) else os.path.dirname(package)
    folders = [package, *(os.path.join(checkout, p) for p in _PARTS if checkout)]
    for folder in (f for f in folders if f and os.path.isdir(f)):
        for line in sorted(_sources(folder)):
            digest.update(line.encode())
    return digest.hexdigest()[:16]


def release_of(version: str) -> tuple[int, int]:
    """Major and minor number of a version, (0, 0) where it has none."""
    words = version.split("+")[0].split(".")[:2]
    numbers = [int(w) for w in words if w.isdecimal()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".tir")):
                with suppress(OSError):  # a link to nothing, as editors make for their locks
                    status = entry.stat()
                    yield f"{entry.path} {status.st_size} {status.st_mtime_ns}\n"
            elif entry.is_dir() and not entry.name.startswith(("_", ".")):
                yield from _sources(entry.path)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
