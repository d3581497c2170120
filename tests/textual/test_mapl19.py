"""The spelling of the MAPL 2019 paper: what it may leave out or write otherwise, next to the
canonical text of the same; and its errors, at their places."""

from __future__ import annotations

import pytest

from tests.counting import grows_linearly
from tests.sizes import for_each
from tileir.compare import structurally_equal
from tileir.textual import parse, print_module

from .marked import check

PARAMETERS = "i32 %n, i32<8> %t, float* %p, float*<8> %q, i1<8> %m, float<8> %v, half<4,8> %h"
TYPES = "i32 %n, i32<8> %t, f32* %p, f32*<8> %q, i1<8> %m, f32<8> %v, f16<4, 8> %h"


def paper(*lines: str, results: str = "void") -> str:
    inside = "".join(f"  {line}\n" for line in lines)
    return f"define {results} @f({PARAMETERS}) {{\n{inside}}}\n"


def canonical(*lines: str, results: str = "void") -> str:
    inside = "".join(f"  {line}\n" for line in lines)
    return f"tir 1.0\ndefine {results} @f({TYPES}) {{\nentry:\n{inside}}}\n"


def same(text: str, expected: str) -> None:
    read = parse(text, dialect="mapl19")
    assert structurally_equal(read, parse(expected)), print_module(read)


