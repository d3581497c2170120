"""Every error of the reader, with the place it is reported at.

`§` marks where the error stands; it is taken out before the text is read.
"""

from __future__ import annotations

import pytest

from tileir.errors import ParseError
from tileir.textual import parse

HEAD = "tir 1.0\n\n"


def body(*lines: str, params: str = "i32 %n, i32<8> %t, f32* %p, i1<8> %m") -> str:
    """A device function of these lines."""
    inside = "".join(f"  {line}\n" for line in lines)
    return f"{HEAD}define void @f({params}) {{\nentry:\n{inside}  ret\n}}\n"


MODULES = [
    # the version
    ("TIR0002", "§"),
    ("TIR0002", "§define void @f() {\nentry:\n  ret\n}\n"),
    ("TIR0002", "tir §one\n"),
    ("TIR0002", "tir §1\n"),
    ("TIR0001", "tir 1.0§.0\n"),
    ("TIR0002", "tir §0.9\n"),
    ("TIR0402", "tir §1.99\n"),
    ("TIR0402", "tir §2.0\n"),
    ("TIR0001", "tir 1.0 §extra\n"),
    # module level
    ("TIR0001", HEAD + "§nonsense\n"),
    ("TIR0001", HEAD + "§%x = add i32 1, 2\n"),
    ("TIR0001", HEAD + "metadata §3\n"),
    ("TIR0001", HEAD + "metadata {a §3}\n"),
    ("TIR0001", HEAD + "metadata {a = §?}\n"),
    ("TIR0001", HEAD + "metadata {a = [1, §x]}\n"),
    ("TIR0001", HEAD + "metadata {a = 1 §b = 2}\n"),
    ("TIR0011", HEAD + "metadata {a = 1, §a = 2}\n"),
    ("TIR0007", HEAD + 'metadata {a = §"\\q"}\n'),
    ("TIR0001", HEAD + "§stage\n".replace("§stage", "stage §")),
    ("TIR0001", HEAD + "#l = §3\n"),
    ("TIR0701", HEAD + "#l = §layout(nonsense)\n"),
    ("TIR0022", HEAD + "declare void @f(f32<4, §#l> %x)\n"),
    # globals
    ("TIR0001", HEAD + "global f32 §x\n"),
    ("TIR0004", HEAD + "global §f33 @x\n"),
    ("TIR0004", HEAD + "global §f32<2, 2> @x\n"),
    ("TIR0007", HEAD + "global i8 @x = §256\n"),
    ("TIR0001", HEAD + "global i8 @x = §%v\n"),
    ("TIR0012", HEAD + "global i8<3> @x = [1, 2]§\n"),
    ("TIR0011", HEAD + "private §public global i8 @x\n"),
    ("TIR0019", HEAD + "global i8 @x\n§global i8 @x\n"),
    # headers
    ("TIR0001", HEAD + "define void §f() {\n}\n"),
    ("TIR0001", HEAD + "define void @f§ {\n}\n".replace("@f§ {", "@f §{")),
    ("TIR0001", HEAD + "define void @f(i32 §) {\nentry:\n  ret\n}\n"),
    ("TIR0023", HEAD + "define void @f(i32 §fast %x) {\nentry:\n  ret\n}\n"),
    ("TIR0011", HEAD + "define void @f(f32* readonly §readonly %x) {\nentry:\n  ret\n}\n"),
    ("TIR0001", HEAD + "define void @f(f32* aligned §16 %x) {\nentry:\n  ret\n}\n"),
    ("TIR0006", HEAD + "define void @f(i32 %x, i32 §%x) {\nentry:\n  ret\n}\n"),
    ("TIR0004", HEAD + "define §(void, i32) @f() {\nentry:\n  ret\n}\n"),
    ("TIR0011", HEAD + "define kernel §kernel void @f() {\nentry:\n  ret\n}\n"),
    ("TIR0019", HEAD + "declare void @f()\n§declare void @f()\n"),
    # bodies
    ("TIR0016", HEAD + "define void @f() {\nentry:\n  ret\n§"),
    (
        "TIR0016",
        HEAD + "define void @f() {\nentry:\n  ret\n§define void @g() {\nentry:\n  ret\n}\n",
    ),
    ("TIR0020", HEAD + "define void @f() {\n  §ret\n}\n"),
    ("TIR0020", HEAD + "define void @f() {\n}§\n"),
    ("TIR0014", HEAD + "define void @f() {\na:\n  br a\n§a:\n  ret\n}\n"),
    ("TIR0017", HEAD + "declare void @f(f32" + "*" * 256 + "§" + "* %p)\n"),
    ("TIR0017", "§" + ";" * (1 << 20) + ";\ntir 1.0\n"),
    ("TIR0021", HEAD + "; a §\0 b\n"),
]

