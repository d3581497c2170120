"""What is one token: most of a text is types and places, which are read as a whole."""

from __future__ import annotations

import pytest

from tileir import Location
from tileir.frontends.ttir.errors import CompilationError
from tileir.frontends.ttir.lexer import tokens
from tileir.frontends.ttir.locations import Locations
from tileir.frontends.ttir.reading import Reader


def kinds(text: str) -> list[tuple[str, str]]:
    return [(t.kind, t.text) for t in tokens(text, "f")][:-1]


def test_types_and_places_are_one_token() -> None:
    for text in ("tensor<4x8xf32>", "!tt.ptr<f16>", "tensor<16x!tt.ptr<bf16>>"):
        assert kinds(text) == [("type", text)]
    assert kinds("loc(#loc12)") == [("location", "loc(#loc12)")]


def test_other_types_are_read_token_by_token() -> None:
    for text in ("!tt.ptr<tensor<4x8xf32>>", "!tt.ptr<f16, 3>", "<tensor<4xf32>>"):
        assert len(kinds(text)) > 1
    one = Reader(tokens("!tt.ptr<f16, 1>", "f"), "f", Locations("")).type()
    assert one is Reader(tokens("!tt.ptr<f16>", "f"), "f", Locations("")).type()


def test_the_table_of_locations_has_no_tokens() -> None:
    text = '#loc = loc("a.py":1:2)\n#loc1 = loc("x"(#loc))\n'
    assert kinds(text) == [("end", "\n")] * 2
    reader = Reader(tokens("loc(#loc1)", "f"), "f", Locations(text))
    assert reader.location() == Location("a.py", 1, 2)


def test_the_first_character_that_no_token_begins_with_is_reported() -> None:
    with pytest.raises(CompilationError) as raised:
        list(tokens("  tensor<4xf32>\n  ; ~", "f"))
    assert raised.value.diagnostics[0].location == Location("f", 2, 3)
