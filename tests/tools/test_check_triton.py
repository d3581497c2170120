"""`tileir check-triton`, with a command that writes what launches would."""

import json
import sys

import pytest

from tileir.tools.check_triton import findings_text, group_findings
from tileir.tools.main import main

LINE = {
    "kernel": "k", "mode": "interpreter", "code": "TIR0517", "message": "race on x",
    "file": "user.py", "line": 4, "column": 9, "notes": ["a note"], "test": "t.py::test_a",
}  # fmt: skip


def command(lines=(), status=0):
    """A program whose launches come upon `lines`."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    code = (
        "import os, sys; assert os.environ['TILEIR_TRITON_CPU'] == 'interpreter'; "
        f"open(os.environ['TILEIR_TRITON_FINDINGS'], 'a').write({text!r}); sys.exit({status})"
    )
    return ["check-triton", "--", sys.executable, "-c", code]


def test_findings_are_reported_at_their_lines(capsys):
    assert main(command([{"checked": "k"}, LINE, {**LINE, "test": "t.py::test_b"}])) == 1
    assert capsys.readouterr().out.splitlines() == [
        "user.py:4:9: error[TIR0517]: race on x",
        "  a note",
        "  in kernel k, 2 launches, first in t.py::test_a",
        "check-triton: 1 finding",
    ]


@pytest.mark.parametrize("status", [0, 5])
def test_without_findings_the_status_is_the_commands(capsys, status):
    lines = [{"checked": "k"}, {"checked": "other"}, {"checked": "k"}]
    assert main(command(lines, status)) == status
    assert capsys.readouterr().out == "check-triton: 2 kernels, no launch did anything wrong\n"


def test_a_command_that_launches_nothing_has_checked_nothing(capsys):
    assert main(command()) == 0
    assert "no kernel was launched, so none was checked" in capsys.readouterr().out


def test_each_command_has_a_cache_of_its_own(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    printing = "import os; print(os.environ['TRITON_CACHE_DIR'])"
    folders = set()
    for _ in range(2):
        assert main(["check-triton", "--", sys.executable, "-c", printing]) == 0
        folders.add(capfd.readouterr().out.splitlines()[0])
    assert len(folders) == 2 and str(tmp_path) not in folders


def test_findings_are_written_as_json(tmp_path):
    words = command([LINE])
    assert main([words[0], "--json", str(tmp_path / "found.json"), *words[1:]]) == 1
    (record,) = json.loads((tmp_path / "found.json").read_text())
    assert (record["place"], record["times"]) == ("user.py:4:9", 1)


def test_findings_at_other_lines_and_of_other_codes_are_others():
    lines = [LINE, {**LINE, "line": 5}, {**LINE, "code": "TIR0501"}, {**LINE, "file": None}]
    findings = group_findings(lines)
    assert [f.times for f in findings] == [1, 1, 1, 1]
    assert "check-triton: 4 findings" in findings_text(findings, 1)


@pytest.mark.parametrize("change", [
    {"file": "other.py"}, {"line": 5}, {"column": 1}, {"code": "TIR0501"},
    {"file": None, "kernel": "k"}, {"file": None, "kernel": "other"},
])  # fmt: skip
def test_findings_are_distinguished_by_place_and_code_and_without_a_place_by_kernel(change):
    """Whatever else is the same; those of one place are one, whatever the kernel."""
    other = {**LINE, "file": None} if change == {"file": None, "kernel": "other"} else LINE
    lines = [other, {**LINE, **change}, other, {**LINE, **change, "test": "t.py::test_z"}]
    assert [f.times for f in group_findings(lines)] == [2, 2]
    (one,) = group_findings([LINE, {**LINE, "kernel": "other", "message": "another"}])
    assert (one.times, one.kernel, one.message) == (2, "k", "race on x")


def test_a_command_that_is_not_there_is_an_error(capsys):
    assert main(["check-triton", "--", "no-such-command-here"]) == 1
    assert "TIR0904" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_an_error(capsys):
    words = command([LINE])
    assert main([words[0], "--json", "/dev/null/x", *words[1:]]) == 1
    assert "TIR0905" in capsys.readouterr().err
