"""Limits are read, changed and documented; a wrong one is an error."""

from pathlib import Path

import attrs
import pytest

from tests.sizes import for_each
from tileir import limits
from tileir.backend import Options, compile as compile_kernel
from tileir.builder import F16, F32, pointer, tile
from tileir.errors import CompileError
from tileir.limits import ABOUT, Limits, elements
from tileir.textual import parse
from tileir.tools.limitdocs import page
from tileir.tools.main import main
from tileir.tools.opt import main as opt
from tileir.types import Buffer, Descriptor, Tile

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "limits.md"
TEXT = """tir 1.0
define kernel void @k(f32* %x) {
entry:
  %r = make_range i32<256>
  %xs = splat f32*<256> %x
  %p = getelementptr f32*<256> %xs, %r
  store %p, f32<256> 1.0
  ret
}
"""


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page()


def test_every_limit_is_described():
    assert list(ABOUT) == [field.name for field in attrs.fields(Limits)]


def test_a_limit_is_changed_around_calls_and_for_one_compilation():
    module = parse(TEXT)
    compile_kernel(module)
    with (
        limits.limits(tile_elements=255),
        pytest.raises(CompileError, match="tile_elements is 255"),
    ):
        compile_kernel(module)
    with limits.limits(tile_elements=255):
        compile_kernel(module, options={"limits": {"tile_elements": 256}})
    for limits_given in ({"tile_elements": 9}, "tile_elements=9", ("tile_elements=9",)):
        with pytest.raises(CompileError) as caught:
            compile_kernel(
                module,
                options={
                    "limits": limits_given if limits_given != "tile_elements=9" else [limits_given]
                },
            )
        assert caught.value.code == "TIR1601" and caught.value.line == 4
    compile_kernel(module)


def test_options_with_limits_survive_json():
    options = Options.of({"limits": {"tile_elements": 9, "operations": 3}})
    assert options.limits == (("operations", 3), ("tile_elements", 9))
    assert Options.of(options.to_json()) == options and hash(options)


@pytest.mark.parametrize(
    "value",
    [{"tiles": 1}, {"tile_elements": -1}, {"tile_elements": "x"}, {"tile_elements": 1.5}, 7],
)
def test_limits_that_do_not_exist_are_refused(value):
    with pytest.raises(CompileError) as caught:
        Options.of({"limits": value})
    assert caught.value.code in ("TIR1602", "TIR0716")


def test_commands_take_limits(tmp_path, capsys):
    path = tmp_path / "k.tir"
    path.write_text(TEXT)
    arguments = [str(path), "--emit", "ptx", "-o", str(tmp_path / "k.ptx"), "--no-isolate"]
    assert opt(arguments) == 0
    assert opt([*arguments, "--limit", "tile_elements=255"]) == 1
    assert "TIR1601" in capsys.readouterr().err
    assert main(["aot", str(path), "-o", str(tmp_path), "--limit", "tiles=2", "--no-isolate"]) == 1
    assert "TIR1602" in capsys.readouterr().err
    assert limits.current() == Limits()


@for_each(
    ("type", "count"),
    [
        (F32, 1), (pointer(F32), 1), (tile(F32, (300,)), 300), (tile(F16, (4, 100)), 400),
        (Descriptor(Tile(F32, (16, 32))), 512), (Buffer(Tile(F32, (16, 64))), 1024),
        (Buffer(Tile(F32, (16, 64)), 3), 1024),
    ],
)  # fmt: skip
def test_elements_of_every_kind_of_type(type, count):
    assert elements(type) == count


@pytest.mark.parametrize("words", ["", "declare "])
def test_globals_that_another_module_has_take_no_memory(words):
    text = f"tir 1.0\n{words}global f32<4> @g\n\n" + TEXT.split("\n", 1)[1].replace(
        "  store %p",
        "  %a = global_address f32* @g\n  %b = load f32 %a\n  store %x, %b\n  store %p",
    )
    module = parse(text)
    with limits.limits(global_bytes=15):
        if not words:
            with pytest.raises(CompileError, match="@g, with the globals before it, takes 16"):
                limits.check_globals(module.globals, CompileError)
        else:
            limits.check_globals(module.globals, CompileError)
