"""Every rule of the verifier that text can break: code, line and column.

`«` marks where the diagnostic must point. Bodies stand in a kernel, devices in a module of their
own.
"""

from __future__ import annotations

import pytest

from tileir import TileirError, textual
from tileir.errors import Diagnostic, Severity
from tileir.verify import diagnose

from .clusters import RIGHT as CLUSTERS, WRONG as NO_CLUSTERS, WRONG_TWICE
from .shared_memory import RIGHT, WRONG as ALLOCATIONS

HEADER = "define kernel void @k(f32* %x, i32* %y, i32 %n, f32 %f, i1 %c) {\nentry:\n"


def body(text: str) -> str:
    return HEADER + text + "}\n"


def findings(marked: str) -> tuple[Diagnostic, ...]:
    """What reading and verifying `marked` reports, the marker taken out."""
    text = "tir 1.0\n\n" + marked.replace("«", "")
    try:
        return diagnose(textual.parse(text, verify=False))
    except TileirError as error:
        return error.diagnostics


def place(marked: str) -> tuple[int, int]:
    """Line and column of the marker."""
    before = ("tir 1.0\n\n" + marked).partition("«")[0]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


STRUCTURE = [
    ("TIR0226", "  br l\nl:\n  «br l {stages = 0}\n"),
    ("TIR0226", "  br l\nl:\n  «cond_br %c, l, out {unroll = -1}\nout:\n  ret\n"),
    ("TIR0201", "  «%a = add i32 %n, 1\n"),
    ("TIR0201", "  br next\nnext:\n  «store %x, %f\n"),
    ("TIR0201", "  br next\n«next:\n"),
    ("TIR0201", "  cond_br %c, next, last\n«next:\nlast:\n  ret\n"),
    ("TIR0202", "  «ret\n  %a = add i32 %n, 1\n  ret\n"),
    ("TIR0202", "  «br next\n  br next\nnext:\n  ret\n"),
    ("TIR0202", "  «unreachable\n  ret\n"),
    ("TIR0202", "  «cond_br %c, next, next\n  br next\nnext:\n  ret\n"),
    ("TIR0204", "  «br nowhere\n"),
    ("TIR0204", "  «cond_br %c, next, nowhere\nnext:\n  ret\n"),
    ("TIR0204", "  «cond_br %c, nowhere, next\nnext:\n  ret\n"),
    ("TIR0206", "  br next\nnext:\n  «br entry\n"),
    ("TIR0206", "  br next\nnext:\n  «cond_br %c, entry, last\nlast:\n  ret\n"),
    ("TIR0206", "  «br entry\n"),
    (
        "TIR0211",
        "  cond_br %c, a, b\na:\n  ret\nb:\n  «store %y, 0, %q\n  ret\n"
        "d:\n  %q = xor i1 %c, true\n  ret\n",
    ),
    ("TIR0215", "  «ret %n\n"),
    ("TIR0215", "  «ret %f, %n\n"),
]

DOMINANCE = [
    "  «%a = add i32 %b, 1\n  %b = add i32 %n, 1\n  ret\n",
    "  «%a = add i32 %a, 1\n  ret\n",
    "  «%a, %b = icmp (i1, i1) %n, %m {predicate = slt}\n  %m = add i32 %n, 1\n  ret\n",
    "  cond_br %c, a, b\na:\n  %v = add i32 %n, 1\n  br j\nb:\n  br j\nj:\n"
    "  «%w = add i32 %v, 1\n  ret\n",
    "  cond_br %c, a, b\na:\n  %v = add i32 %n, 1\n  ret\nb:\n  «store %y, %v\n  ret\n",
    "  br l\nl:\n  «cond_br %d, l, out\nout:\n  %d = xor i1 %c, true\n  ret\n",
    "  «br l\nl:\n  %i = phi i32 [%j, entry], [0, m]\n  %j = add i32 %i, 1\n  br m\nm:\n  br l\n",
    "  cond_br %c, a, b\na:\n  %v = xor i1 %c, true\n  br j\nb:\n  br j\nj:\n"
    "  «@%v %w = add i32 %n, 1\n  ret\n",
    "  br l\nl:\n  cond_br %c, body, out\nbody:\n  %v = add i32 %n, 1\n  br l\nout:\n"
    "  «store %y, %v\n  ret\n",
    "  cond_br %c, a, b\na:\n  %v = add i32 %n, 1\n  br j\nb:\n  «br j\nj:\n"
    "  %p = phi i32 [%v, a], [%v, b]\n  ret\n",
]

