"""Which files make up an area, and which tests judge a file."""

from __future__ import annotations

from pathlib import Path

from tileir.testing.mutation.change import FOLDERS

AREAS: dict[str, tuple[str, ...]] = {
    "simplifier": ("tileir/passes/laws", "tileir/passes/simplify.py", "tileir/passes/fold.py"),
    "verifier": ("tileir/verify",),
    "synchronisation": ("backend/memory/sync", "backend/memory/scratch"),
}
"""Files and folders whose every mutant has to be found."""

ELSEWHERE = ("tileir", "textual", "builder", "backend")
"""Folders from which the rest is drawn."""

TESTS: dict[str, tuple[str, ...]] = {
    "tileir": ("tests/core", "tests/ops", "tests/verify", "tests/interp"),
    "tileir/analysis": ("tests/analysis", "tests/passes", "tests/testing"),
    "tileir/codes": ("tests/textual", "tests/tools"),
    "tileir/interp": ("tests/interp", "tests/ops", "tests/testing"),
    "tileir/layout": ("tests/backend",),
    "tileir/linker": ("tests/interp", "tests/tools"),
    "tileir/linking": ("tests/interp", "tests/tools"),
    "tileir/machine": ("tests/ops", "tests/interp", "tests/testing"),
    "tileir/ops": ("tests/ops", "tests/textual", "tests/passes"),
    "tileir/passes": ("tests/passes", "tests/testing"),
    "tileir/passmanager": ("tests/passes", "tests/tools"),
    "tileir/render": ("tests/textual", "tests/tools"),
    "tileir/verify": ("tests/verify", "tests/textual", "tests/builder"),
    "textual": ("tests/textual", "tests/corpus", "tests/testing"),
    "builder": ("tests/builder",),
    "backend": ("tests/backend", "tests/examples"),
}
"""The tests, in order, for files whose path begins so; the longest beginning counts."""


def files(area: str, root: Path) -> list[str]:
    """Python files of `area`, or of everything that no area names for "elsewhere"."""
    named = [f for starts in AREAS.values() for f in _below(starts, root)]
    if area in AREAS:
        return _below(AREAS[area], root)
    return [f for f in _below(ELSEWHERE, root) if f not in named]


def judges(file: str) -> tuple[str, ...]:
    """Paths of the tests that judge `file`."""
    return TESTS[max((start for start in TESTS if file.startswith(start)), key=len)]


def _below(starts: tuple[str, ...], root: Path) -> list[str]:
    folders = [root / folder for folder in FOLDERS]
    every = [str(p.relative_to(root)) for folder in folders for p in folder.rglob("*.py")]
    return sorted(f for f in every if any(f.startswith(start) for start in starts))
