"""What of tileir the code of a kernel depends on, for the keys of Triton's caches."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path

from tileir.backend.runtime.version import compiler_version

_READERS = ("tileir.builder", "tileir.frontends.triton", "tileir.frontends.ttir", __package__)
"""Packages that a text becomes a module by; `compiler_version` covers the rest of the way."""


@cache
def key() -> str:
    """16 hexadecimal digits: the release, its sources, LLVM and the assembler."""
    digest = hashlib.sha256(compiler_version().encode())
    for name in _READERS:
        for folder in import_module(name).__path__:
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
