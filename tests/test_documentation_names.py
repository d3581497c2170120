"""Documentation names only files, modules, classes, options and commands that exist."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from tests.sizes import for_each
from tileir.tools.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
_CODE = re.compile(r"`([^`\n]+)`")
_DOCSTRING = re.compile(r'"""(.*?)"""', re.S)
_FENCE = re.compile(r"^```.*?^```", re.M | re.S)
_PATH = re.compile(
    r"\.?[\w*-]+(?:/[\w.*-]+)+/?|[\w*.-]+\.(?:py|pyi|tir|md|json|tsv|toml|lark)|[\w-]+/"
)
_READ = (".py", ".pyi", ".toml", ".tir", ".lark", ".tsv", ".examples")
_SUFFIXES = (".py", ".pyi", ".tir", ".md", ".json", ".tsv", ".toml", ".lark", "/")

WITHDRAWN = {"tileir/records.py", "records.py"}
"""Files that a withdrawn decision tells of."""

BUILT = "build/"
"""The folder of what commands write into a checkout."""

OUTSIDE = ("torch/", "triton/")
"""Folders of other distributions."""

OF_OTHERS = {
    # PyTorch, Triton
    "CudaDriver", "TRITON_KERNEL_OVERRIDE", "benchmark_epilogue_fusion", "computation_type_impl",
    "fma_rz", "global_scratch_", "has_triton_cpu_backend", "max_autotune_gemm_backends",
    "profile_scratch_", "reinterpret_tensor_descriptor",
    "test_accuracy_full", "test_accuracy_full_like", "test_scaled_dot", "test_triton",
    # TVM
    "cache_read", "cache_write", "comm_reducer",
}  # fmt: skip
"""Names of other projects that pages explain."""


@cache
def files() -> tuple[str, ...]:
    """What is committed, by its path."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says what is committed")
    return tuple(listed.stdout.splitlines())


@cache
def endings() -> frozenset[str]:
    """Every file and folder, by every ending of its path that begins with a name."""
    suffixes: set[str] = set()
    for path in files():
        words = path.split("/")
        for end in range(1, len(words) + 1):
            suffixes |= {"/".join(words[start:end]) for start in range(end)}
    return frozenset(suffixes)


@cache
def identifiers() -> frozenset[str]:
    """Every word of what is committed but pages; the stems of its files."""
    stems = {Path(path).stem for path in files()}
    for path in files():
        if not path.startswith(("docs/", "tests/corpus/found/")) and path.endswith(_READ):
            stems |= set(re.findall(r"[A-Za-z_]\w*", (ROOT / path).read_text(errors="replace")))
    return frozenset(stems)


def pages() -> list[str]:
    return [path for path in files() if path.endswith(".md") and path != "CHANGELOG.md"]


@cache
def code_of(page: str) -> tuple[tuple[str, ...], str]:
    """What a page has in backticks, and the rest: fenced code and comments for its tests."""
    text = (ROOT / page).read_text()
    prose = _FENCE.sub("", text)
    shown = "\n".join([*_FENCE.findall(text), *re.findall(r"<!--.*?-->", text)])
    return tuple(_CODE.findall(prose)), shown


def exists(path: str) -> bool:
    """Whether a file or folder of the checkout has this path, whole or the end of it."""
    path = path.rstrip("/")
    if "*" in path:
        return any(fnmatch(name, path) for name in endings())
    return path in endings()


def is_written_by_readers(path: str, page: str) -> bool:
    """Whether a page has its reader write the file."""
    return bool(re.search(rf"a file `{path}`", (ROOT / page).read_text()))


def is_placeholder(path: str) -> bool:
    """Whether a path has a word that readers replace: `FILE.tir`."""
    return any(re.fullmatch(r"[A-Z]+(\.\w+)?", word) for word in path.split("/"))


def paths(text: str) -> Iterator[str]:
    """The paths that a snippet of code names."""
    for word in text.split():
        word = word.strip("\"'(),;:")
        if _PATH.fullmatch(word) and word.endswith(_SUFFIXES):
            yield word


def resolves(dotted: str) -> bool:
    """Whether a name such as `tileir.backend.compile` can be imported and looked up."""
    words = dotted.split(".")
    for end in range(len(words), 0, -1):
        try:
            target = importlib.import_module(".".join(words[:end]))
        except ImportError:
            continue
        for word in words[end:]:
            if not hasattr(target, word):
                return False
            target = getattr(target, word)
        return True
    return False


