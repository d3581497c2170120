"""The page of ops is what the classes say, and every op shows how it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileir.op import all_ops
from tileir.tools.opdocs import Example, example, page

NAMED = {o.mnemonic: o for o in all_ops() if not o.mnemonic.startswith("gpu.")}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("name", NAMED)
def test_every_op_has_an_example_of_itself(name: str) -> None:
    shown = example(NAMED[name])
    assert shown is not None
    assert f" {name} " in f" {shown.text} " or f" {name}\n" in f" {shown.text}\n"


def test_parameters_are_given_or_have_the_type_of_the_result() -> None:
    assert example(NAMED["add"]) == Example("%r = add i32<64> %a, %b", ("i32<64> %a", "i32<64> %b"))
    shown = example(NAMED["make_descriptor"])
    assert shown is not None
    assert shown.parameters == ("f16* %p", "i32 %m", "i64 %s", "i32 %n")
