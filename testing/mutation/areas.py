"""The files of each area, and the tests for each file."""

from __future__ import annotations

from pathlib import Path

from tileir.testing.matmul_programs.checking import MATMUL_PASSES
from tileir.testing.mutation.change import FOLDERS

AREAS: dict[str, tuple[str, ...]] = {
    "simplifier": ("tileir/passes/laws", "tileir/passes/simplify.py", "tileir/passes/fold.py"),
    "verifier": ("tileir/verify",),
    "synchronisation": tuple(
        f"backend/shared_memory/{name}"
        for name in ("place_barriers", "hazards", "thread_conflicts", "element_owners")
    ),
    "pointers": ("tileir/analysis/affine_mod32", "tileir/analysis/underlying_pointers"),
    "allocation": (
        "tileir/analysis/shared_buffers",
        *(
            f"backend/shared_memory/{name}"
            for name in ("allocate", "offset_assignment", "interference", "requirements")
        ),
    ),
}
"""Files and folders whose every mutant has to be found."""

ELSEWHERE = ("tileir", "textual", "builder", "backend")
"""Folders from which the rest is drawn."""


def programs_of(name: str) -> str:
    """The test of all generated programs for a pass."""
    return f"tests/testing/test_passes.py::test_a_pass_keeps_the_meaning_of_programs[{name}-1]"


_PROGRAMS = tuple(
    programs_of(name)
    for name in ("cse", "dce", "fold", "inline", "licm", "lower-predicates", "peephole",
                 "simplify", "simplify-cfg", "prefetch-loads", "default")
)  # fmt: skip
_GENERATED = tuple(
    programs_of(name)
    for name in (
        "allocate-shared",
        "async-pipeline",
        "insert-barriers",
        "assign-layouts",
        "rematerialize",
        "remove-conversions",
        "stage-halo",
        "strip-mine",
        "scalarize-pointer-steps",
        "version-full-tiles",
        *MATMUL_PASSES,
    )
)
_TESTING = ("tests/testing/test_programs.py", "tests/testing/test_round_trip.py", *_PROGRAMS)

_LAWS = tuple(
    f"tests/passes/test_{name}.py"
    for name in ("law_conditions", "law_matching", "folding", "simplifying", "laws", "files",
                 "laws_exhaustive", "documentation", "promises")
)  # fmt: skip

_OF_BACKEND = (
    "tests/backend",
    "tests/corpus",
    "tests/examples",
    "tests/runtime",
    "tests/tuning",
    "tests/passes/test_files.py",
    "tests/testing/test_barrier_protocols.py",
    *_GENERATED,
)

TESTS: dict[str, tuple[str, ...]] = {
    "tileir": ("tests/core", "tests/ops", "tests/verify", "tests/interp"),
    "tileir/analysis": ("tests/analysis", "tests/passes", *_TESTING),
    "tileir/error_codes": ("tests/textual", "tests/tools"),
    "tileir/interp": ("tests/interp", "tests/ops", *_TESTING),
    "tileir/layout": ("tests/backend",),
    "tileir/linker": ("tests/interp", "tests/tools"),
    "tileir/symbol_equality": ("tests/interp", "tests/tools"),
    "tileir/machine": ("tests/ops", "tests/interp", *_TESTING),
    "tileir/ops": ("tests/ops", "tests/textual", "tests/passes", "tests/interp"),
    "tileir/passes": ("tests/passes", *_TESTING),
    "tileir/passes/fold": _LAWS,
    "tileir/passes/laws": _LAWS,
    "tileir/passes/simplify": _LAWS,
    "tileir/passmanager": ("tests/passes", "tests/tools"),
    "tileir/render": ("tests/textual", "tests/tools"),
    "tileir/verify": ("tests/verify", "tests/textual", "tests/builder"),
    "tileir/versions": ("tests/stability", "tests/verify"),
    "textual": ("tests/textual", "tests/corpus", *_TESTING),
    "builder": ("tests/builder",),
    "builder/contraction": (
        "tests/builder", "tests/frontends/te", "tests/frontends/tensor_comprehensions",
        "tests/frontends/tile",
    ),
    "backend": _OF_BACKEND,
    "backend/simt": (*_OF_BACKEND, "tests/tools/test_barriers.py"),
    **dict.fromkeys(
        ("backend/measurement", "backend/performance_model", "backend/tuning"),
        (*_OF_BACKEND, "tests/tools/tune"),
    ),
}  # fmt: skip
"""Tests, in files or folders, for files whose path begins so; the longest beginning counts."""

_LEFT_OUT = ("test_fuzz.py",)
"""Long tests, in which a wrong line shows no sooner than in others."""


def files(area: str, root: Path) -> list[str]:
    """The Python files of `area`; for "elsewhere", all files that are in no area."""
    named = [f for starts in AREAS.values() for f in _below(starts, root)]
    if area in AREAS:
        return _below(AREAS[area], root)
    return [f for f in _below(ELSEWHERE, root) if f not in named]


def judges(file: str, root: Path) -> tuple[str, ...]:
    """The tests for `file`: test files below `root`, or single tests in one."""
    named = TESTS[max((start for start in TESTS if file.startswith(start)), key=len)]
    return tuple(test for name in named for test in _suites(name, root))


def every_judge(root: Path) -> tuple[str, ...]:
    """The tests for any file."""
    names = dict.fromkeys(name for named in TESTS.values() for name in named)
    return tuple(dict.fromkeys(test for name in names for test in _suites(name, root)))


def _suites(name: str, root: Path) -> list[str]:
    """The test files in a folder, or the named test or file, if they exist."""
    if "::" in name or name.endswith(".py"):
        return [name] if (root / name.partition("::")[0]).exists() else []
    result = [p for p in (root / name).rglob("test_*.py") if p.name not in _LEFT_OUT]
    return sorted(str(p.relative_to(root)) for p in result)


def _below(starts: tuple[str, ...], root: Path) -> list[str]:
    folders = [root / folder for folder in FOLDERS]
    every = [str(p.relative_to(root)) for folder in folders for p in folder.rglob("*.py")]
    return sorted(f for f in every if any(f.startswith(start) for start in starts))
