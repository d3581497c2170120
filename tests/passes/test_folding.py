"""What is folded and what is not, at the edges."""

from __future__ import annotations

import pytest

from tests.sizes import for_each
from tileir.passmanager import run
from tileir.textual import parse, print_module

MODULE = "tir 1.0\n\ndefine void @f({} %p) {{\nentry:\n  {}\n  store %p, %x\n  ret\n}}\n"


def folded_literal(element: str, op: str) -> str:
    """What the store writes after folding; "" where `op` is still there."""
    text = print_module(run(parse(MODULE.format(f"{element}*", op)), "fold").module)
    return "" if "%x =" in text else text.split("store %p, ")[1].split("\n")[0]


@pytest.mark.parametrize(("extent", "expected"), [(65536, "65536"), (65537, ""), (131072, "")])
def test_tiles_up_to_a_size(extent: int, expected: str) -> None:
    op = f"%x = reduce i32 i32<{extent}> 1 {{axis = 0, combiner = add}}"
    assert folded_literal("i32", op) == expected


@for_each(
    ("element", "op", "expected"),
    [
        ("i1", "%x = xor i1 true, true", "false"),
        ("i8", "%x = sub i8 i8 0, 1", "-1"),
        ("i64", "%x = sub i64 i64 0, 1", "-1"),
        ("bf16", "%x = fneg bf16 bf16 1.0", "-1.0"),
        ("f64", "%x = fsub f64 f64 0.5, 0.75", "-0.25"),
    ],
)
def test_bits_of_every_width(element: str, op: str, expected: str) -> None:
    assert folded_literal(element, op) == expected


@for_each(
    ("op", "kind", "alone"),
    [
        ("reduce i32 i32<8> 3 {axis = 0, combiner = add}", "i32", "i32 24"),
        ("reduce i32 i32<8> 3 {axis = 0, combiner = smax}", "i32", "i32 3"),
        ("scan i32<8> i32<8> 3 {axis = 0, combiner = umin}", "i32<8>", "i32<8> 3"),
    ],
)
def test_lanes_that_a_predicate_leaves_out_are_not_known(op: str, kind: str, alone: str) -> None:
    """What an op collects from the lanes that take part is no literal, even of equal literals."""
    head = "tir 1.0\n\ndefine {} @f(i1<8> %m) {{\nentry:\n  {}%x = {}\n  ret %x\n}}\n"
    for predicate, left in (("", False), ("@%m ", True)):
        module = parse(head.format(kind, predicate, op))
        text = print_module(run(module, "fold").module)
        assert ("%x = " in text) == left
        assert (f"ret {alone}" in text) != left
