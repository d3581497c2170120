"""What is one token: most of a text is types and places, which are read as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tileir import Location
from tileir.frontends.ttir.errors import CompilationError
from tileir.frontends.ttir.lexer import StatementLine, tokens
from tileir.frontends.ttir.locations import Locations
from tileir.frontends.ttir.nodes import Function, Operation, Region
from tileir.frontends.ttir.reading import Reader, read_functions


def kinds(text: str) -> list[tuple[str, str]]:
    return [(t.kind, t.text) for t in tokens(text, "f")][:-1]


def test_types_and_places_are_one_token() -> None:
    for text in ("tensor<4x8xf32>", "!tt.ptr<f16>", "tensor<16x!tt.ptr<bf16>>"):
        assert kinds(text) == [("type", text)]
    assert kinds("loc(#loc12)") == [("location", "loc(#loc12)")]


def test_other_types_are_read_token_by_token() -> None:
    for text in ("!tt.ptr<tensor<4x8xf32>>", "!tt.ptr<f16, 3>", "<tensor<4xf32>>"):
        assert len(kinds(text)) > 1
    # No extent is given back, to be read as an element: that would take quadratic time.
    assert kinds("tensor<4x8x>")[0] == ("word", "tensor")
    one = Reader(tokens("!tt.ptr<f16, 1>", "f"), "f", Locations("")).type()
    assert one is Reader(tokens("!tt.ptr<f16>", "f"), "f", Locations("")).type()


def test_the_table_of_locations_has_no_tokens() -> None:
    text = '#loc = loc("a.py":1:2)\n#loc1 = loc("x"(#loc))\n'
    assert kinds(text) == []
    (last,) = tokens(text, "f")
    assert (last.kind, last.line, last.column) == ("eof", 3, 1)
    reader = Reader(tokens("loc(#loc1)", "f"), "f", Locations(text))
    assert reader.location() == Location("a.py", 1, 2)


def test_the_first_character_that_no_token_begins_with_is_reported() -> None:
    with pytest.raises(CompilationError) as raised:
        list(tokens("  tensor<4xf32>\n  ; ~", "f"))
    assert raised.value.diagnostics[0].location == Location("f", 2, 3)


def statement(s: Operation) -> tuple[Any, ...]:
    """All of a statement but the marks of its head."""
    head = [(t.kind, t.text) for t in s.head if t.kind != "mark"]
    places = s.place, s.source
    return (
        s.name, s.results, places, head, s.options, s.operand_types, s.result_types,
        [region(inner) for inner in s.regions],
    )  # fmt: skip


def region(r: Region) -> list[Any]:
    return [(x.label, x.parameters, [statement(s) for s in x.statements]) for x in r.sections]


def function(f: Function) -> tuple[Any, ...]:
    return f.name, f.place, f.source, f.parameters, f.results, region(f.region)


@pytest.mark.parametrize("folder", ["kernels", "ops"])
def test_lines_are_read_as_their_tokens_are(folder: str) -> None:
    lines = statements = 0
    for path in sorted((Path(__file__).parent / folder).rglob("*.ttir")):
        text = path.read_text("utf-8")
        by_lines, by_tokens = (
            Reader(tokens(text, "f", lines=whole), "f", Locations(text)) for whole in (True, False)
        )
        first, second = by_lines.module(), by_tokens.module()
        assert [function(f) for f in first] == [function(f) for f in second], path
        lines += sum(isinstance(t, StatementLine) for t in by_lines.tokens)
        statements += sum(line.startswith("    ") for line in text.splitlines())
    assert lines > statements * 0.7, "most statements have the usual form"


USUAL = [
    "%c = arith.addi %n, %n overflow<nsw> : i32",
    "%c = arith.addi %n, %n overflow<nuw> : i32 loc(#loc1)",
    '%c = arith.addi %n, %n : i32 loc("a file.py":3:4)',
    '%c = arith.addi %n, %n overflow<nsw> : i32 loc("a.py":3:0)',
]


@pytest.mark.parametrize("line", USUAL)
def test_flags_and_places_are_parts_of_a_line(line: str) -> None:
    text = f"module {{\n  tt.func public @k(%n: i32) {{\n    {line}\n    tt.return\n  }}\n}}\n"
    text += '#loc1 = loc("b.py":5:6)\n'
    by_lines, by_tokens = (
        Reader(tokens(text, "f", lines=whole), "f", Locations(text)) for whole in (True, False)
    )
    assert sum(isinstance(t, StatementLine) for t in by_lines.tokens) == 2
    assert [*map(function, by_lines.module())] == [*map(function, by_tokens.module())]


ALONE = """module attributes {
  ttg.deterministic
} {
  tt.func public @k(%a: !tt.ptr<f32>) {
    %c = arith.constant -1.5 : f32
    tt.store %a, %c cacheModifier = cg {width = 4 : i32} : !tt.ptr<f32>
    tt.return
  }
}
"""


def test_a_line_that_is_part_of_something_else_is_read_by_its_tokens() -> None:
    (f,) = read_functions(ALONE, "f")
    constant, store, _ = f.region.statements
    assert [t.text for t in constant.head if t.kind == "number"] == ["-1.5"]
    assert store.options == {"cacheModifier": "cg", "width": 4}
    assert store.operands == ["%a", "%c"]


def test_the_place_of_an_error_is_that_of_its_token() -> None:
    with pytest.raises(CompilationError) as raised:
        read_functions(ALONE.replace("-1.5 : f32", "-1.5 : f31"), "f")
    assert raised.value.diagnostics[0].location == Location("f", 5, 32)
    with pytest.raises(CompilationError) as raised:
        read_functions(ALONE.replace("tt.return\n  }", "tt.return\n  )"), "f")
    assert raised.value.diagnostics[0].location == Location("f", 8, 3)
