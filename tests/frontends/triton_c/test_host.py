"""Statements outside of functions: every operator and statement against what C computes, and what
they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.triton_c import parse

KERNEL = "kernel void k(int* out) { int i[4] = 0 ... 4; *(out + i) = *(d + i); }"


def left(statements: str, **constants: Any) -> list[int]:
    """What statements leave in four numbers that were 0."""
    text = f"__constant__ int* d = alloc_const int[4]; {statements}\n{KERNEL}"
    out = np.full(4, -1, np.int32)
    parse(text).kernel()[(1,)](out, on="interpreter", constants=constants)
    return out.tolist()


def error_of(statements: str, **constants: Any) -> tuple[str, int]:
    """The code and line of the error that statements are."""
    text = f"__constant__ int* d = alloc_const int[4]; int i = 2;\n{statements}\n{KERNEL}"
    with pytest.raises(TileirError) as caught:
        parse(text, "f.c").module(constants=constants)
    return caught.value.code, caught.value.line or 0


BOTH_WAYS: dict[str, tuple[int, int]] = {
    "d[0] = i > 2 ? 5 : 6;": (5, 6), "d[0] = i > 2 ? (i > 3 ? 1 : 7) : i < 2 ? 8 : 9;": (7, 9),
    "if (i > 2) d[0] = 5; else d[0] = 6;": (5, 6), "if (i > 2) d[0] = 5;": (5, 0),
    "if (i > 2) { d[0] = 5; } else if (i > 1) { d[0] = 6; } else { d[0] = 7; }": (5, 6),
    "while (i > 2) { d[0] = i; i--; }": (3, 0), "do { d[0] = i; i--; } while (i > 2);": (3, 2),
    "for (; i > 2; i--) d[0] += i;": (3, 0), "d[0] = (i > 2) + 10 * !(i > 2);": (1, 10),
    "d[0] = i > 2 && i < 9; d[0] += 10 * (i > 9 || i == 2);": (1, 10),
    "if (i == 3) for (int k = 0; k < 3; k++) d[0] += k;": (3, 0),
    "d[0] = i == 3 ? true : false;": (1, 0), "d[0] = i != 2 ? -i : ~i;": (-3, -3),
    "d[0] = i - 3 ? 1 : 2;": (2, 1), "if (i - 3) d[0] = 1; else d[0] = 2;": (2, 1),
}  # fmt: skip
"""Statements, and the number that they leave where i is 3 and where it is 2."""


@for_each("statements", BOTH_WAYS)
def test_either_side_of_a_condition_is_executed(statements: str) -> None:
    assert tuple(left(f"int i = {i}; {statements}")[0] for i in (3, 2)) == BOTH_WAYS[statements]


@for_each(("target", "code"), [
    ("*d", "TIR1001"), ("3", "TIR1001"), ("(-i)", "TIR1001"), ("(i, i)", "TIR1001"),
    ("(i + 1)", "TIR1001"), ("(i++)", "TIR1001"), ("z", "TIR1002"), ("z[0]", "TIR1002"),
    ("i[0]", "TIR1003"), ("3[0]", "TIR1003"), ("d", "TIR1003"), ("d[1.5]", "TIR1003"),
    ("n[0]", "TIR1003"), ("n", "TIR1003"), ("d[4]", "TIR1003"), ("d[-1]", "TIR1003"),
    ("d[0, 1]", "TIR1003"), ("f(3)", "TIR1001"),
])  # fmt: skip
@for_each("change", ["{} = 3;", "{} += 3;", "{}++;", "--{};"])
def test_only_declared_numbers_and_elements_of_constants_change(
    target: str, code: str, change: str
) -> None:
    """Arrays of the caller are read and left alone, also by what is refused."""
    n = np.arange(4, dtype=np.int8)
    assert error_of(change.format(target), n=n) == (code, 2)
    assert n.tolist() == [0, 1, 2, 3]


@for_each("kind", [np.int8, np.uint8, np.int32, np.int64, np.float32])
def test_numbers_of_the_caller_are_read_without_their_width(kind: Any) -> None:
    """Elements of arrays are numbers of the host, which are wider than a byte."""
    n = np.array([100, 3, 120], kind)
    assert left("d[0] = n[0] + n[2]; d[1] = n[1] * m; d[2] = n[0] * n[2];", n=n, m=7) == [
        220, 21, 12000, 0
    ]  # fmt: skip
    assert n.tolist() == [100, 3, 120]


@for_each("statement", [
    "d[0] = n[0][1];", "d[0] = n[3];", "d[0] = n[0];", "d[0] = m + 1;", "d[0] = m;", "d[0] = -m;",
    "return;", "@(1) d[0] = 1;", "d[0] = 0 ... 3;", "d[0] = d[:];", "d[0] = f(1);", "d[0] = *d;",
    "void v;", "int v[3];", "int* v = 3;", "d[0] = (int*)3;", "d[0] = (int[2])3;", "d[0] = 1 / 0;",
    "d[0] = 1 % 0;", "d[0] = 2.5 << 1;", "d[0] = ~2.5;", "d[0] = 1.5 & 1;", "i = 1 << 64;",
    "i = 1 << 0 - 1;", "d[0] = 1.0 / 0;",
])  # fmt: skip
def test_what_is_no_number_of_the_host_is_an_error_at_its_line(statement: str) -> None:
    code, line = error_of(statement, n=np.ones((1, 2), np.int32), m="a word")
    assert line == 2 and code in ("TIR1001", "TIR1003")


@for_each(("text", "name"), [
    ("int f(int a) { return 1; }\nint f(int a) { return 2; }", "f"),
    ("const tunable int N = {1};\nconst tunable int N = {2};", "N"),
    ("const tunable int N = {1};\ntunable const int N = {2};", "N"),
    ("__constant__ int* e = alloc_const int[4];\n__constant__ int* e = alloc_const int[4];", "e"),
    ("const tunable int N = {1};\n__constant__ int* N = alloc_const int[4];", "N"),
    ("const tunable int N = {1};\nint N(int a) { return a; }", "N"),
    ("__constant__ int* e = alloc_const int[4];\nint e(int a) { return a; }", "e"),
])  # fmt: skip
def test_names_outside_of_functions_are_defined_once(text: str, name: str) -> None:
    with pytest.raises(TileirError, match=f"{name} is defined twice") as caught:
        parse(f"{text}\nkernel void k(int* out) {{ *out = 1; }}", "f.c")
    assert (caught.value.code, caught.value.line) == ("TIR1002", 2)
    first, second = text.split("\n")
    second = second.replace(f" {name} ", " other ").replace(f" {name}(", " other(")
    parse(f"{first}\n{second}\nkernel void k(int* out) {{ *out = 1; }}").module()


@for_each(("kind", "numbers"), [
    ("bool", [1, 0, 1, 1]), ("char", [44, 0, -56, 2]), ("unsigned char", [44, 0, 200, 2]),
    ("short", [300, 0, 200, 2]), ("int", [300, 0, 200, 2]), ("float", [300, 0, 200, 2.5]),
    ("double", [300, 0, 200, 2.5]), ("half", [300, 0, 200, 2.5]), ("long", [300, 0, 200, 2]),
])  # fmt: skip
def test_constants_variables_and_casts_of_the_host_have_their_type(
    kind: str, numbers: list[float]
) -> None:
    wide = "double" if kind in ("half", "float", "double") else "long"
    body = " ".join(
        f"c[{i}] = {n}; v = {n}; c[{i + 4}] = v; w[{i}] = ({kind}){n};"
        for i, n in enumerate((300, 0, 200, 2.5))
    )
    text = f"""__constant__ {kind}* c = alloc_const {kind}[8];
    __constant__ {wide}* w = alloc_const {wide}[4]; {kind} v; {body}
    kernel void k({wide}* out) {{ int i[8] = 0 ... 8; int j[4] = 0 ... 4;
        *(out + i) = *(c + i); *(out + 8 + j) = *(w + j); }}"""
    out = np.zeros(12, np.float64 if wide == "double" else np.int64)
    parse(text).kernel()[(1,)](out, on="interpreter")
    assert out.tolist() == numbers * 3
