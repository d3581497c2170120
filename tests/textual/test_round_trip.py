"""Text is the printer's fixpoint, and a module is what its text says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sizes import for_each
from tileir.compare import structurally_equal
from tileir.textual import parse, parse_many, parse_with_remarks, print_module

ROOT = Path(__file__).parents[2]
FILES = [
    *ROOT.glob("examples/*.tir"),
    *(p for p in ROOT.glob("tests/corpus/**/*.tir") if ".printed" not in p.name),
]

EVERYTHING = """\
; before the version
tir 1.0

metadata {
  name = "a \\"quoted\\"\\n\\u0007 line",
  sizes = [1, -2],
  words = ["a", "b"],
  ratio = 1.5e-07,
  flag = true
}

; a table
private constant i32<4> @table = [1, -1, 2147483647, 0]
linkonce align 16 global f32<2> @zeros = 0.0
declare global bf16 @outside
constant addrspace(1) i8<2> @bytes = [1, 2]

; combines
define private alwaysinline f32 @larger(f32 %a, f32 %b) {
entry:
  %m = fmaximum f32 %a, %b
  ret %m
}

declare (f32, i32) @two(f32* aligned(16) readonly noalias %p)

define kernel void @k(f32* aligned(16) writeonly %y, i32 multiple_of(4) %n) {num_warps = 4} {
; the entry
entry:
  %t = make_range i32<8> {start = 3}
  ; compare
  ; twice
  %in, _ = icmp (i1<8>, i1<8>) %t, 5 {predicate = slt}
  %v, %i = call (f32, i32) @two, %y
  %nan = fadd f32 %v, 0x7fc00001
  @%in %s = add i32<8> %t, undef loc("kernel.py":12:5)
  br loop
loop:
  %k = phi i32 [0, entry], [%k.next, loop]
  %x = phi f32 [%nan, entry], [%r, loop]
  %f = splat f32<8> %x
  %r = reduce f32 %f {combiner = @larger}
  %k.next = add i32 %k, 1 {overflow = nsw}
  %more, _ = icmp (i1, i1) %k.next, %n {predicate = slt}
  cond_br %more, loop, exit {stages = 3}
exit:
  %z = psi i32<8> [%in, %s], [i1<8> true, %t]
  ret
}

; at the end
"""


@pytest.mark.sampled(28)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_files_are_stable_after_one_round_trip(path: Path) -> None:
    once = print_module(parse(path.read_text(), str(path)))
    reparsed = parse(once)
    assert print_module(reparsed) == once
    assert structurally_equal(reparsed, parse(path.read_text()))


def test_the_canonical_text_is_reprinted_byte_for_byte() -> None:
    assert print_module(parse(EVERYTHING, verify=False)) == EVERYTHING


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("  %t = make_range", "  %q = make_range i32<8> {start = 3}\n  %t = make_range"),
        ("overflow = nsw", "overflow = nuw"),
        ("[1, -1,", "[1, -2,"),
        ("stages = 3", "stages = 4"),
        ("%t, 5 {", "%t, 6 {"),
        ("; twice", "; thrice"),
        ("num_warps = 4", "num_warps = 8"),
        ("[0, entry]", "[1, entry]"),
    ],
)
def test_what_differs_is_not_equal(one: str, other: str) -> None:
    assert one in EVERYTHING
    a, b = (parse(t, verify=False) for t in (EVERYTHING, EVERYTHING.replace(one, other, 1)))
    assert not structurally_equal(a, b)
    assert structurally_equal(a, parse(EVERYTHING.replace("%k.next", "%z9"), verify=False))


def test_a_use_may_stand_before_its_definition() -> None:
    text = """\
tir 1.0

define i32 @f(i32 %n) {
entry:
  br first
second:
  %b = add i32 %a, 1
  ret %b
first:
  %a = add i32 %n, 1
  br second
}
"""
    assert print_module(parse(text)) == text


def test_blocks_no_path_reaches_are_dropped_with_a_remark() -> None:
    text = "tir 1.0\n\ndefine void @f() {\nentry:\n  ret\ndead:\n  br dead\n}\n"
    module, remarks = parse_with_remarks(text)
    assert list(module.functions["f"].blocks) == ["entry"]
    assert [(r.code, r.location.line) for r in remarks if r.location] == [("TIR0024", 6)]


def test_aliases_are_read_and_not_printed() -> None:
    text = "tir 1.0\n\ndeclare half @f(float %x, double* %y, fp16<4> %z)\n"
    assert "f16 @f(f32 %x, f64* %y, f16<4> %z)" in print_module(parse(text))


@pytest.mark.parametrize(
    "header",
    [
        "f32 @f(f32 %x) ; keeps no global",
        'f32 @"a global constant"(f32 %x)',
        'f32 @f(f32 %x) loc("a global folder/f.py":1:2)',
        "private alwaysinline align 16 f32 @f(f32 %x) {global = 1}",
        "f32 @f(f32 %x) { constant = 1 }",
    ],
)
def test_a_declared_function_may_speak_of_globals(header: str) -> None:
    module = parse(f"tir 1.0\n\ndeclare {header}\n")
    assert len(module.functions) == 1
    assert print_module(parse(print_module(module))) == print_module(module)


@for_each("settings", ["", "private align 0x10 ", "weak ", "align 4 external "])
@for_each("kind", ["global", "constant"])
def test_a_declared_global_has_its_settings_before_its_kind(settings: str, kind: str) -> None:
    assert parse(f"tir 1.0\n\ndeclare {settings}{kind} f32 @x\n").globals["x"].external


def test_a_text_of_several_modules_is_split() -> None:
    text = "tir 1.0\n; -----\ntir 1.0\n\ndeclare void @g()\n"
    assert [list(m.functions) for m in parse_many(text)] == [[], ["g"]]
