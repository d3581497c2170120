"""Malformed text ends in a TileirError, soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileir.errors import ParseError, TileirError
from tileir.testing.fuzz_text import campaign, try_text
from tileir.textual import parse

SEEDS = [p.read_text() for p in sorted((Path(__file__).parents[2] / "examples").glob("*.tir"))]
FUNCTION = "tir 1.0\n\ndefine void @f(i32 %n) {\nentry:\n"


def test_mutants() -> None:
    assert campaign(SEEDS, 20_000) == []


LISTINGS = Path(__file__).parents[1] / "corpus" / "listings"


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
    for start in range(0, len(text), 3):
        for cut in (1, 3, 9):
            refused_or_read(text[:start] + text[start + cut :], dialect)
        refused_or_read(text[:start], dialect)
        refused_or_read(f"{text[:start]} call {text[start:]}", dialect)


def refused_or_read(text: str, dialect: str) -> None:
    try:
        parse(text, dialect=dialect)
    except TileirError as error:
        assert error.diagnostics[0].location is not None


@pytest.mark.parametrize(
    "text",
    [
        "tir 1.0\nmetadata {a = " + "[" * 100_000,
        "tir 1.0\n" + "(" * 500_000,
        "tir 1.0\ndeclare void @f(f32" + "*" * 500_000 + " %x)\n",
        "tir 1.0\ndeclare void @f(f32<" + "1, " * 100_000 + "1> %x)\n",
        "tir 1.0\ndeclare void @f(i32<" + "9" * 500_000 + "> %x)\n",
        FUNCTION + "  %x = add i32 %n, " + "9" * 500_000 + "\n  ret\n}\n",
        FUNCTION + "  %x = fadd f64 1e" + "9" * 300_000 + ", 0.0\n  ret\n}\n",
        FUNCTION + "  " + ", ".join(["%x"] * 100_000) + " = add i32 %n, 1\n  ret\n}\n",
        FUNCTION + "".join(f"  %x{i} = add i32 %y{i}, 1\n" for i in range(20_000)) + "  ret\n}\n",
        FUNCTION + "x:\n" * 100_000 + "}\n",
        '"' * 900_000,
        "tir 1.0\n" + "define " * 100_000,
        "tir 1.0\n" * 100_000,
    ],
    ids=range(13),
)
def test_what_is_large_is_refused_soon(text: str) -> None:
    assert try_text(text) is None
    refused_or_read(text.removeprefix("tir 1.0\n"), "mapl19")
    with pytest.raises(TileirError):
        parse(text)


def test_ten_megabytes_in_a_line() -> None:
    with pytest.raises(ParseError) as caught:
        parse("tir 1.0\n" + "%x " * 3_500_000)
    assert (caught.value.code, caught.value.line) == ("TIR0001", 2)
