"""The version of the compiler, as part of the keys of caches."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

_PARTS = ("tileir", "tileir.backend")
_LEFT_OUT = frozenset(
    {"__pycache__", "builder", "codes", "cpu", "driver", "frontends", "interp", "runtime", "simt",
     "testing", "textual", "tools", "tuning"}
)  # fmt: skip
"""Folders that do not affect generated code, or that wheels install separately."""

_ASSEMBLERS = ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12")


@cache
def compiler_version() -> str:
    """The release, a digest of the sources that affect generated code (so that a compiler under
    development differs after every change), and the versions of LLVM and of the assembler."""
    import tileir

    digest = hashlib.sha256()
    for folder, path in compiler_sources():
        with open(path, "rb") as file:
            digest.update(os.path.relpath(path, folder).encode() + b"\0" + file.read())
    packages = [
        f"{name} {version}" for name in ("llvmlite", *_ASSEMBLERS) if (version := _version(name))
    ]
    return ", ".join((f"tileir {tileir.__version__}+{digest.hexdigest()[:16]}", *packages))


def compiler_sources() -> Iterator[tuple[str, str]]:
    """The sources that affect generated code, each after the folder of its part. A part may have
    more folders in its `__path__`: of a checkout the one that also has tests and environments."""
    for part in _PARTS:
        folder = os.path.dirname(str(import_module(part).__file__))
        for path in sorted(_sources(folder)):
            yield folder, path


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".tir")):
                yield entry.path
            elif entry.name not in _LEFT_OUT and entry.is_dir():
                yield from _sources(entry.path)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