@for_each(
    ("lines", "expected"),
    [
        # types that follow
        ("%x = add %n, 1", "%x = add i32 %n, 1"),
        ("%x = add i32 %n, 1;", "%x = add i32 %n, 1"),
        ("%x = add 1, %n", "%x = add i32 1, %n"),
        ("%x = add i32 1, 2", "%x = add i32 1, 2"),
        ("%x = load %q", "%x = load f32<8> %q"),
        ("%x = load %q, %m, 0", "%x = load f32<8> %q, %m, 0.0"),
        ("%x = load %q {cache = cg}", "%x = load f32<8> %q {cache = cg}"),
        ("%x = getelementptr %p, i32 4", "%x = getelementptr f32* %p, i32 4"),
        ("%x = getelementptr float* %p, i32 %n", "%x = getelementptr f32* %p, %n"),
        ("%x = select %m, %v, 0", "%x = select f32<8> %m, %v, 0.0"),
        # types written otherwise
        ("store float<8> %q, %v", "store %q, %v"),
        ("store %q, float<8> %v", "store %q, %v"),
        ("store float*<8> %q, 0", "store %q, 0.0"),
        ("%x = add double 1, 2", "%x = fadd f64 1.0, 2.0"),
        ("%x = add fp32<8> %v, %v", "%x = fadd f32<8> %v, %v"),
        # ops by what they do
        ("%x = max %v, 0", "%x = fmaximum f32<8> %v, 0.0"),
        ("%x = max %t, 0", "%x = smax i32<8> %t, 0"),
        ("%x = min %v, %v", "%x = fminimum f32<8> %v, %v"),
        ("%x = div %t, %t", "%x = sdiv i32<8> %t, %t"),
        ("%x = div %v, %v", "%x = fdiv f32<8> %v, %v"),
        ("%x = rem %n, 3", "%x = srem i32 %n, 3"),
        ("%x = sub %v, %v", "%x = fsub f32<8> %v, %v"),
        ("%x = mul %v, 2", "%x = fmul f32<8> %v, 2.0"),
        ("%x = neg %v", "%x = fneg f32<8> %v"),
        ("%x = fmul %v, %v", "%x = fmul f32<8> %v, %v"),
        ("%x = exp %v", "%x = exp f32<8> %v"),
        ("%x = make_range i32<8>", "%x = make_range i32<8>"),
        # retiling
        ("%x = reshape i32<8, 8> %n", "%x = splat i32<8, 8> %n"),
        ("%x = broadcast i32<8> %n", "%x = splat i32<8> %n"),
        ("%x = reshape <4> %n", "%x = splat i32<4> %n"),
        ("%x = reshape <1,8> %v", "%x = reshape f32<1, 8> %v"),
        ("%x = broadcast i32<8> %t\n  %y = add %x, 1", "%y = add i32<8> %t, 1"),
        ("%w = broadcast <8> %q\n  %x = load %w", "%x = load f32<8> %q"),
        ("@%m %x = broadcast i32<8> %t", "@%m %x = broadcast i32<8> %t"),
        ("%x = trans %h", "%x = trans f16<8, 4> %h {order = [1, 0]}"),
        ("%x = trans half<8,4> %h", "%x = trans f16<8, 4> %h {order = [1, 0]}"),
        ("%x = trans %h {order = [0, 1]}", "%x = trans f16<4, 8> %h {order = [0, 1]}"),
        (
            "%y = trans %h\n  %c = splat float<4,4> 0\n  %x = dot %h, %y, %c",
            "%y = trans f16<8, 4> %h {order = [1, 0]}\n  %c = splat f32<4, 4> 0.0\n"
            "  %x = dot f32<4, 4> %h, %y, %c",
        ),
        # comparisons
        ("%x = icmp slt %n, 5", "%x, _ = icmp (i1, i1) %n, 5 {predicate = slt}"),
        ("%x, %y = icmp slt %n, 5", "%x, %y = icmp (i1, i1) %n, 5 {predicate = slt}"),
        ("%x = icmp slt i32 %n, 5", "%x, _ = icmp (i1, i1) %n, 5 {predicate = slt}"),
        ("%x = icmp eq i32 5, 6", "%x, _ = icmp (i1, i1) i32 5, 6 {predicate = eq}"),
        ("%x = cmp ult %t, 5", "%x, _ = icmp (i1<8>, i1<8>) %t, 5 {predicate = ult}"),
        ("%x = cmp olt %v, 5", "%x, _ = fcmp (i1<8>, i1<8>) %v, 5.0 {predicate = olt}"),
        ("%x, %y = icmp olt %v, 5", "%x, %y = fcmp (i1<8>, i1<8>) %v, 5.0 {predicate = olt}"),
        ("%x = fcmp une %v, %v", "%x, _ = fcmp (i1<8>, i1<8>) %v, %v {predicate = une}"),
        (
            "%x, %y = icmp (i1, i1) %n, 5 {predicate = slt}",
            "%x, %y = icmp (i1, i1) %n, 5 {predicate = slt}",
        ),
        ("_, %y = icmp slt %n, 5", "_, %y = icmp (i1, i1) %n, 5 {predicate = slt}"),
        # predication
        ("@%m %x = add %t, 1", "@%m %x = add i32<8> %t, 1"),
        ("@%m store %q, %v", "@%m store %q, %v"),
        ("@true store %q, %v;", "@true store %q, %v"),
        (
            "%a, %b = icmp slt %t, 5\n  @%a %x = add %t, 1\n  @%b %y = sub %t, 1\n"
            "  %z = psi [%a, %x], [%b, %y]",
            "%a, %b = icmp (i1<8>, i1<8>) %t, 5 {predicate = slt}\n"
            "  @%a %x = add i32<8> %t, 1\n  @%b %y = sub i32<8> %t, 1\n"
            "  %z = psi i32<8> [%a, %x], [%b, %y]",
        ),
        # terminators
        ("ret", ""),
        ("ret void", ""),
    ],
)
def test_lines(lines: str, expected: str) -> None:
    same(paper(lines), canonical(*filter(None, [expected]), "ret"))


@pytest.mark.parametrize(
    ("line", "results"),
    [("ret i32 %n", "i32"), ("ret %n", "i32"), ("ret i32 3", "i32")],
)
def test_returns(line: str, results: str) -> None:
    value = "i32 3" if "3" in line.split()[-1] else "%n"
    same(paper(line, results=results), canonical(f"ret {value}", results=results))


