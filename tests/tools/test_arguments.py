"""Arguments of the commands that are none, and files without an end."""

import sys
from pathlib import Path

import pytest

from tileir.tools import main as tool, opt

SOFTMAX = str(Path(__file__).parents[2] / "examples/softmax.tir")


@pytest.mark.parametrize(
    "words",
    [
        ("run", SOFTMAX, "--seed", "-1"),
        ("view", "access", SOFTMAX, "--program", "-1"),
        ("view", "owners", SOFTMAX, "--num-warps", "0"),
        ("tune", SOFTMAX, "--trials", "0"),
        ("tune", SOFTMAX, "--processes", "-1"),
        ("tune", SOFTMAX, "--seconds", "nan"),
        ("tune", SOFTMAX, "--slower", "inf"),
        ("tune", SOFTMAX, "--compile-limit", "1e20"),
        ("tune", SOFTMAX, "--seed", "-1"),
        ("reduce", SOFTMAX, "--timeout", "-1"),
        ("reduce", SOFTMAX, "--tries", "1e3"),
    ],
    ids=" ".join,
)
def test_numbers_that_cannot_be_are_refused_with_what_can(words, capsys):
    with pytest.raises(SystemExit) as stop:
        tool.main(list(words))
    assert stop.value.code == 2
    assert "number from" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--within", "nan"), ("--seed", "-1")], ids=" ".join)
def test_numbers_of_bisect(words):
    with pytest.raises(SystemExit):
        opt.main(["bisect", SOFTMAX, *words])


@pytest.mark.parametrize("command", ["'", " ", "no-such-command-here {}"])
@pytest.mark.parametrize("tool_name", ["bisect", "reduce"])
def test_what_is_no_command_judges_nothing(tool_name, command, capsys):
    if tool_name == "bisect":
        status = opt.main(["bisect", SOFTMAX, "-p", "cse", "--command", command])
    else:
        status = tool.main(["reduce", SOFTMAX, "--predicate", command])
    assert status == 1
    assert "TIR0910" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "a\nb.tir", "\udcff.tir"])
def test_names_that_do_not_show_are_quoted(name, capsys):
    assert opt.main([name]) == 1
    assert f"error[TIR0904]: cannot read {name!r}: " in capsys.readouterr().err


def test_a_file_of_other_bytes_is_not_text(tmp_path, capsys):
    file = tmp_path / "other.tir"
    file.write_bytes(b"tir \xff")
    assert opt.main([str(file)]) == 1
    assert "is not UTF-8 text: byte 4 is 0xff" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_file_without_an_end_is_an_error(capsys):
    assert opt.main(["/dev/full"]) == 1
    assert "longer than 256 MiB" in capsys.readouterr().err


def test_a_byte_order_mark_is_no_text(tmp_path, capsys):
    file = tmp_path / "marked.tir"
    file.write_text("tir 1.0\n", "utf-8-sig")
    assert opt.main([str(file)]) == 0
    assert capsys.readouterr().out == "tir 1.0\n"


def test_choices_of_what_has_none_are_refused(capsys):
    words = ["tune", SOFTMAX, "--on", "cpu", "--database", ":memory:", "--try", "rows=1,2"]
    assert tool.main(words) == 1
    assert "TIR0915" in capsys.readouterr().err
