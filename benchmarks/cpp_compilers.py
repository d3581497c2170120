"""The choice of a C++ compiler for programs that use the libraries of torch."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

CANDIDATES = (os.environ.get("CXX", ""), "g++", "/usr/bin/g++", "c++", "clang++")


def compiler_with_shared_library(candidates: Sequence[str] = CANDIDATES) -> str | None:
    """The first command among `candidates` that links the shared C++ library; None if there is
    none.

    A compiler may link a static library if it has no shared one. A process with torch then has two
    copies of the library, and `std::regex`, which AOTInductor's packages use while they are loaded,
    takes the facets of one locale by the numbers of the other: a segmentation fault.
    """
    for command in dict.fromkeys(filter(None, candidates)):
        if _links_shared_library(shlex.split(command)):
            return command
    return None


def _links_shared_library(command: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "library.cpp", Path(folder) / "library.so"
        source.write_text("#include <locale>\nstd::locale current() { return std::locale(); }\n")
        words = [*command, "-shared", "-fPIC", str(source), "-o", str(library)]
        try:
            built = subprocess.run(words, check=False, capture_output=True).returncode == 0
        except OSError:
            return False
        needed = (b"libstdc++.so", b"libc++.so")
        return built and any(name in library.read_bytes() for name in needed)
