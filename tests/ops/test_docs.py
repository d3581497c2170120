"""The page of ops is what the classes say, and every op shows how it is written."""

from __future__ import annotations

from pathlib import Path

from tests.sizes import for_each
from tileir.op import all_ops
from tileir.textual import parse, print_module
from tileir.tools.opdocs import Example, example, page

NAMED = {o.mnemonic: o for o in all_ops() if not o.mnemonic.startswith("gpu.")}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "ops.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


@for_each("name", NAMED)
def test_every_op_has_an_example_of_itself(name: str) -> None:
    shown = example(NAMED[name])
    assert shown is not None
    assert f" {name} " in f" {shown.text} " or f" {name}\n" in f" {shown.text}\n"


def test_parameters_are_given_or_have_the_type_of_the_result() -> None:
    assert example(NAMED["add"]) == Example("%r = add i32<64> %a, %b", ("i32<64> %a", "i32<64> %b"))
    shown = example(NAMED["make_descriptor"])
    assert shown is not None
    assert shown.parameters == ("f16* %p", "i32 %m", "i64 %s", "i32 %n")


SETTING = {
    "br": ("", "void", "\nloop:\n  ret"),
    "cond_br": ("", "void", "\nbody:\n  ret\nexit:\n  ret"),
    "ret": ("", "f32", ""),
    "unreachable": ("", "void", ""),
    "call": ("declare f32 @square(f32 %x)\n\n", "void", "\n  ret"),
    "global_address": ("constant f32<4> @table = [0.0, 1.0, 2.0, 3.0]\n\n", "void", "\n  ret"),
}
"""What an example needs around it: declarations, return type, further blocks."""


@for_each("name", NAMED)
def test_examples_read_and_print_as_shown(name: str) -> None:
    shown = example(NAMED[name])
    assert shown is not None
    before, returns, after = SETTING.get(name, ("", "void", "\n  ret"))
    head = f"define {returns} @f({', '.join(shown.parameters)})"
    text = f"tir 1.0\n\n{before}{head} {{\nentry:\n  {shown.text}{after}\n}}\n"
    assert f"\n  {shown.text}\n" in print_module(parse(text))