LINES = [
    # operands
    ("TIR0005", "%x = add i32 §%y, 1"),
    ("TIR0005", "%x = add i32 %n, §%y"),
    ("TIR0006", "§%n = add i32 %n, 1"),
    ("TIR0006", "%a, §%a = icmp (i1, i1) %n, 1 {predicate = eq}"),
    ("TIR0012", "%x = add i32 %n§"),
    ("TIR0012", "%x = add i32 %n, 1, §2"),
    ("TIR0012", "store %p§"),
    ("TIR0012", "%x = add i32 %n §%n"),
    ("TIR0001", "%x = add i32 %n, §?"),
    ("TIR0001", "%x = add i32 %n, §@f"),
    ("TIR0001", "%x §add i32 %n, 1"),
    ("TIR0001", "%x = §3"),
    ("TIR0001", "§= add i32 %n, 1"),
    ("TIR0003", "%x = §ad i32 %n, 1"),
    ("TIR0003", "§stor %p, 1.0"),
    # literals
    ("TIR0007", "%x = add i32 %n, §4294967296"),
    ("TIR0007", "%x = add i32 %n, §-2147483649"),
    ("TIR0007", "%x = add i32 %n, §1.5"),
    ("TIR0007", "%x = add i32 %n, §true"),
    ("TIR0007", "%x = add i32 %n, §null"),
    ("TIR0007", "%x = add i32 %n, §inf"),
    ("TIR0007", "%x = add i32 %n, §0x1ffffffff"),
    ("TIR0007", "%x = add i32 %n, i32 §1.5"),
    ("TIR0007", "%x = add i32 %n, §" + "9" * 100),
    ("TIR0008", "%q = getelementptr f32* %p, §4"),
    ("TIR0008", "%a, %b = icmp (i1, i1) §1, 2 {predicate = eq}"),
    ("TIR0001", "%x = add i32 %n, i32 §%n"),
    # types
    ("TIR0004", "%x = add §i33 %n, 1"),
    ("TIR0004", "%x = add i32<§0> %n, 1"),
    ("TIR0004", "%x = splat i32<§-4> %n"),
    ("TIR0001", "%x = splat i32<§> %n"),
    ("TIR0001", "%x = splat i32<4 §%n"),
    ("TIR0001", "%x = splat i32<§a> %n"),
    ("TIR0001", "%q = bitcast f32 addrspace§ %p".replace("§ %p", " §%p")),
    ("TIR0004", "%q = bitcast f32 addrspace(§2)* %p"),
    ("TIR0004", "%q = bitcast tensor_desc<§f32> %p"),
    ("TIR0101", "%x = add i32 %n, §%t"),
    ("TIR0101", "%x = fadd i32 §%n, %n"),
    ("TIR0101", "%v = load f32 §%n"),
    ("TIR0102", "%x = add §i64 %n, %n"),
    ("TIR0102", "%v = load §i32 %p"),
    # results
    ("TIR0013", "§add i32 %n, 1".replace("i32 %n, 1", "%n, %n")),
    ("TIR0013", "%x, %y = add §i32 %n, 1"),
    ("TIR0013", "%a = icmp §(i1, i1) %n, 1 {predicate = eq}"),
    ("TIR0001", "%x = store §%p, 1.0"),
    # attributes
    ("TIR0009", "%x = add i32 %n, 1 {§overflo = nsw}"),
    ("TIR0010", "%a, %b = §icmp (i1, i1) %n, 1"),
    ("TIR0011", "%x = add i32 %n, 1 {overflow = nsw, §overflow = nuw}"),
    ("TIR0023", "%x = add i32 %n, 1 {overflow = §nsww}"),
    ("TIR0001", "%x = add i32 %n, 1 {overflow §nsw}"),
    ("TIR0001", "%x = add i32 %n, 1 {overflow = §}"),
    ("TIR0001", "%x = program_id i32 {axis = §x}"),
    ("TIR0001", "%v = load f32 %p {volatile = §1}"),
    # predicates, places, ends of lines
    ("TIR0005", "@§%q %x = add i32 %n, 1"),
    ("TIR0007", "@§3.x %x = add i32 %n, 1"),
    ("TIR0104", "@§%n %x = add i32 %n, 1"),
    ("TIR0103", "@§true ret"),
    ("TIR0001", "%x = add i32 %n, 1 loc §3"),
    ("TIR0001", '%x = add i32 %n, 1 loc("f":3§)'),
    ("TIR0001", "%x = add i32 %n, 1 {} §%n"),
    # phis and pairs
    ("TIR0018", "%a = add i32 %n, 1\n  %k = §phi i32 [%n, entry]"),
    ("TIR0001", "%x = psi i32<8> §%m, %t"),
    ("TIR0001", "%x = psi i32<8> [%m §%t]"),
    ("TIR0001", "%x = psi i32<8> [%m, %t§"),
    ("TIR0012", "br§"),
    ("TIR0001", "%y = call f32 §f, %n"),
]