RECORD = "define i32 @sq(i32 %a) {\nentry:\n  %r = mul i32 %a, %a\n  ret %r\n}\n"
TWO = "define (i32, f32) @two(i32 %a, f32 %b) {\nentry:\n  ret %a, %b\n}\n"
MAX = "define f32 @max2(f32 %a, f32 %b) {\nentry:\n  %m = fmaximum f32 %a, %b\n  ret %m\n}\n"
CONSTANT = "constant f32 @table = 1.0\n"
PLACED = "constant addrspace(1) f32 @table = 1.0\n"
TABLE = "global f32<4> @table = [1.0, 2.0, 3.0, 4.0]\n"

SYMBOLS = [
    ("TIR0301", "", "  «%r = call i32 @nothing, %n\n  ret\n"),
    ("TIR0301", "", "  «call @nothing\n  ret\n"),
    ("TIR0301", "", "  «%p = global_address f32* @nothing\n  ret\n"),
    ("TIR0301", "", "  %t = splat f32<8> %f\n"
     "  «%s = reduce f32 %t {axis = 0, combiner = @nothing}\n  ret\n"),
    ("TIR0302", RECORD, "  «%p = global_address f32* @sq\n  ret\n"),
    ("TIR0303", RECORD, "  «%r = call i32 @sq\n  ret\n"),
    ("TIR0303", RECORD, "  «%r = call i32 @sq, %n, %n\n  ret\n"),
    ("TIR0303", TWO, "  «%r, %s = call (i32, f32) @two, %n\n  ret\n"),
    ("TIR0304", RECORD, "  «%r = call i32 @sq, %f\n  ret\n"),
    ("TIR0304", RECORD, "  «%r = call f32 @sq, %n\n  ret\n"),
    ("TIR0304", RECORD, "  «call @sq, %n\n  ret\n"),
    ("TIR0304", TWO, "  «%r, %s = call (f32, i32) @two, %n, %f\n  ret\n"),
    ("TIR0304", TWO, "  «%r = call i32 @two, %n, %f\n  ret\n"),
    ("TIR0305", RECORD, "  %t = splat f32<8> %f\n"
     "  «%s = reduce f32 %t {axis = 0, combiner = @sq}\n  ret\n"),
    ("TIR0305", MAX, "  %t = splat i32<8> %n\n"
     "  «%s = reduce i32 %t {axis = 0, combiner = @max2}\n  ret\n"),
    ("TIR0305", TWO, "  %t = splat f32<8> %f\n"
     "  «%s = scan f32<8> %t {axis = 0, combiner = @two}\n  ret\n"),
    ("TIR0305", MAX, "  %t = splat f32<8> %f\n"
     "  «%s, %u = reduce (f32, f32) %t, %t {axis = 0, combiner = @max2}\n  ret\n"),
    ("TIR0302", TABLE, "  «call @table\n  ret\n"),
    ("TIR0302", TABLE, "  %t = splat f32<8> %f\n"
     "  «%s = reduce f32 %t {axis = 0, combiner = @table}\n  ret\n"),
    ("TIR0304", TABLE, "  «%p = global_address i32* @table\n  ret\n"),
    ("TIR0304", TABLE, "  «%p = global_address f32** @table\n  ret\n"),
    ("TIR0304", TABLE, "  «%p = global_address f32 addrspace(4)* @table\n  ret\n"),
    ("TIR0101", TABLE, "  %p = global_address «f32 addrspace(0)* @table\n  ret\n"),
    ("TIR0304", CONSTANT, "  «%p = global_address f32* @table\n  ret\n"),
    ("TIR0304", PLACED, "  «%p = global_address f32 addrspace(4)* @table\n  ret\n"),
    ("TIR0305", "define f32 @mix(f32 %a, i32 %b) {\nentry:\n  ret %a\n}\n",
     "  %t = splat f32<8> %f\n  «%s = reduce f32 %t {axis = 0, combiner = @mix}\n  ret\n"),
    ("TIR0305", "define i32 @mix(f32 %a, f32 %b) {\nentry:\n  ret i32 1\n}\n",
     "  %t = splat f32<8> %f\n  «%s = reduce f32 %t {axis = 0, combiner = @mix}\n  ret\n"),
    ("TIR0309", "", "  «call @k, %x, %y, %n, %f, %c\n  ret\n"),
    ("TIR0309", "define kernel void @other() {\nentry:\n  ret\n}\n", "  «call @other\n  ret\n"),
]  # fmt: skip

