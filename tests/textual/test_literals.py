"""Literals of every type: the text of each bit pattern, and texts that are none of a type."""

from __future__ import annotations

import re

import pytest

from tileir import TileirError
from tileir.textual import parse
from tileir.textual.literals import format_bits, literal
from tileir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I4,
    I8,
    I16,
    I32,
    I64,
    Element,
    Pointer,
    Tile,
)
from tileir.values import Constant, Undef

INTEGERS = (I1, I4, I8, I16, I32, I64)
FLOATS = (F8E4M3, F8E5M2, F16, BF16, F32, F64)
POINTER = Pointer(F32)
KINDS = (*INTEGERS, *FLOATS, POINTER)

FORMS = {
    **dict.fromkeys(INTEGERS, r"0|-?[1-9]\d*"),
    **dict.fromkeys(FLOATS, r"-?\d+\.\d+|-?\d+(\.\d+)?e[+-]\d+|-?inf|nan|0x[0-9a-f]+"),
    I1: "true|false",
    POINTER: "null|0x[1-9a-f][0-9a-f]*",
}


def patterns(kind: Element) -> list[int]:
    """Bits with one run of ones, and their complements."""
    every = (1 << kind.bits) - 1
    runs = {(1 << i) - (1 << j) for i in range(kind.bits + 1) for j in range(i + 1)}
    return sorted(runs | {every - n for n in runs})


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_words_have_the_bits_of_their_type_at_most(kind: Element) -> None:
    every = (1 << kind.bits) - 1
    for bits in (0, 1, every // 2 + 1, every):
        assert literal(hex(bits), kind) == Constant(kind, bits)
        assert literal(f"-{bits:#x}", kind) is None
    for bits in (every + 1, every + 2, 2 * every + 1, 1 << 64):
        assert literal(hex(bits), kind) is None
    assert literal("0x" + "0" * 16, kind) == Constant(kind, 0)
    assert literal("0x" + "0" * 17, kind) is None


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_pattern_has_a_text_of_its_type(kind: Element) -> None:
    texts: set[str] = set()
    for bits in patterns(kind):
        text = format_bits(kind, bits)
        assert re.fullmatch(FORMS[kind], text), text
        assert literal(text, kind) == Constant(kind, bits)
        assert literal(text, Tile(kind, (4,))) == Constant(Tile(kind, (4,)), bits)
        texts.add(text)
    assert len(texts) == len(patterns(kind))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_words_and_numbers_are_literals_of_some_types(kind: Element) -> None:
    is_float, is_pointer = kind in FLOATS, kind is POINTER
    assert literal("undef", kind) == Undef(kind)
    accepted = {
        "true": kind is I1, "false": kind is I1, "null": is_pointer, "nan": is_float,
        "inf": is_float, "-inf": is_float, "1.5": is_float, "2e3": is_float, "-0.0": is_float,
        "0x1": True, "-0x1": False, "0x" + "0" * 16: True, "0x" + "0" * 17: False,
        "9" * 399: is_float, "9" * 400: False, "9" * 20: is_float, "0" * 20: True,
        "0" * 21: is_float,
    }  # fmt: skip
    for text, expected in accepted.items():
        assert (literal(text, kind) is not None) == expected, text


@pytest.mark.parametrize(
    ("type", "text"),
    [("i32", "true"), ("i1", "7"), ("f32", "null"), ("i8", "1.5"), ("i16", "0x12345"),
     ("f32*", "1.5"), ("i32", "nan"), ("i64", "9" * 21)],
)  # fmt: skip
def test_what_is_no_literal_of_its_type_is_an_error_there(type: str, text: str) -> None:
    line = f"  %x = splat {type}<4> {text}"
    source = f"tir 1.0\n\ndefine kernel void @f() {{\nentry:\n{line}\n  ret\n}}\n"
    with pytest.raises(TileirError, match="is not a literal of") as caught:
        parse(source)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "TIR0007"
    assert diagnostic.location.column == line.rindex(text) + 1
