"""What the README shows is true."""

import re
import subprocess
from pathlib import Path

import numpy as np

import tileir.backend
import tileir.textual
from tileir.tools.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)


def block(language: str) -> str:
    return next(text for code, text in BLOCKS if code == language)


def test_the_quick_start_is_one_block_of_two_lines():
    section = README.split("## Quick start")[1].split("\n## ")[0]
    assert section.count("```") == 2
    lines = block("sh").splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("tileir run examples/softmax.tir")
    assert ".[test]" in lines[1] and "pytest" in lines[1]


QUICK_START = """\
python3 -m venv .venv && .venv/bin/pip install -q '.[cu12]' && .venv/bin/tileir run examples/softmax.tir
python3 -m venv .venv && .venv/bin/pip install -q '.[test]' && .venv/bin/pytest -n 2 --dist worksteal
"""  # noqa: E501


def test_ci_runs_the_lines_of_the_quick_start():
    """`.ci/run` runs what `.ci/quick-start` prints."""
    run = subprocess.run([ROOT / ".ci" / "quick-start"], capture_output=True, text=True, check=True)
    assert run.stdout == QUICK_START == block("sh")
    text = (ROOT / ".ci" / "run").read_text()
    first, rest = text.split("done 3< <(.ci/quick-start)")
    assert "/pip" not in first and "/pip" in rest


def test_the_tour_runs(capsys):
    text = block("llvm")
    scope = {"text": text}
    exec(compile(block("python"), "README.md", "exec"), scope)
    assert (scope["x"] == 2 * np.arange(128)).all()
    assert tileir.textual.print_module(scope["module"]) == text
    assert ".entry double" in capsys.readouterr().out


def test_the_commands_are_named():
    for name in COMMANDS:
        assert f"`tileir {name}" in README


def test_links_lead_somewhere():
    for path in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / path).exists(), path
