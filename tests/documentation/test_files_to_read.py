"""The lists of files in docs/explanation/architecture.md, followed: a kernel is compiled for each,
every listed file runs, and the calls that lead to it pass through listed files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
HEADINGS = {
    "load": "How does a load become PTX?",
    "dot": "How does a dot become `wgmma` with TMA?",
    "layout": "Why did a tile get this layout?",
}
LIMITS = {"load": 8, "dot": 20, "layout": 6}
"""The most files that a reader should have to open."""

INTERMEDIATE_FILES = {
    "backend/compile.py",  # `compile` is what the reader calls
    "backend/stage.py",  # runs a stage
    "backend/pipeline.py",  # the table of stages
    "backend/codegen/rules/__init__.py",  # the table of lowering rules
    "backend/codegen/rules/roles.py",  # one line per rule: calls the thread interface
}
"""Files through which calls reach the listed ones, and which a reader need not open."""

PROGRAM = """
import sys
from pathlib import Path
root, question, *known = sys.argv[1:]
root += "/"
missing = {root + name for name in known}
def watch(frame, event, _):
    called = frame.f_code.co_filename
    if event != "call" or called not in missing or frame.f_code.co_name == "<module>":
        return
    callers = None if called.startswith(root + "tileir/") else frame.f_back
    while callers is not None:
        name = callers.f_code.co_filename
        if name.startswith(root) and name.removeprefix(root) not in known:
            return
        callers = callers.f_back
    missing.discard(called)
from tileir.backend import compile
from tileir.testing.kernels import matmul
from tileir.textual import parse
add = Path(root, "examples", "add.tir").read_text()
sys.setprofile(watch)
module = {"load": lambda: parse(add), "dot": lambda: matmul(128, 128, 64),
          "layout": lambda: matmul(32, 32, 32)}[question]()
ptx = compile(module, "sm_90a").ptx
sys.setprofile(None)
assert {"load": "ld.global", "dot": "wgmma", "layout": "mma.sync"}[question] in ptx
print(*(name.removeprefix(root) for name in missing), sep="\\n")
"""
"""Prints which files are not called, or only through files that are not known."""


def listed_files(question: str) -> list[str]:
    """The files of the page's list for a question, in order."""
    text = PAGE.read_text("utf-8")
    stated, items = re.findall(
        rf"^\*\*{re.escape(HEADINGS[question])}\*\* (\d+) files:\n\n((?:\d+\. .*\n)+)", text, re.M
    )[0]
    files = re.findall(r"^\d+\. `([\w/]+\.py)`: ", items, re.M)
    assert len(files) == int(stated) == len(items.splitlines())
    return files


@pytest.mark.parametrize("question", LIMITS)
def test_the_list_is_short_and_its_files_exist(question: str) -> None:
    files = listed_files(question)
    assert len(set(files)) == len(files) <= LIMITS[question]
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("question", LIMITS)
def test_calls_lead_to_every_file_of_the_list(question: str) -> None:
    """Definitions (`tileir/`) are called by everything: they only have to run."""
    files = listed_files(question)
    listed = sorted(INTERMEDIATE_FILES.union(files))
    program = [sys.executable, "-c", PROGRAM, str(ROOT), question, *listed]
    ran = subprocess.run(program, capture_output=True, text=True, check=True, timeout=600)
    missing = ran.stdout.splitlines()
    assert [name for name in files if name in missing] == []
