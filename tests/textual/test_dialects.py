"""Older spellings through the command."""

from pathlib import Path

import pytest

from tileir.textual import DIALECTS, parse, print_module
from tileir.tools.opt import main

LISTINGS = Path(__file__).parents[1] / "corpus" / "listings"


@pytest.mark.parametrize(
    ("dialect", "name"),
    [("tir", "add.tir"), ("triton1", "add.printed.tir"), ("mapl19", "listing5.mapl19")],
)
def test_the_command_reads_every_dialect(dialect, name, capsys):
    assert main(["--dialect", dialect, str(LISTINGS / name)]) == 0
    printed = capsys.readouterr().out
    assert printed == print_module(parse(printed))


def test_there_are_no_others(capsys):
    assert sorted(DIALECTS) == ["mapl19", "tir", "triton1"]
    assert main(["--dialect", "mapl20", str(LISTINGS / "add.tir")]) == 1
    assert "TIR0023" in capsys.readouterr().err


def test_errors_show_the_line_of_the_file(capsys, tmp_path):
    path = tmp_path / "k.mapl19"
    path.write_text("define void @f(i32 %n) {\n  %x = add %n, %m;\n}\n")
    assert main(["--dialect", "mapl19", str(path)]) == 1
    err = capsys.readouterr().err
    assert f"{path}:2:16" in err and "%x = add %n, %m;" in err
