"""Diagnostics as they are shown: the place, the line, and a mark under what is meant."""

from __future__ import annotations

import pytest

from tests.sizes import for_each
from tileir.errors import Diagnostic, Location, ParseError
from tileir.render import render, render_error
from tileir.textual import parse


def excerpt_of(line: str, column: int, length: int, *, before: int = 0) -> tuple[str, str]:
    """The line and the mark below it, for a diagnostic on a text of `before` other lines."""
    text = "other\n" * before + line + "\nlast\n"
    at = Location("k.tir", before + 1, column)
    rendered = render(Diagnostic("TIR0001", "wrong", at, length=length), {"k.tir": text})
    first, excerpt, mark = rendered.split("\n")
    assert first == f"k.tir:{before + 1}:{column}: error[TIR0001]: wrong"
    gutter = f"{before + 1:>5} | "
    assert excerpt.startswith(gutter) and mark.startswith(" " * 5 + " | ")
    return excerpt.removeprefix(gutter), mark[len(gutter) :]


@for_each("before", [0, 1, 12345])
@for_each("width", [1, 10, 159, 160])
def test_a_line_that_fits_is_shown_whole(width: int, before: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(width))
    for column in {1, 2, width // 2 + 1, width, width + 1}:
        if column <= width + 1:
            excerpt, mark = excerpt_of(line, column, 1, before=before)
            assert excerpt == line
            assert mark == " " * (column - 1) + "^"


@pytest.mark.parametrize("width", [161, 200, 1000])
def test_of_a_long_line_what_is_around_the_place_is_shown(width: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(width))
    for column in (1, 3, 79, 80, 81, 100, 160, width - 5, width):
        excerpt, mark = excerpt_of(line, column, 3)
        start = len(mark) - len(mark.lstrip())
        assert len(excerpt) <= 160 and excerpt in line
        assert excerpt[start] == line[column - 1]
        assert set(mark.strip()) == {"^"}
        assert len(mark.strip()) == min(3, len(excerpt) - start)
        assert column > 80 or excerpt == line[:160]


def test_a_tab_is_one_column() -> None:
    assert excerpt_of("\tret\t%x", 6, 2) == (" ret %x", "     ^^")


def test_without_its_text_a_diagnostic_is_a_line() -> None:
    for at in (None, Location("nowhere.tir", 3, 4), Location("k.tir", 9, 1)):
        assert "\n" not in render(Diagnostic("TIR0001", "wrong", at), {"k.tir": "one\ntwo\n"})


@pytest.mark.parametrize("count", [1, 2, 3])
def test_several_errors_are_counted(count: int) -> None:
    error = ParseError(*[Diagnostic("TIR0001", f"wrong {i}", None) for i in range(count)])
    *lines, last = render_error(error).split("\n")
    assert [line.rpartition(": ")[2] for line in lines] == [f"wrong {i}" for i in range(count)]
    assert (
        last
        == ("" if count == 1 else f"{count} errors; ") + "for details: `tileir explain TIR0001`"
    )


def test_what_follows_from_an_error_is_no_error() -> None:
    """Results of a line that cannot be read have no value, and what uses them none either."""
    wrong = {
        "%x = ad i32 %n, 1": "TIR0003",
        "%x, %k = icmp (i1, i1) %n, 1 {predicate = what}": "TIR0023",
        "%x = add i32 %n, 1.5": "TIR0007",
        "%x = add i32 %gone, 1": "TIR0005",
    }
    for line, code in wrong.items():
        rest = "  %y = add i32 %x, 1\n  %z = mul i32 %y, %x\n  ret %z\n"
        text = f"tir 1.0\n\ndefine i32 @f(i32 %n) {{\nentry:\n  {line}\n{rest}}}\n"
        with pytest.raises(ParseError) as caught:
            parse(text)
        assert [(d.code, d.location and d.location.line) for d in caught.value.diagnostics] == [
            (code, 5)
        ]
