"""Malformed text ends in a TileirError, soon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.counting import grows_linearly
from tests.sizes import few_or_all
from tileir.errors import ParseError, TileirError
from tileir.testing.fuzz_text import campaign, try_text
from tileir.textual import parse

SEEDS = [p.read_text() for p in sorted((Path(__file__).parents[2] / "examples").glob("*.tir"))]
FUNCTION = "tir 1.0\n\ndefine void @f(i32 %n) {\nentry:\n"


@pytest.mark.parametrize("count", few_or_all(400, 20_000))
def test_mutants(count: int) -> None:
    assert campaign(SEEDS, count, limit=None) == []


LISTINGS = Path(__file__).parents[1] / "corpus" / "listings"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("triton1", "add.printed.tir"),
        *(("mapl19", f"listing{n}.mapl19") for n in (5, 6, 7)),
        *(("mapl19", f"listing{n}.printed.tir") for n in (5, 6, 7)),
    ],
)
def test_mutants_of_older_spellings(dialect: str, name: str) -> None:
    text = (LISTINGS / name).read_text()
    for start in range(0, len(text), 11):
        for cut in (1, 3, 9):
            refused_or_read(text[:start] + text[start + cut :], dialect)
        refused_or_read(text[:start], dialect)
        refused_or_read(f"{text[:start]} call {text[start:]}", dialect)


def refused_or_read(text: str, dialect: str) -> None:
    try:
        parse(text, dialect=dialect)
    except TileirError as error:
        assert error.diagnostics[0].location is not None


LARGE: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "tir 1.0\nmetadata {a = " + "[" * n,
    "parentheses": lambda n: "tir 1.0\n" + "(" * 5 * n,
    "stars": lambda n: "tir 1.0\ndeclare void @f(f32" + "*" * 5 * n + " %x)\n",
    "extents": lambda n: "tir 1.0\ndeclare void @f(f32<" + "1, " * n + "1> %x)\n",
    "extent": lambda n: "tir 1.0\ndeclare void @f(i32<" + "9" * 5 * n + "> %x)\n",
    "integer": lambda n: FUNCTION + "  %x = add i32 %n, " + "9" * 5 * n + "\n  ret\n}\n",
    "exponent": lambda n: FUNCTION + "  %x = fadd f64 1e" + "9" * 3 * n + ", 0.0\n  ret\n}\n",
    "results": lambda n: FUNCTION + "  " + ", ".join(["%x"] * n) + " = add i32 %n, 1\n  ret\n}\n",
    "undefined": lambda n: (
        FUNCTION + "".join(f"  %x{i} = add i32 %y{i}, 1\n" for i in range(n // 5)) + "  ret\n}\n"
    ),
    "labels": lambda n: FUNCTION + "x:\n" * n + "}\n",
    "quotes": lambda n: '"' * 9 * n,
    "defines": lambda n: "tir 1.0\n" + "define " * n,
    "versions": lambda n: "tir 1.0\n" * n,
}
"""Texts of a length in proportion to n that are wrong."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", LARGE)
def test_what_is_large_is_refused(kind: str) -> None:
    text = LARGE[kind](100_000)
    assert try_text(text, limit=None) is None
    refused_or_read(text.removeprefix("tir 1.0\n"), "mapl19")
    with pytest.raises(TileirError):
        parse(text)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("dialect", [None, "mapl19"])
@pytest.mark.parametrize("kind", LARGE)
def test_what_is_large_is_refused_in_linear_time(kind: str, dialect: str | None) -> None:
    def read(count: int) -> None:
        text = LARGE[kind](count)
        if dialect is None:
            assert try_text(text, limit=None) is None
        else:
            refused_or_read(text.removeprefix("tir 1.0\n"), dialect)

    assert grows_linearly(read, 1000)


def test_ten_megabytes_in_a_line() -> None:
    with pytest.raises(ParseError) as caught:
        parse("tir 1.0\n" + "%x " * 3_500_000)
    assert (caught.value.code, caught.value.line) == ("TIR0001", 2)
