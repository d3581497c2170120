"""Modules for other versions: written where they can be, refused by name where they cannot."""

from __future__ import annotations

from copy import copy
from enum import Enum
from typing import TypeVar

import pytest

import tileir.textual.module
import tileir.versions
from tests.sizes import for_each
from tileir import ParseError, VerifyError
from tileir.op import OPS, Op
from tileir.ops.arith import Add
from tileir.textual import parse, print_module
from tileir.verify import diagnose

T = TypeVar("T")
TEXT = """tir 1.0

define kernel void @k(i32* %x) {
entry:
  %a = load i32 %x
  %b = add i32 %a, 1 {overflow = nsw}
  store %x, %b
  ret
}
"""


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """This release knows 1.2."""
    for module in (tileir.textual.module, tileir.versions):
        monkeypatch.setattr(module, "VERSION", (1, 2))
    tileir.versions.newer_fields.cache_clear()


def with_facts(declared: T, **facts: object) -> T:
    """A copy of a field, or of the kind of an attribute, with other `facts`."""
    changed = copy(declared)
    vars(changed).update(facts)
    return changed


def with_field(cls: type[Op], name: str, monkeypatch: pytest.MonkeyPatch, **facts: object) -> None:
    changed = tuple(with_facts(f, **facts) if f.name == name else f for f in cls.schema)
    monkeypatch.setattr(cls, "schema", changed)
    tileir.versions.newer_fields.cache_clear()


def refusals_of(version: tuple[int, int], text: str = TEXT) -> list[tuple[str, int, int, str]]:
    module = parse(text.replace("tir 1.0", "tir 1.2"), "k.tir")
    with pytest.raises(VerifyError) as caught:
        print_module(module, version)
    return [
        (d.code, d.location.line, d.location.column, d.message)
        for d in caught.value.diagnostics
        if d.location
    ]


def test_a_module_is_written_for_its_own_version() -> None:
    assert print_module(parse(TEXT), (1, 0)) == TEXT


@pytest.mark.usefixtures("later")
def test_a_module_is_written_for_a_later_and_an_older_version() -> None:
    newer = TEXT.replace("1.0", "1.2")
    assert print_module(parse(TEXT), (1, 2)) == newer
    assert print_module(parse(newer), (1, 0)) == TEXT
    assert print_module(parse(newer), (1, 1)) == TEXT.replace("1.0", "1.1")


@pytest.mark.usefixtures("later")
def test_an_op_that_is_newer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Add, "since", (1, 2))
    assert refusals_of((1, 1)) == [
        ("TIR0401", 6, 3, "add needs tir 1.2; the module is tir 1.1"),
    ]


@pytest.mark.usefixtures("later")
def test_an_attribute_that_is_newer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_field(Add, "overflow", monkeypatch, since=(1, 1))
    (result,) = refusals_of((1, 0))
    assert result[:3] == ("TIR0401", 6, 3)
    assert result[3].startswith("add with overflow = nsw needs tir 1.1")
    plain = TEXT.replace(" {overflow = nsw}", "")
    newer = parse(plain.replace("1.0", "1.2"))
    assert print_module(newer, (1, 0)) == plain
    module = parse(TEXT, verify=False)
    assert [d.code for d in diagnose(module)] == ["TIR0401"]
    tileir.versions.newer_fields.cache_clear()


@pytest.mark.usefixtures("later")
def test_a_value_that_is_newer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (field,) = (f for f in Add.schema if f.name == "overflow")
    assert field.attribute is not None and field.attribute.enum is not None
    word: Enum = field.attribute.enum("nsw")
    kind = with_facts(field.attribute, since={word: (1, 2)})
    with_field(Add, "overflow", monkeypatch, attribute=kind)
    assert [line for _, line, _, _ in refusals_of((1, 1))] == [6]
    other = TEXT.replace("nsw", "nuw")
    assert print_module(parse(other.replace("1.0", "1.2")), (1, 0)) == other
    tileir.versions.newer_fields.cache_clear()


@pytest.mark.usefixtures("later")
def test_a_type_that_is_newer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tileir.versions.TYPES, "i32", (1, 1))
    result = refusals_of((1, 0))
    assert [line for _, line, _, _ in result] == [3, 5, 6, 7]
    assert result[1][3] == "load with type i32 needs tir 1.1; the module is tir 1.0"
    assert {d.code for d in diagnose(parse(TEXT, verify=False))} == {"TIR0401"}


@pytest.mark.parametrize("version", [(0, 9), (1, 1), (2, 0)])
def test_versions_that_there_are_not(version: tuple[int, int]) -> None:
    with pytest.raises(VerifyError) as caught:
        print_module(parse(TEXT), version)
    assert caught.value.code == "TIR0402" and "1.0" in str(caught.value)


NEWER = """tir 1.7
define kernel void @k(i32* %x, f6e3m2* %y) {
entry:
  %a = load i32 %x
  %b = add i32 %a, 1 {overflow = wraps}
  %c = warp_sum i32 %b {width = 32}
  store %x, %c {scope = cluster}
  ret
}
"""


def test_a_newer_file_is_refused_by_what_is_new() -> None:
    for dropped, words in (
        ("", ["f6e3m2"]),
        (", f6e3m2* %y", ["wraps", "warp_sum", "scope"]),
    ):
        with pytest.raises(ParseError) as caught:
            parse(NEWER.replace(dropped, "") if dropped else NEWER, "k.tir")
        (diagnostics,) = caught.value.diagnostics
        assert (diagnostics.code, caught.value.line, caught.value.column) == ("TIR0402", 1, 5)
        assert "1.7" in diagnostics.message and words[0] in diagnostics.message
        for word, note in zip(words, diagnostics.notes, strict=False):
            assert word in note.message and note.location is not None
    assert [n.location.line for n in diagnostics.notes if n.location] == [5, 6, 7]


@for_each("rest", ["", "\n", " extra\n", "\n(((\n", "\n" + "nonsense\n" * 300])
def test_a_newer_file_is_refused_whatever_is_in_it(rest: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse("tir 9.9" + rest)
    assert [d.code for d in caught.value.diagnostics] == ["TIR0402"]


def test_no_op_is_newer_than_the_release() -> None:
    assert all(cls.since <= tileir.versions.VERSION for cls in OPS.values())