@cache
def entry_point_groups() -> frozenset[str]:
    """Groups of entry points: strings of the library such as `tileir.rules`."""
    texts = [(ROOT / p).read_text() for p in files() if p.startswith(("tileir/", "backend/"))]
    return frozenset(re.findall(r'(?i:group) ?= ?"(tileir\.\w+)"', "".join(texts)))


@for_each("page", pages())
def test_a_page_names_files_that_exist(page: str) -> None:
    code, shown = code_of(page)
    missing = [
        path
        for text in code
        for path in paths(text)
        if not exists(path)
        and path not in shown
        and not is_written_by_readers(path, page)
        and path not in WITHDRAWN
        and not path.startswith(BUILT)
        and not is_placeholder(path)
    ]
    assert not missing


@pytest.mark.parametrize("page", pages())
def test_a_page_names_modules_and_functions_that_exist(page: str) -> None:
    named = {
        name
        for text in code_of(page)[0]
        for name in re.findall(r"(?<![\w/.])tileir(?:_triton)?(?:\.[A-Za-z_]\w*)+", text)
    }
    assert not {name for name in named - entry_point_groups() if not resolves(name)}


@pytest.mark.parametrize("page", pages())
def test_a_page_names_classes_and_functions_that_exist(page: str) -> None:
    """Words other than paths that contain `_` or an inner capital: other words may be English."""
    code, shown = code_of(page)
    named = {
        word
        for text in code
        for word in re.findall(r"[A-Za-z_]\w*", text)
        if "_" in word or re.search(r"[a-z][A-Z]", word)
    }
    there = identifiers() | set(re.findall(r"\w+", shown)) | OF_OTHERS
    assert not named - there


@pytest.mark.parametrize("page", pages())
def test_a_page_names_options_and_commands_that_exist(page: str) -> None:
    ours = [text for text in code_of(page)[0] if re.match(r"tileir|python|pytest|--", text)]
    options = {option for text in ours for option in re.findall(r"(?<!\S)--[a-z][\w-]*", text)}
    assert not options - command_line_options()
    commands = {
        command for text in code_of(page)[0] for command in re.findall(r"^tileir ([a-z-]+)", text)
    }
    assert not commands - COMMANDS.keys()


@cache
def command_line_options() -> frozenset[str]:
    """Options that a program of the repository declares."""
    texts = [(ROOT / path).read_text(errors="replace") for path in files() if in_a_program(path)]
    peers = {f"--{name}" for name in ("triton", "tilelang")}  # benchmarks/compile_time.py: PEERS
    declared = re.findall(r'"(--[a-z][\w-]*)"', "\n".join(texts))
    passed = re.findall(r"\s(--[a-z][\w-]*)", (ROOT / ".ci" / "docs").read_text())
    return frozenset({"--help", *peers, *declared, *passed})


def in_a_program(path: str) -> bool:
    folders = ("tools/", "testing/", "benchmarks/", "tests/", "backend/", ".ci/")
    return path.startswith(folders) and (path.endswith(".py") or path.startswith(".ci/"))


def test_the_names_of_others_are_in_use() -> None:
    used = {
        word for page in pages() for text in code_of(page)[0] for word in re.findall(r"\w+", text)
    }
    assert used >= OF_OTHERS


def test_docstrings_name_files_and_modules_that_exist() -> None:
    wrong = []
    for path in files():
        if path.endswith(".py"):
            for text in _DOCSTRING.findall((ROOT / path).read_text()):
                code = _CODE.findall(text)
                wrong += [f"{path}: {name}" for name in missing_in(code)]
    assert not wrong


def missing_in(code: list[str]) -> Iterator[str]:
    """Python files and modules of the library that code in a docstring names, but for those that do
    not exist."""
    for text in code:
        for path in paths(text):
            outside = path.startswith(OUTSIDE) or is_placeholder(path)
            if path.endswith(".py") and not exists(path) and not outside:
                yield path
        for name in re.findall(r"(?<![\w/.])tileir(?:\.[a-z_]\w*)+(?!\w)", text):
            if name not in entry_point_groups() and not resolves(name):
                yield name
