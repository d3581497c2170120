"""Every error of the reader, with the place it is reported at."""

from __future__ import annotations

import pytest

from tests.sizes import for_each
from tileir.errors import ParseError
from tileir.textual import parse, parse_many

from .malformed_texts import HEAD, LINES, MODULES, OLDER, PHIS, body
from .marked import check


@for_each(("code", "marked"), MODULES)
def test_modules(code: str, marked: str) -> None:
    check(code, marked)


@for_each(("code", "line"), LINES)
def test_lines(code: str, line: str) -> None:
    check(code, body(line))


@for_each(("code", "marked"), PHIS)
def test_phis(code: str, marked: str) -> None:
    check(code, marked)


def test_several_errors_in_one_run() -> None:
    text = body("%x = ad i32 %n, 1", "%y = add i32 %x, 1", "%z = add i32 %gone, 1", "%x = add i8 1")
    with pytest.raises(ParseError) as caught:
        parse(text)
    results = [(d.code, d.location.line) for d in caught.value.diagnostics if d.location]
    assert results == [("TIR0003", 5), ("TIR0005", 7), ("TIR0012", 8)]


@pytest.mark.parametrize("wrong", ["\u200b", "\x0c", "\xa0", "\ufeff"])
def test_characters_that_do_not_show_are_named(wrong: str) -> None:
    with pytest.raises(ParseError, match=f"found the character U\\+{ord(wrong):04X}"):
        parse(body(f"{wrong}%x = add i32 %n, 1"))


def test_errors_in_two_functions() -> None:
    one = body("%x = ad i32 %n, 1")
    with pytest.raises(ParseError) as caught:
        parse(one + one.replace("tir 1.0\n", "").replace("@f", "@g"))
    assert [d.code for d in caught.value.diagnostics] == ["TIR0003", "TIR0003"]


def test_after_an_error_reading_goes_on_at_the_next_line_that_begins_something() -> None:
    wrong = ["nonsense ( define", "  define", "definex", "define_ void", "; define", '"', "}"]
    text = "\n".join(["tir 1.0", *wrong, "", "global i33 @x", "  i32", "declare i33 @y", "\t("])
    with pytest.raises(ParseError) as caught:
        parse(text)
    results = [(d.code, d.location.line) for d in caught.value.diagnostics if d.location]
    assert results == [("TIR0001", 2), ("TIR0004", 10), ("TIR0004", 12)]


def test_a_second_definition_points_at_the_first() -> None:
    with pytest.raises(ParseError) as caught:
        parse(body("%x = add i32 %n, 1", "%x = add i32 %n, 2"))
    (note,) = caught.value.diagnostics[0].notes
    assert note.location is not None
    assert (note.location.line, note.location.column) == (5, 3)


def test_near_names_are_suggested() -> None:
    with pytest.raises(ParseError, match="did you mean `splat`"):
        parse(body("%x = splatt i32<8> %n"))


def test_errors_in_older_spellings_are_at_the_line_of_the_text() -> None:
    text = "def void f(i32 N)\n{\nentry:\n%0 = add i32 N, 1.5;\nret void;\n}\n"
    with pytest.raises(ParseError) as caught:
        parse(text, dialect="triton1")
    assert (caught.value.code, caught.value.line, caught.value.column) == ("TIR0007", 4, 1)


def test_ops_of_older_spellings_are_at_the_line_of_the_text() -> None:
    text = "def void f(i32 N)\n{\nentry:\n%0 = add i32 N, 1;\nret void;\n}\n"
    ops = parse(text, "k", dialect="triton1").functions["f"].ops
    assert [op.location.line for op in ops if op.location] == [4, 5]


def test_the_first_definition_in_an_older_spelling_is_at_its_line() -> None:
    text = "def void f(i32 N)\n{\nentry:\n%0 = add i32 N, 1;\n  %0 = add i32 N, 1;\nret void;\n}\n"
    with pytest.raises(ParseError) as caught:
        parse(text, dialect="triton1")
    (note,) = caught.value.diagnostics[0].notes
    assert (caught.value.line, caught.value.column) == (5, 3)
    assert note.location is not None and (note.location.line, note.location.column) == (4, 1)


@for_each(("code", "marked"), OLDER)
def test_the_spelling_of_triton_1(code: str, marked: str) -> None:
    check(code, marked, "triton1")


def test_an_unknown_dialect() -> None:
    with pytest.raises(ParseError, match="known: tir, mapl19, triton1") as caught:
        parse("tir 1.0\n", dialect="triton2")
    assert caught.value.code == "TIR0023"


def test_errors_in_the_parts_of_a_file_are_at_their_lines() -> None:
    with pytest.raises(ParseError) as caught:
        parse_many("tir 1.0\n; -----\n" + body("%x = ad i32 %n, 1"), "k.tir")
    assert (caught.value.code, caught.value.line, caught.value.column) == ("TIR0003", 7, 8)


@pytest.mark.parametrize("item", ["global i8 x\n", "define void f() {\n}\n"])
def test_at_most_a_hundred_errors_are_reported(item: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(HEAD + item * 300)
    assert len(caught.value.diagnostics) == 100
    with pytest.raises(ParseError) as caught:
        parse(body(*["%x = ad i32 %n, 1"] * 300))
    assert len(caught.value.diagnostics) == 100
