"""A line means the same read by the short cut and by the whole grammar (invariant 11)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tileir.compare import structurally_equal
from tileir.errors import TileirError
from tileir.ir import Module
from tileir.textual import parse, print_module
from tileir.textual.fast_reader import LINE, FastReader

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("examples/*.tir"), *ROOT.glob("tests/corpus/**/*.tir")]
TEXTS = [p.read_text() for p in sorted(FILES) if ".printed" not in p.name]

LINES = """
%a = add i32 %n, 1
%a = add i32 1, %n
%a = add i32 1, 2
@%c %a = add i32 %n, 1
@true %a = add i32 %n, 1
@%m %a = add i32<8> %t, %t {overflow = nsw}
%a, %b = icmp (i1, i1) %n, 3 {predicate = slt}
%a, _ = icmp (i1<8>, i1<8>) %t, 3 {predicate = slt}
_, %a = icmp (i1<8>, i1<8>) %t, 3 {predicate = slt}
_ = add i32 %n, 1
%a = fadd f32<8> %v, 0x7fc00001
%a = fadd f32<8> %v, nan
%a = fadd f32<8> undef, -inf
%a = load f32<8> %q
%a = load f32<8> %q, %m
%a = load f32<8> %q, %m, 0.0
%a = load f32<8> %q, none
store %q, %v
store %q, %v, %m
store %q, 1.5
@%m store %q, %v {cache = cg}
%a = call f32 @g, %n, 2.0
%a = call f32 @g, %n, f32 2.0
%a, %b = call (f32, i32) @two, %n
call @none
call @none2, %n, %v
call @true, %n
%a = psi i32<8> [%m, %t], [%m, %t]
%a = psi i32<8> [%m, 0], [true, %t]
%a = psi i32<8> [%m, %t]
%a = psi i32<8> [%m, %t], [%m]
%a = psi i32<8> [%m, %t, %m, %t]
%a = psi i32<8> %m, %t
%a = psi i32<8> [%m, 12
%a = psi i32<8> [true, %t], 3true, 5]
%a = psi i32<8> [%m, [%t]
%a = reduce f32 %v {combiner = fadd}
%a, %b = reduce (f32, i32) %v, %t {combiner = @pick}
%a = trans i32<8> %t {order = [0]}
%a = splat i32<8> 5
%a = make_range i32<8>
%a = global_address f32* @x
print %n
print %n, %t {prefix = "a"}
print
%a = extract_slice f32<4> %v, %n
%a = add i32 %n, 1 loc("k.py":3:4)
%a = add i32 %n, 1 {overflow = nsw} loc("k.py":3:4)
%a = add i32 %n, 1 loc("k\\".py":3:4)
%a = add i32 %n,  1
%a = add i32 %n, 1 ; comment
%a = add i32 %no, 1
%n = add i32 %n, 1
%a, %a = icmp (i1, i1) %n, 3 {predicate = slt}
%a = add i32 %n
%a = add i32 %n, %n, %n
%a = add i64 %n, %n
%a = fneg f32 %n
%a = nothing i32 %n
@%n %a = add i32 %n, 1
ret
ret %n
br next
br 12
br 0a
br "next"
cond_br %c, next, next
cond_br true, next, 12
cond_br %c, next
""".strip().split("\n")


def outcome(text: str) -> Module | list[tuple[str, str]]:
    """The module, or code and place of its errors."""
    try:
        return parse(text, "k.tir", verify=False)
    except TileirError as error:
        return [(d.code, str(d.location)) for d in error.diagnostics]


def alike(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    short = outcome(text)
    with monkeypatch.context() as patch:
        patch.setattr(FastReader, "read", lambda *_: None)
        patch.setattr(FastReader, "phi", lambda *_: None)
        whole = outcome(text)
    if isinstance(short, list) or isinstance(whole, list):
        assert short == whole
        return
    assert structurally_equal(short, whole) and print_module(short) == print_module(whole)
    for name, function in short.functions.items():
        other = whole.functions[name]
        assert [op.location for op in function.ops] == [op.location for op in other.ops]
        assert [op.comments for op in function.ops] == [op.comments for op in other.ops]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_files(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alike(text, monkeypatch)


HEAD = "tir 1.0\ndefine void @f(i32 %n, i1 %c, i32<8> %t, i1<8> %m, f32<8> %v, f32*<8> %q) {\n"


def around(line: str) -> str:
    return f"{HEAD}entry:\n  ; before\n  {line}\n  br next\nnext:\n  br 12\n12:\n  ret\n}}\n"


@pytest.mark.parametrize("line", LINES)
def test_lines(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alike(around(line), monkeypatch)


def _tight(line: str) -> str:
    return line.replace(", ", ",").replace(" = ", "=")


def _loose(line: str) -> str:
    return line.replace(",", "  ,").replace(" ", " \t ").replace("=", " =\r")


SPACES = {
    "tight": _tight,
    "loose": _loose,
    "a comment": lambda line: line + ' ; words, = "',
    "an empty comment": lambda line: line + ";",
    "spaces at the end": lambda line: line + "  \t",
    "at the margin": lambda line: line + "\r",
    "a vertical tab": lambda line: line.replace(" ", "\v", 1),
    "a wide space": lambda line: line.replace(", ", ",\u00a0", 1),
}


@pytest.mark.parametrize("spaces", SPACES)
@pytest.mark.parametrize("indent", ["", "  ", "\t", "      "])
def test_lines_with_other_spaces(spaces: str, indent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in LINES:
        text = around("LINE").replace("  LINE", indent + SPACES[spaces](line))
        alike(text, monkeypatch)


def test_other_spaces_take_the_short_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op with a comment, or spaced otherwise, is read by one expression as well."""
    monkeypatch.setattr("tileir.textual.statements.read_statement", lambda *_: None)
    for change in SPACES.values():
        line = change("%a = add i32 %n, 1")
        if line.isascii() and "\v" not in line:
            module = parse(around(line), verify=False)
            assert module.functions["f"].blocks["entry"].ops[0].mnemonic == "add"


LITERAL_FIRST = re.compile(r"(@\S+ )?%\w+ = \w+ \S+ (-?\d|undef)|.* f32 2\.0")
"""Lines whose first operand is a literal, or one with its type: for the whole grammar."""


def left_over(text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ops and phis of `text` that the short cut might take and does not."""
    found: list[str] = []
    whole = {"read": FastReader.read, "phi": FastReader.phi}

    def read(reader: FastReader, match: re.Match[str], *rest: Any) -> Any:
        made = whole["read"](reader, match, *rest)
        return made or (found.append(match[0].strip()) if match[3] != "phi" else None)

    def phi(reader: FastReader, match: re.Match[str], *rest: Any) -> Any:
        return whole["phi"](reader, match, *rest) or found.append(match[0].strip())

    with monkeypatch.context() as patch:
        patch.setattr(FastReader, "read", read)
        patch.setattr(FastReader, "phi", phi)
        parse(text, verify=False)
    return found


@pytest.mark.parametrize("line", [li for li in LINES if isinstance(outcome(around(li)), Module)])
def test_what_the_printer_writes_takes_it(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = line in print_module(parse(around(line), verify=False))
    taken = printed and not LITERAL_FIRST.match(line)
    assert not taken or not left_over(around(line), monkeypatch)


NAMESAKES = """\
tir 1.0

define void @f(i32 %n, i32 %nn, i32 %m, i32 %mm, i1 %c) {
entry:
  %x = add i32 %nn, %n
  %xx = add i32 %n, %nn
  %w = add i32 %x, 7
  cond_br %c, a, aa
a:
  br aa
aa:
  %s = phi i32 [%xx, entry], [%x, a]
  %t = phi i32 [7, entry], [%mm, a]
  %u = phi i32 [%nn, entry], [17, a]
  %ss = add i32 %s, %t
  %uu = add i32 %u, %ss
  print %uu, %w
  ret
}
"""


def test_values_whose_names_end_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    alike(NAMESAKES, monkeypatch)
    assert print_module(parse(NAMESAKES)) == NAMESAKES
    assert left_over(NAMESAKES, monkeypatch) == []


@pytest.mark.parametrize(
    "phis",
    [
        "  %k = phi i32 [%n, entry]\n",
        "  ; c\n  %k = phi i32 [1, entry]\n  %l = phi i1 [%c, entry]\n",
        "  %k = phi i32 [%n, entry], [%n, entry]\n",
        "  %k = phi i32 [%c, entry]\n",
        "  %k = phi i32 [%n, other]\n",
        "  %k = phi i32 [true, entry]\n",
        "  %n = phi i32 [%n, entry]\n",
        "  _ = phi i32 [%n, entry]\n",
        "  %k, %l = phi (i32, i32) [%n, entry]\n",
        "  %k = phi i32 [%n entry]\n",
        "  %k = phi i32 [%z, entry]\n",
        "  @%c %k = phi i32 [%n, entry]\n",
        "  %k = phi i32 [%n, entry] {a = 1}\n",
        '  %k = phi i32 [%n, entry] loc("a":1:2)\n',
        "  %k = phi i32\n",
        "  %z = add i32 %n, 1\n  %k = phi i32 [%n, entry]\n",
    ],
)
def test_phis(phis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alike(f"{HEAD}entry:\n  br next\nnext:\n{phis}  ret\n}}\n", monkeypatch)


def test_most_lines_take_it() -> None:
    lines = [line for text in TEXTS for line in text.split("\n") if line.startswith("  %")]
    taken = [LINE.match(line + "\n") is not None for line in lines]
    assert sum(taken) >= 0.9 * len(taken) > 100