@pytest.mark.parametrize("jump", ["br B", "br label %B", "br label B", "", "br B;"])
def test_jumps(jump: str) -> None:
    text = f"define void @f(i1 %c) {{\nA:\n  {jump}\nB:\n}}\n"
    same(text, "tir 1.0\ndefine void @f(i1 %c) {\nA:\n  br B\nB:\n  ret\n}\n")


@pytest.mark.parametrize(
    "jump", ["br %c, A, B", "br i1 %c, label %A, label %B", "cond_br %c, A, B", "br i1 %c, A, B;"]
)
def test_branches(jump: str) -> None:
    text = f"define void @f(i1 %c) {{\nE:\nA:\n  {jump}\nB:\n  ret void;\n}}\n"
    head = "tir 1.0\ndefine void @f(i1 %c) {\nE:\n  br A\nA:\n"
    same(text, f"{head}  cond_br %c, A, B\nB:\n  ret\n}}\n")


LOOP = """define void @f(float*<8> %p, i32<8> %d, i1 %c) {{
A:
  %x0 = load %p
B:
  {phi}
  %q1 = getelementptr %q, %d
  %x1 = load %q1
  br %c, B, C
C:
}}
"""
LOOP_TIR = """tir 1.0
define void @f(f32*<8> %p, i32<8> %d, i1 %c) {
A:
  %x0 = load f32<8> %p
  br B
B:
  %q = phi f32*<8> [%p, A], [%q1, B]
  %x = phi f32<8> [%x0, A], [%x1, B]
  %q1 = getelementptr f32*<8> %q, %d
  %x1 = load f32<8> %q1
  cond_br %c, B, C
C:
  ret
}
"""


@pytest.mark.parametrize(
    "phi",
    [
        "%q = phi [%p, A], [%q1, B]\n  %x = phi [%x0, A], [%x1, B]",
        "%q = phi [%q1, B], [%p, A];\n  %x = phi float<8> [%x0, A], [%x1, B];",
        "%q = phi float*<8> [%p, %A], [%q1, %B]\n  %x = phi [%x1, %B], [%x0, %A]",
    ],
)
def test_phis_take_the_type_that_is_known(phi: str) -> None:
    same(LOOP.format(phi=phi), LOOP_TIR)


CALLS = """tir 1.0
declare i32 @h()
declare i32 @g(i32 %x, f32 %y)
declare void @s(i32 %x)
define i32 @main(i32 %n) {
entry:
  %a = call i32 @h
  %b = call i32 @g, %n, f32 1.0
  call @s, %b
  ret %b
}
"""


def test_calls_declare_what_they_call() -> None:
    text = """define i32 @main(i32 %n) {
  %b = call i32 @g(call i32 @h(), 1.0);
  call void @s(%b);
  ret %b
}
"""
    expected = CALLS.replace("@g, %n", "@g, %a")
    read = parse(text, dialect="mapl19")
    assert structurally_equal(
        read.evolve(functions=dict(sorted(read.functions.items()))),
        (m := parse(expected)).evolve(functions=dict(sorted(m.functions.items()))),
    ), print_module(read)


@pytest.mark.parametrize(
    "calls",
    [
        ("call i32 @h()", "call i32 @g(%n, 1.0)", "call void @s(%b)"),
        ("call @h()", "call @g(i32 %n, float 1)", "call s(%b)"),
        ("call h()", "call i32 g(%n, 1)", "call @s, %b"),
    ],
)
def test_calls_of_declared_functions_need_no_types(calls: tuple[str, str, str]) -> None:
    a, b, c = calls
    body = f"  %a = {a};\n  %b = {b};\n  {c};\n  ret %b;\n}}\n"
    head = CALLS.partition("entry:\n")[0].removeprefix("tir 1.0\n")
    same(head + body, CALLS)