def check(code: str, marked: str) -> None:
    """Reading `marked` without its mark reports `code` first, at the mark."""
    before = marked.index("§")
    text = marked.replace("§", "")
    with pytest.raises(ParseError) as caught:
        parse(text, "x.tir")
    line = marked.count("\n", 0, before) + 1
    column = before - marked.rfind("\n", 0, before)
    first = caught.value
    assert (first.code, first.line, first.column) == (code, line, column), str(first)


@pytest.mark.parametrize(("code", "marked"), MODULES)
def test_modules(code: str, marked: str) -> None:
    check(code, marked)


@pytest.mark.parametrize(("code", "line"), LINES)
def test_lines(code: str, line: str) -> None:
    check(code, body(line))


def loop(phi: str, first: str = "") -> str:
    """A loop with one phi."""
    return (
        f"{HEAD}define void @f(i32 %n, i1 %c) {{\nentry:\n{first}  br loop\nloop:\n  {phi}\n"
        "  %next = add i32 %k, 1\n  cond_br %c, loop, exit\nexit:\n  ret\n}\n"
    )


@pytest.mark.parametrize(
    ("code", "marked"),
    [
        ("TIR0015", loop("§%k = phi i32 [%n, entry]")),
        ("TIR0015", loop("§%k = phi i32 [%n, entry], [%next, loop], [%n, exit]")),
        ("TIR0015", loop("§%k = phi i32 [%n, entry], [%next, loop], [%n, nowhere]")),
        ("TIR0015", loop("%k = phi i32 [%n, entry], [%n, §entry], [%next, loop]")),
        ("TIR0015", loop("%k = phi i32 [§%c, entry], [%next, loop]")),
        ("TIR0005", loop("%k = phi i32 [§%no, entry], [%next, loop]")),
        ("TIR0007", loop("%k = phi i32 [§1.5, entry], [%next, loop]")),
        ("TIR0001", loop("%k = phi i32 §%n")),
        ("TIR0001", loop("%k = phi i32 [%n §entry]")),
        ("TIR0001", loop("%k = phi i32 [%n, §]")),
        ("TIR0013", loop("%k, §%j = phi i32 [%n, entry], [%next, loop]")),
    ],
)
def test_phis(code: str, marked: str) -> None:
    check(code, marked)


def test_several_errors_in_one_run() -> None:
    text = body("%x = ad i32 %n, 1", "%y = add i32 %x, 1", "%z = add i32 %gone, 1", "%x = add i8 1")
    with pytest.raises(ParseError) as caught:
        parse(text)
    found = [(d.code, d.location.line) for d in caught.value.diagnostics if d.location]
    assert found == [("TIR0003", 5), ("TIR0005", 7), ("TIR0012", 8)]


def test_errors_in_two_functions() -> None:
    one = body("%x = ad i32 %n, 1")
    with pytest.raises(ParseError) as caught:
        parse(one + one.replace("tir 1.0\n", "").replace("@f", "@g"))
    assert [d.code for d in caught.value.diagnostics] == ["TIR0003", "TIR0003"]


def test_a_second_definition_points_at_the_first() -> None:
    with pytest.raises(ParseError) as caught:
        parse(body("%x = add i32 %n, 1", "%x = add i32 %n, 2"))
    (note,) = caught.value.diagnostics[0].notes
    assert note.location is not None
    assert (note.location.line, note.location.column) == (5, 3)


def test_near_names_are_suggested() -> None:
    with pytest.raises(ParseError, match="did you mean `splat`"):
        parse(body("%x = splatt i32<8> %n"))


def test_errors_in_older_spellings_are_at_the_line_of_the_text() -> None:
    text = "def void f(i32 N)\n{\nentry:\n%0 = add i32 N, 1.5;\nret void;\n}\n"
    with pytest.raises(ParseError) as caught:
        parse(text, dialect="triton1")
    assert (caught.value.code, caught.value.line, caught.value.column) == ("TIR0007", 4, 1)


def test_ops_of_older_spellings_are_at_the_line_of_the_text() -> None:
    text = "def void f(i32 N)\n{\nentry:\n%0 = add i32 N, 1;\nret void;\n}\n"
    ops = parse(text, "k", dialect="triton1").functions["f"].ops
    assert [op.location.line for op in ops if op.location] == [4, 5]


def test_the_first_definition_in_an_older_spelling_is_at_its_line() -> None:
    text = "def void f(i32 N)\n{\nentry:\n%0 = add i32 N, 1;\n  %0 = add i32 N, 1;\nret void;\n}\n"
    with pytest.raises(ParseError) as caught:
        parse(text, dialect="triton1")
    (note,) = caught.value.diagnostics[0].notes
    assert (caught.value.line, caught.value.column) == (5, 3)
    assert note.location is not None and (note.location.line, note.location.column) == (4, 1)
