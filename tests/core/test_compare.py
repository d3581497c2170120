"""Modules are equal if they say the same, whatever their values are called and wherever a text was
read from."""

from __future__ import annotations

import pytest

from tileir.compare import structurally_equal
from tileir.textual import parse

TEXT = """\
; a header
tir 1.0

metadata {size = 1, ratio = 1.0, word = "x"}

; a table
private constant i32<2> @table = [1, 2]
global f32 @other

; a function
define i32 @g(i32 %a) {num_warps = 4} {
entry:
  ret %a
}

define void @f(i32* readonly %p, i32 %n, i1 %c, i1 %d) {
; a block
entry:
  ; an op
  @%c %x = add i32 %n, 1 loc("k.py":3:5)
  %y = call i32 @g, %x
  %m, _ = icmp (i1, i1) %n, 3 {predicate = slt}
  cond_br %m, left, right
left:
  br right
right:
  %z = phi i32 [%x, entry], [%y, left]
  %w = psi i32 [%c, %z], [%d, 7]
  print %w, %z {prefix = "w"}
  store %p, %w
  ret
}
"""

DIFFERENT = [
    ("; a header", "; another header"),
    ("size = 1", "size = 2"),
    ("size = 1", "size = true"),
    ("size = 1", "size = 1.0"),
    ("ratio = 1.0", "ratio = 1"),
    ('word = "x"', 'letter = "x"'),
    ("size = 1, ratio = 1.0", "ratio = 1.0, size = 1"),
    ("; a table", "; no table"),
    ("private constant", "constant"),
    ("constant i32", "global i32"),
    ("[1, 2]", "[1, 3]"),
    ("i32<2> @table = [1, 2]", "i32<3> @table = [1, 2, 2]"),
    ("global f32 @other", "global f64 @other"),
    ("; a function", "; no function"),
    ("num_warps = 4", "num_warps = 8"),
    ("i32 @g(i32 %a) {", "alwaysinline i32 @g(i32 %a) {"),
    ("readonly %p", "writeonly %p"),
    ("define void @f", "define kernel void @f"),
    ("; a block", "; no block"),
    ("; an op", "; no op"),
    ("@%c %x", "@%d %x"),
    ("@%c %x", "%x"),
    ('"k.py":3:5', '"k.py":3:6'),
    (' loc("k.py":3:5)', ""),
    ("add i32 %n, 1", "add i32 %n, 2"),
    ("add i32 %n, 1", "sub i32 %n, 1"),
    ("add i32 %n, 1", "add i32 %n, 1 {overflow = nsw}"),
    ("@g, %x", "@h, %x"),
    ("@g, %x", "@g, %n"),
    ("predicate = slt", "predicate = ult"),
    ("%m, _ =", "%o, %m ="),
    ("%m, left, right", "%m, right, left"),
    ("[%y, left]", "[%x, left]"),
    ("[%d, 7]", "[%d, 8]"),
    ("[%c, %z], [%d, 7]", "[%c, %z]"),
    ("print %w, %z", "print %w"),
    ("print %w, %z", "print %z, %w"),
    ("store %p, %w", "store %p, %z"),
    ("  br right\n", "  %u = add i32 %n, 1\n  br right\n"),
    ("left:", "west:"),
]  # fmt: skip

ALIKE = [
    ("%x", "%first"),
    ("%w", "%z9"),
    ("%p", "%pointer"),
    ("  br right\n", "\n\n  br   right\n"),
    ("[1, 2]", "[\n  1,\n  2\n]"),
]


def replace_text(old: str, new: str) -> str:
    assert old in TEXT
    text = TEXT.replace(old, new)
    return (
        text.replace("left]", "west]").replace("%m, left", "%m, west") if new == "west:" else text
    )


@pytest.mark.parametrize(("old", "new"), DIFFERENT)
def test_one_difference_is_enough(old: str, new: str) -> None:
    one, other = parse(TEXT, verify=False), parse(replace_text(old, new), verify=False)
    assert not structurally_equal(one, other)
    assert not structurally_equal(other, one)


@pytest.mark.parametrize(("old", "new"), ALIKE)
def test_names_and_space_are_none(old: str, new: str) -> None:
    one = parse(TEXT, "one.tir", verify=False)
    assert structurally_equal(one, parse(replace_text(old, new), "other.tir", verify=False))