def test_a_result_that_is_not_named_is_not_used() -> None:
    same(
        "declare i32 @h()\ndefine void @f() {\n  call i32 @h();\n}\n",
        "tir 1.0\ndeclare i32 @h()\ndefine void @f() {\nentry:\n  _ = call i32 @h\n  ret\n}\n",
    )


def test_what_c_promises_of_parameters() -> None:
    same(
        "define kernel void @f(float* restrict read_only %a, half* write_only %b) {\n}\n",
        "tir 1.0\ndefine kernel void @f(f32* readonly noalias %a, f16* writeonly %b) {\n"
        "entry:\n  ret\n}\n",
    )


def test_a_fragment_is_a_function() -> None:
    same(
        "; c\n%r = make_range i32<8>;\n%s = add %r, 1;\n",
        "; c\ntir 1.0\ndefine void @fragment() {\nentry:\n  %r = make_range i32<8>\n"
        "  %s = add i32<8> %r, 1\n  ret\n}\n",
    )


def test_a_fragment_has_blocks() -> None:
    same(
        "  %r = program_id i32\n  B:\n  %s = add %r, 1",
        "tir 1.0\ndefine void @fragment() {\nentry:\n  %r = program_id i32\n  br B\nB:\n"
        "  %s = add i32 %r, 1\n  ret\n}\n",
    )


def test_comments_stay_and_line_ends_are_none() -> None:
    text = paper("; first", "%x = add %n, 1; ; not last;", "; gone with nothing", "%y = broadcast"
                 " i32<8> %t;", '%z = asm_ "x;";').replace('  %z = asm_ "x;";\n', "")  # fmt: skip
    (only, ret) = parse(text, dialect="mapl19").functions["f"].ops
    assert only.comments == ("first", "; not last;", "gone with nothing")
    assert ret.comments == ()


def test_places_of_ops_are_those_of_the_text() -> None:
    ops = parse(paper("", "  %x = add %n, 1;"), "f.tir", dialect="mapl19").functions["f"].ops
    assert [str(op.location) for op in ops] == ["f.tir:3:5", "f.tir:3:5"]


def test_globals_and_metadata_are_written_as_ever() -> None:
    same(
        "metadata {a = 1}\nconstant i32<2> @d = [1, 2]\ndefine void @f() {\n"
        "  %d = global_address i32 addrspace(4)* @d\n}\n".replace("'", '"'),
        "tir 1.0\nmetadata {a = 1}\nconstant i32<2> @d = [1, 2]\ndefine void @f() {\nentry:\n"
        "  %d = global_address i32 addrspace(4)* @d\n  ret\n}\n",
    )