MODULES = [
    # results
    ("TIR0216", "«define kernel i32 @f(i32 %n) {\nentry:\n  ret %n\n}\n"),
    ("TIR0215", "define i32 @f(i32 %n) {\nentry:\n  «ret\n}\n"),
    ("TIR0215", "define i32 @f(f32 %n) {\nentry:\n  «ret %n\n}\n"),
    ("TIR0215", "define (i32, f32) @f(i32 %n, f32 %x) {\nentry:\n  «ret %x, %n\n}\n"),
    ("TIR0215", "define (i32, f32) @f(i32 %n, f32 %x) {\nentry:\n  «ret %n\n}\n"),
    # parameters
    ("TIR0217", "define kernel void @f(f32<8> «%t) {\nentry:\n  ret\n}\n"),
    ("TIR0217", "define kernel void @f(f32*<8> «%t) {\nentry:\n  ret\n}\n"),
    ("TIR0217", "define void @f(void «%t) {\nentry:\n  ret\n}\n"),
    ("TIR0217", "define kernel void @f(token «%t) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(i32 aligned(16) «%n) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(f32 aligned(16) «%n) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(f32* aligned(12) «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(f32* aligned(3) «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(f32* multiple_of(16) «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(f32 multiple_of(16) «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(i32 multiple_of(-4) «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(f32* aligned(-16) «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(f32* readonly writeonly «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(i32 readonly «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define kernel void @f(f32 writeonly «%x) {\nentry:\n  ret\n}\n"),
    ("TIR0220", "define void @f(f32<4> noalias «%x) {\nentry:\n  ret\n}\n"),
    # functions
    ("TIR0221", "«define kernel align 12 void @f() {\nentry:\n  ret\n}\n"),
    ("TIR0221", "«define align 3 void @f() {\nentry:\n  ret\n}\n"),
    ("TIR0222", "«define kernel void @f() {num_warps = 0} {\nentry:\n  ret\n}\n"),
    ("TIR0222", "«define kernel void @f() {num_warps = -4} {\nentry:\n  ret\n}\n"),
    ("TIR0222", '«define kernel void @f() {num_warps = "four"} {\nentry:\n  ret\n}\n'),
    ("TIR0222", "«define kernel void @f() {num_warps = true} {\nentry:\n  ret\n}\n"),
    ("TIR0222", "«define kernel void @f() {num_ctas = 0} {\nentry:\n  ret\n}\n"),
    # globals
    ("TIR0307", "«global addrspace(4) f32 @x\ndefine void @f() {\nentry:\n  ret\n}\n"),
    ("TIR0307", "«constant addrspace(3) f32 @x\ndefine void @f() {\nentry:\n  ret\n}\n"),
    ("TIR0307", "«global addrspace(5) f32<4> @x = 1.0\ndefine void @f() {\nentry:\n  ret\n}\n"),
    ("TIR0307", "«declare global f32 @x = 1.0\ndefine void @f() {\nentry:\n  ret\n}\n"),
    ("TIR0221", "«align 3 global f32 @x\ndefine void @f() {\nentry:\n  ret\n}\n"),
    # recursion
    ("TIR0306", "define void @f() {\nentry:\n  «call @f\n  ret\n}\n"),
    ("TIR0306", "define void @f() {\nentry:\n  «call @g\n  ret\n}\n"
     "define void @g() {\nentry:\n  call @f\n  ret\n}\n"),
    ("TIR0306", "define f32 @f(f32 %a, f32 %b) {\nentry:\n  %t = splat f32<4> %a\n"
     "  «%r = reduce f32 %t {axis = 0, combiner = @f}\n  ret %r\n}\n"),
    ("TIR0306", "define void @f() {\nentry:\n  call @nothing\n  «call @f\n  ret\n}\n"
     "define void @g() {\nentry:\n  call @nothing\n  ret\n}\n"),
    # stages
    ("TIR0224", "define kernel void @f() {\nentry:\n  «gpu.barrier\n  ret\n}\n"),
    # private buffers
    ("TIR0234", 'stage "strip_mined"\ndefine void @f(private<f32<4>> «%b) {\nentry:\n  ret\n}\n'),
    ("TIR0234", 'stage "strip_mined"\ndefine void @f(i1 %c) {\nentry:\n'
     "  %a = gpu.private_alloc private<f32<4>>\n  br next\n«next:\n"
     "  %b = phi private<f32<4>> [%a, entry], [%b, next]\n"
     "  cond_br %c, next, out\nout:\n  ret\n}\n"),
]  # fmt: skip

