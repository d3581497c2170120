"""The examples that `tileir explain` shows: a wrong one ends in its code, the right one passes."""

import contextlib
import io
import linecache
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tileir.error_codes import CODES
from tileir.errors import TileirError
from tileir.tools import main as tool, opt
from tileir.tools.code_examples import CodeExample, all_examples, examples
from tileir.tools.explain import explanation

EXAMPLES = [e for e in all_examples() if e.kind != "none"]
OF_THE_PROCESS = ("@pass_(", "@op(", "sys.modules", "os.environ")
"""What stands in Python programs that change the process that runs them."""

DEFECTS = {"TIR0703", "TIR0705", "TIR0714", "TIR0720"}
"""Codes of defects of the compiler, of which no program is known."""


def ran(example: CodeExample, folder: Path) -> tuple[int, str]:
    """The exit status of an example, 1 for an error, and what it printed."""
    if not example.is_python:
        return _run_command(example, folder)
    if any(words in example.text for words in OF_THE_PROCESS):
        path = folder / "example.py"
        path.write_text(example.text, "utf-8")
        command = [sys.executable, "-P", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        return done.returncode, done.stdout + done.stderr.rpartition("Traceback")[2]
    return _run_python(example.text)


def _run_python(text: str) -> tuple[int, str]:
    printed, name = io.StringIO(), f"<example {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, name, "exec"), {"__name__": "example"})
    except TileirError as error:
        return 1, str(error)
    return 0, printed.getvalue()


def _run_command(example: CodeExample, folder: Path) -> tuple[int, str]:
    file = folder / "example.tir"
    file.write_text(example.text, "utf-8")
    names = {"FILE": str(file), "OUT": str(folder / "out")}
    words = [re.sub("FILE|OUT", lambda m: names[m[0]], w) for w in shlex.split(example.how)]
    main = {"tileir": tool.main, "tileir-opt": opt.main}[words[0]]
    printed = io.StringIO()
    with (
        contextlib.redirect_stderr(printed),
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), write_through=True)),
    ):
        status = main(words[1:])
    return status, printed.getvalue()


def codes(text: str, severity: str) -> set[str]:
    """The codes of the diagnostics of `severity`, without those of their notes, which are
    indented."""
    return set(re.findall(rf"(?m)^(?! ).*?\b{severity}\[(TIR\d{{4}})\]", text))


@pytest.mark.sampled(60)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.code}-{e.kind}")
def test_an_example_does_what_it_says(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    status, text = ran(example, tmp_path)
    errors = codes(text, "error")
    shown = errors | codes(text, "warning") | codes(text, "remark")
    if example.kind == "right":
        assert (status, errors) == (0, set()), text
        assert example.code not in shown, text
    else:
        assert example.code in shown, text
        assert errors <= {example.code}, text
        assert status == 0 or errors, text


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_a_wrong_and_a_right_example(code):
    kinds = [e.kind for e in examples(code)]
    assert kinds == (["none"] if code in DEFECTS else ["wrong", "right"])
    different = {(e.how, e.text) for e in examples(code)}
    assert len(different) == len(kinds)


def test_examples_stand_in_the_file_of_their_range_in_order():
    folder = Path(sys.modules["tileir.error_codes"].__file__).parent
    for path in folder.glob("*.examples"):
        matches = re.findall(r"(?m)^=== (TIR\d{4}) (?:wrong|none)", path.read_text())
        assert matches == sorted(matches)
        assert set(matches) == set(re.findall(r"TIR\d{4}", path.with_suffix(".py").read_text())), (
            path
        )


def test_explain_shows_both():
    text = explanation("TIR0501")
    wrong, right = examples("TIR0501")
    for example in (wrong, right):
        indented = "".join(f"    {line}".rstrip() + "\n" for line in example.text.splitlines())
        assert f"{example.kind}, `tileir run --on interpreter example.tir`:" in text
        assert indented.strip() in "\n".join(line.rstrip() for line in text.splitlines())