WRONG_LINES = [
    ("TIR0001", "%x = §3"),
    ("TIR0001", "%x = add %n, 1 §2"),
    ("TIR0001", "%x = icmp slt %n, §"),
    ("TIR0001", "%x = call §3"),
    ("TIR0001", "%x = call i32 @g(%n§"),
    ("TIR0001", "br label §%"),
    ("TIR0001", "@%m %x = add %t, §{"),
    ("TIR0003", "%x = §ad %n, 1;"),
    ("TIR0003", "§stor %p, 1"),
    ("TIR0004", "%x = reshape i32<§0> %n"),
    ("TIR0005", "%x = add §%y, 1"),
    ("TIR0005", "@§%no %x = add %n, 1"),
    ("TIR0005", "%x = call i32 @g(call i32 @h(§%y))"),
    ("TIR0006", "§%n = add %n, 1"),
    ("TIR0006", "%x = add %n, 1\n  §%x = broadcast i32<8> %t"),
    ("TIR0007", "%x = add %n, §1.5"),
    ("TIR0007", "%x = splat i32<8> §1.5"),
    ("TIR0008", "%x = add §1, 2"),
    ("TIR0008", "%x = reshape §<8> 1"),
    ("TIR0008", "%x = add §%y, 1\n  %y = add %n, 1"),
    ("TIR0008", "%x = call i32 @g(§null)"),
    ("TIR0009", "%x = add %n, 1 {§overflo = nsw}"),
    ("TIR0010", "%x = §icmp %n, 1"),
    ("TIR0012", "%x = add %n§"),
    ("TIR0012", "%x = reshape i32<8>§"),
    ("TIR0013", "§add %n, 1"),
    ("TIR0013", "%x, %y = §add %n, 1"),
    ("TIR0013", "%x = reshape §%n"),
    ("TIR0013", "%x = call §@g(%n)"),
    ("TIR0013", "%x = call void §@g(%n)"),
    ("TIR0013", "%x = add %n, §call (i32, i32) @g()"),
    ("TIR0013", "%x, %y = add §i32 %n, 1"),
    ("TIR0013", "%x, %y, %z = §icmp slt %n, 1"),
    ("TIR0023", "%x = icmp §lt %n, 1"),
    ("TIR0023", "%x = icmp §slt %v, 1"),
    ("TIR0101", "%x = add %n, §%t"),
    ("TIR0101", "%x = add %n, §i64 %n"),
    ("TIR0101", "%x = dot §%t, %t, %t"),
    ("TIR0102", "%x = add §i64 %n, %n"),
    ("TIR0102", "store §i32 %p, 1.0"),
    ("TIR0102", "%x = icmp slt §i64 %n, %n"),
    ("TIR0102", "ret §i32"),
    ("TIR0104", "@§%m %x = add %n, 1"),
    ("TIR0114", "%x = trans %h {§order = [0]}"),
    ("TIR0112", "%x = broadcast §i32<3> %t"),
    ("TIR0112", "%x = reshape §i32<3> %t"),
]


@for_each(("code", "lines"), WRONG_LINES)
def test_errors_are_at_their_places(code: str, lines: str) -> None:
    check(code, paper(lines), "mapl19")


WRONG_MODULES = [
    ("TIR0001", "define void @f() {\n}\n§%x = add i32 1, 2\n"),
    ("TIR0005", "%x = add §%y, 1\n"),
    ("TIR0003", "§tir 1.0\n"),
    ("TIR0016", "define void @f() {\n  ret\n§"),
    ("TIR0023", "define void @f(float* §restrct %x) {\n}\n"),
    ("TIR0011", "define void @f(float* restrict §noalias %x) {\n}\n"),
    (
        "TIR0008",
        "define void @f(i1 %c) {\nA:\nB:\n  %x = phi §[%y, B], [0, A]\n"
        "  %y = add %x, 1\n  br B\n}\n",
    ),
    ("TIR0005", "define void @f(i1 %c) {\nA:\nB:\n  %x = phi i32 [§%y, B], [0, A]\n}\n"),
    (
        "TIR0015",
        "define void @f(i1 %c) {\nA:\nB:\n  %x = phi i32 [%y, B], [0, A]\n"
        "  §%y = add i64 1, 1\n  br B\n}\n",
    ),
    ("TIR0015", "define void @f() {\nA:\nB:\n  §%x = phi i32 [0, C]\n}\n"),
    ("TIR0017", "%x = " + "call i32 @f(" * 33 + "§call i32 @f(" + ")" * 34 + "\n"),
    ("TIR0215", "define i32 @f() {\n  §%x = add i32 1, 1\n}\n"),
    ("TIR0304", "declare i32 @g(i32 %x)\ndefine void @f() {\n  §%x = call @g(i64 1)\n}\n"),
]


@for_each(("code", "text"), WRONG_MODULES)
def test_errors_of_modules_are_at_their_places(code: str, text: str) -> None:
    check(code, text, "mapl19")


def test_reading_is_linear_in_the_text() -> None:
    def read(count: int) -> None:
        lines = "".join(f"  %x{i + 1} = add %x{i}, 1;\n" for i in range(count))
        parse(f"define void @f(i32 %x0) {{\n{lines}}}\n", dialect="mapl19")

    assert grows_linearly(read, 500)