CASES = [
    *((code, body(text)) for code, text in STRUCTURE),
    *(("TIR0212", body(text)) for text in DOMINANCE),
    *((code, before + body(text)) for code, before, text in SYMBOLS),
    *MODULES,
    *ALLOCATIONS,
    *NO_CLUSTERS,
]


@pytest.mark.parametrize(
    ("code", "marked"), CASES, ids=[f"{code}-{i}" for i, (code, _) in enumerate(CASES)]
)
def test_a_broken_rule_is_reported_where_it_is_broken(code: str, marked: str) -> None:
    diagnostics = [d for d in findings(marked) if d.severity is Severity.ERROR]
    places = [(d.code, d.location.line, d.location.column) for d in diagnostics if d.location]
    assert (code, *place(marked)) in places, "\n".join(map(str, diagnostics))


@pytest.mark.parametrize("text", [*RIGHT, *CLUSTERS])
def test_allocations_are_shared_where_they_are_not_live_at_once(text: str) -> None:
    assert not findings(text)


ARGMAX = "define (f32, i32) @argmax(f32 %a, i32 %i, f32 %b, i32 %j) {\nentry:\n  ret %a, %i\n}\n"
FINE = [
    (RECORD, "  %r = call i32 @sq, %n\n  ret\n"),
    (TWO, "  %r, %s = call (i32, f32) @two, %n, %f\n  ret\n"),
    (TABLE, "  %p = global_address f32* @table\n  %a = load f32 %p\n  ret\n"),
    ("constant f32<2> @c = 1.0\n", "  %p = global_address f32 addrspace(4)* @c\n  ret\n"),
    (PLACED, "  %p = global_address f32* @table\n  ret\n"),
    ("global addrspace(1) f32 @g\n", "  %p = global_address f32* @g\n  ret\n"),
    (MAX, "  %t = splat f32<8> %f\n  %s = reduce f32 %t {axis = 0, combiner = @max2}\n  ret\n"),
    (MAX, "  %t = splat f32<8> %f\n  %s = scan f32<8> %t {axis = 0, combiner = @max2}\n  ret\n"),
    (ARGMAX, "  %t = splat f32<8> %f\n  %r = make_range i32<8> {start = 0}\n"
     "  %s, %u = reduce (f32, i32) %t, %r {axis = 0, combiner = @argmax}\n  ret\n"),
    ("declare void @later(f32* %p)\n", "  call @later, %x\n  ret\n"),
    ("", "  br l\nl:\n  %i = phi i32 [0, entry], [%j, l]\n  %j = add i32 %i, 1\n"
     "  cond_br %c, l, out\nout:\n  store %y, %j\n  ret\n"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "text"), FINE)
def test_nothing_is_reported_of_modules_that_keep_the_rules(before: str, text: str) -> None:
    assert findings(before + body(text)) == ()


def test_an_op_is_wrong_once() -> None:
    """What is wrong with it on one path is enough."""
    arriving = [f for f in findings(WRONG_TWICE) if f.message.startswith("gpu.cluster_arrive")]
    assert len(arriving) == 1 and arriving[0].code == "TIR0229"
