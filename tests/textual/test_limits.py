"""What the format bounds, with the longest text that is right and the shortest that is wrong."""

from __future__ import annotations

import pytest

from tests.sizes import for_each
from tileir.errors import ParseError
from tileir.textual import parse

HEAD = "tir 1.0\n\n"


def literal(type_: str, text: str) -> str:
    return f"{HEAD}global {type_} @x = {text}\n"


def shape(extents: int) -> str:
    return f"{HEAD}declare void @f(f32<{', '.join('1' * extents)}> %p)\n"


def layout_text(dimension: str) -> str:
    return f"{HEAD}#l = layout(rank = 2, repeat = [lane 3 @ {dimension}])\n"


@for_each(("code", "right", "wrong"), [
        ("TIR0017", HEAD + f"declare void @f(f32{'*' * 256} %p)\n",
         HEAD + f"declare void @f(f32{'*' * 257} %p)\n"),
        ("TIR0017", shape(256), shape(257)),
        ("TIR0007", literal("i64", "0x" + "f" * 16), literal("i64", "0x0" + "f" * 16)),
        ("TIR0007", literal("f32", "0x" + "0" * 15 + "7"), literal("f32", "0x" + "0" * 16 + "7")),
        ("TIR0007", literal("f32", "0." + "3" * 397), literal("f32", "0." + "3" * 398)),
        ("TIR0007", literal("i64", "0" * 19 + "7"), literal("i64", "0" * 20 + "7")),
        ("TIR0701", layout_text("00000001"), layout_text("000000001")),
        ("TIR0701", layout_text("1"), layout_text("2")),
        ("TIR0002", "tir 000001.000000\n", "tir 0000001.0\n"),
    ])  # fmt: skip
def test_the_bound_is_where_it_is_stated(code: str, right: str, wrong: str) -> None:
    parse(right)
    with pytest.raises(ParseError) as caught:
        parse(wrong)
    assert [d.code for d in caught.value.diagnostics] == [code]


@pytest.mark.parametrize("version", ["", "tir one\n", "tir 1.0.0\n", "tir 1.0 extra\n"])
def test_a_text_of_no_version_has_that_error_alone(version: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(version + "nonsense\n\ndefine void @f() {\nentry:\n  nothing\n}\n")
    assert len(caught.value.diagnostics) == 1
