"""Texts that would take Python, memory or time without end: located errors of every frontend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.sizes import for_each
from tileir import Location, TileirError, textual
from tileir.builder import Builder
from tileir.frontends import decoupled, tensor_comprehensions, tile, triton_c, ttir
from tileir.frontends.numerals import MOST_DIGITS, long_number
from tileir.frontends.ttir.nodes import Function
from tileir.frontends.ttir.program import _check_parameters
from tileir.types import F32, I32

DIGITS = "1" * 5000

TEXTS: dict[str, Callable[[str], Any]] = {
    "TTIR type": lambda n: ttir.read(
        f"module {{ tt.func public @k(%x: tensor<{n}xf32>) {{\n tt.return }} }}"
    ),
    "TTIR constant": lambda n: ttir.read(
        f"module {{\n tt.func public @k() {{\n %c = arith.constant {n} : i32\n tt.return\n }}\n}}\n"
    ),
    "TTIR attribute": lambda n: ttir.read(
        "module {\n tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = "
        + n
        + " : i32}) {\n tt.return\n }\n}\n"
    ),
    "TTIR location": lambda n: ttir.read(
        "module {\n tt.func public @k(%x: !tt.ptr<i32>) {\n %c = arith.constant 1 : i32 "
        f'loc("a":{n}:1)\n tt.store %x, %c : !tt.ptr<i32>\n tt.return\n }}\n}}\n'
    ),
    "Tile offset": lambda n: tile.parse(
        "function (A[M]) -> (O) { O[i: M] = +(A[i + " + n + "]); }"
    ).compile((F32, (3,))),
    "Tile constant": lambda n: tile.parse(
        "function (A[M]) -> (O) { B = A * " + n + "; O[i: M] = +(B[i]); }"
    ).compile((F32, (3,))),
    "Tensor Comprehensions": lambda n: tensor_comprehensions.parse(
        "def f(float(M) A) -> (C) { C(m) = A(m) + " + n + " where m in 0:" + n + " }"
    ),
    "Triton-C": lambda n: triton_c.parse("kernel void k(float* x) { int y = " + n + "; }").module(),
    "Triton-C macro": lambda n: triton_c.parse(
        f"#define N {n}\nkernel void k(float* x) {{ int y = N; }}"
    ).module(),
    "Triton-C condition": lambda n: triton_c.parse(
        f"#if {n}\n#endif\nkernel void k(float* x) {{ }}"
    ).module(),
    "Decoupled": lambda n: decoupled.parse(f"tensor A i j\nB = A[i, j] * {n}\n"),
}


@for_each("name", TEXTS)
def test_numbers_of_thousands_of_digits(name: str) -> None:
    with pytest.raises(TileirError) as caught:
        TEXTS[name](DIGITS)
    assert caught.value.diagnostics[0].location is not None
    assert caught.value.code.startswith("TIR1")


@pytest.mark.parametrize("name", TEXTS)
def test_numbers_that_python_converts_raise_nothing_else(name: str) -> None:
    for digits in (20, MOST_DIGITS):
        with contextlib.suppress(TileirError):
            TEXTS[name]("9" * digits)


def test_a_long_number_has_a_place() -> None:
    text = "a\nbc " + "0" * (MOST_DIGITS + 1)
    assert long_number(text) == (2, 4) and long_number(text[:-1]) is None
    assert long_number(f"first\n{text}\n{text}") == (3, 4)
    assert long_number("0" * (MOST_DIGITS + 2)) == (1, 1)


NESTED = {
    "pointers": "!tt.ptr<" * 1000 + "f32" + ">" * 1000,
    "more pointers": "!tt.ptr<" * 20000 + "f32" + ">" * 20000,
    "descriptors": "!tt.tensordesc<" * 1000 + "f32" + ">" * 1000,
    "tensors": "tensor<4x" * 1000 + "f32" + ">" * 1000,
    "unclosed": "!tt.ptr<" * 1000,
}


@pytest.mark.parametrize("name", NESTED)
def test_types_nested_too_deeply(name: str) -> None:
    with pytest.raises(TileirError) as caught:
        ttir.read(f"module {{\n tt.func public @k(%x: {NESTED[name]}) {{\n tt.return }}}}")
    assert caught.value.diagnostics[0].location is not None


def test_regions_nested_too_deeply() -> None:
    inside = "scf.if %c {\n" * 3000 + "}\n" * 3000
    with pytest.raises(TileirError):
        ttir.read(f"module {{\n tt.func public @k(%c: i1) {{\n{inside} tt.return\n }}\n}}\n")


class ComparedName(str):
    """A name that counts how often it is compared with another one."""

    __hash__ = str.__hash__
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        type(self).comparisons += 1
        return str.__eq__(self, other)


def test_names_of_functions_are_not_compared_with_all_others() -> None:
    def comparisons(count: int) -> int:
        b = Builder()
        ComparedName.comparisons = 0
        for i in range(count):
            with b.function(ComparedName(f"f{i}"), None):
                b.ret()
        return ComparedName.comparisons

    assert comparisons(64) <= 9 * comparisons(8)


def test_names_of_parameters_are_not_compared_with_all_others() -> None:
    def comparisons(count: int) -> int:
        ComparedName.comparisons = 0
        parameters = [(ComparedName(f"%a{i}"), I32, {}) for i in range(count)]
        _check_parameters(Function("k", True, Location("k.ttir", 1, 1), None, parameters))
        return ComparedName.comparisons

    assert comparisons(64) <= 9 * comparisons(8)


def twice(levels: int) -> str:
    return "#define A0 1\n" + "".join(
        f"#define A{i} A{i - 1} + A{i - 1}\n" for i in range(1, levels + 1)
    )


EXPANDED = {
    "each twice": twice(24) + "int y = A24;",
    "in a condition": twice(24) + "#if A24\n#endif\n",
    "arguments": "#define D(x) x + x\n" + "int y = " + "D(" * 40 + "1" + ")" * 40 + ";",
    "several uses": f"#define D(x) {' + '.join(['x'] * 100)}\nint y = D(D(D(D(D(1)))));",
    "names": "#define J(x) x##x\n#define K(x) J(x)\nint " + "K(" * 40 + "a" + ")" * 40 + ";",
    "a long chain": "".join(f"#define A{i} A{i + 1}\n" for i in range(3000)) + "int y = A0;",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EXPANDED)
def test_macros_have_a_budget(name: str) -> None:
    lines = EXPANDED[name].split("\n")
    body = [line for line in lines if not line.startswith("#")]
    directives = [line for line in lines if line.startswith("#")]
    text = "\n".join([*directives, "kernel void k(float* x) {", *body, "}"])
    with pytest.raises(TileirError, match="macros") as caught:
        triton_c.parse(text).module()
    assert caught.value.diagnostics[0].location is not None


def test_ordinary_macros_are_within_it() -> None:
    text = twice(3) + "#define MAX(a, b) ((a) > (b) ? (a) : (b))\n"
    uses = "".join(f"int y{i} = MAX(A3, MAX(A2, {i}));\n" for i in range(50))
    triton_c.parse(text + "kernel void k(float* x) {\n" + uses + "}").module()


WRONG: dict[str, tuple[Callable[[str], Any], str]] = {
    "Triton-C": (lambda t: triton_c.parse(t).module(), "kernel void k(int* x) {@ *x = $;\n }"),
    "Tile": (tile.parse, "function (A[M]) -> (O) {@ O = $; }"),
    "Tensor Comprehensions": (
        tensor_comprehensions.parse,
        "def f(float(M) A) -> (C) {@ C(m) = $ }",
    ),
    "TTIR": (ttir.read, "module {@ $ }"),
    "text": (textual.parse, "tir 1.0\n\n;@\n$"),
}


@for_each(
    ("name", "blank"), [(n, c) for n in WRONG for c in "\v\f\x1c\x1d\x1e\x85\u2028\u2029\xa0\ufeff"]
)
def test_only_newlines_end_lines(name: str, blank: str) -> None:
    """Whatever else ends a line for Python: what is wrong first is where an editor shows it."""
    read, text = WRONG[name]
    for between in (blank, f"\n{blank}{blank}\n", f"{blank}\r\n{blank}"):
        source = text.replace("@", between)
        with pytest.raises(TileirError) as caught:
            read(source)
        location = caught.value.diagnostics[0].location
        assert location is not None
        line = source.split("\n")[location.line - 1]
        assert line[location.column - 1 :].startswith((blank, "$")), (source, location)
