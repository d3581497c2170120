"""Older spellings through the command."""

from pathlib import Path

import pytest

from tests.sizes import for_each
from tileir.textual import DIALECTS, parse, print_module
from tileir.textual.triton1 import triton1
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


@for_each(
    ("older", "canonical"),
    [
        ("%v = masked_load f32<4> p, m, undef", "%v = load f32<4> %p, %m"),
        ("%v = masked_load f32<4> p, m, o", "%v = load f32<4> %p, %m, %o"),
        ("%v = masked_load f32<4> p, m", "%v = load f32<4> %p, %m"),
        ("%v = fma f32<4> o, o, undef", "%v = fma f32<4> %o, %o, undef"),
        ("%v = select f32<4> m, o, undef", "%v = select f32<4> %m, %o, undef"),
        ("masked_store void p, o, m", "store %p, %o, %m"),
        ("%v = make_range[5 : 9] i32<4>", "%v = make_range i32<4> {start = 5}"),
        ("%v = get_program_id[2] i32", "%v = program_id i32 {axis = 2}"),
    ],
)
def test_lines_of_triton_1(older: str, canonical: str) -> None:
    text = f"def void f(f32* p, i1 m, f32 o)\n{{\nentry:\n{older};\nret void;\n}}\n"
    assert triton1(text, "k").split("\n")[4] == f"  {canonical}"


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
