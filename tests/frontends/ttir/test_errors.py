"""What is no TTIR, or not read, is refused at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sizes import for_each
from tileir.frontends.ttir import CompilationError, read

from ..budget import PART, SEEDS
from ..malformed import is_refused, mistaken

HERE = Path(__file__).parent
TEXTS = [
    (HERE / name).read_text()
    for name in (
        "versions/3.9.0/scanhist.ttir", "versions/3.9.0/desc.ttir", "versions/3.9.0/atomics.ttir",
        "versions/3.0.0/softmax.ttir", "kernels/causal_convolution.ttir", "kernels/histogram.ttir",
    )
]  # fmt: skip
FRAME = """module {{
  tt.func public @f(%p: !tt.ptr<f32>, %n: i32) {{
    {}
    tt.return
  }}
}}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_malformed_texts_end_in_errors_with_a_place(seed: int) -> None:
    refusals = [is_refused(read, source) for source in mistaken(TEXTS, PART, seed)]
    assert any(refusals)


@for_each(
    ("line", "code", "column", "message"),
    [
        (
            "%a = tt.warp_specialize %p : i32",
            "TIR1001",
            10,
            "op tt.warp_specialize is not supported",
        ),
        ("%a = arith.addi %n, %m : i32", "TIR1002", 10, "%m is not defined before"),
        ("%a = arith.addi %n, %n : i64", "TIR1003", 10, "has type i32, but the text states i64"),
        ("%a = tt.splat %n : i32 -> tensor<8xf8E4M3FNUZ>", "TIR1003", 31, "is not supported"),
        (
            "%a = arith.constant dense<[1, 2]> : tensor<4xi32>",
            "TIR1003",
            10,
            "2 values do not fill a",
        ),
        ("%a:2 = tt.load %p : !tt.ptr<f32>", "TIR1003", 12, "has 1 results, not 2"),
        ("%a = arith.constant ; : i32", "TIR1001", 25, "';' does not belong here"),
        ("tt.call @g(%n) : (i32) -> ()", "", 5, "@g"),
        ("tt.call %n : (i32) -> ()", "TIR1003", 5, "tt.call names no function"),
        ("%n = arith.constant 1 : i32", "TIR1002", 10, "%n is defined twice"),
        ("%a = arith.addi %n, %n {tt.divisibility = 16 : i32} : i32", "TIR1001", 10, "as Triton"),
        ("%a = tt.dot_scaled %n, %n, %n, %n : i32 -> i32", "TIR1001", 10, "as Triton prints it"),
        ("cf.br ^bb9", "TIR1002", 5, "there is no block ^bb9"),
        ("scf.if %n {\n    }", "TIR0806", 5, "a branch needs a scalar i1, not i32"),
    ],
)
def test_an_error_names_what_is_wrong(line: str, code: str, column: int, message: str) -> None:
    with pytest.raises(CompilationError) as caught:
        read(FRAME.format(line), "wrong.ttir")
    error = caught.value
    assert message in str(error)
    assert code in ("", error.code)
    assert (error.line, error.column) == (3, column)


def test_functions_that_call_themselves_are_refused() -> None:
    text = FRAME.format("tt.call @g() : () -> ()") + (
        "tt.func private @g() {\n  tt.call @g() : () -> ()\n  tt.return\n}\n"
    )
    with pytest.raises(CompilationError, match="@g calls itself"):
        read(text)


def test_a_text_without_a_function_is_refused() -> None:
    with pytest.raises(CompilationError, match=r"the text has no tt\.func"):
        read("module {\n}\n")


def test_a_module_that_is_cut_off_is_refused() -> None:
    with pytest.raises(CompilationError, match="the end does not belong here"):
        read(FRAME.format("").rstrip("}\n") + "}\n")


@pytest.mark.parametrize(
    ("parameters", "also", "line", "message"),
    [
        ("%p: i32, %p: i32", "", 2, "%p is defined twice"),
        ("%p: i32", "tt.func private @f() {\n    tt.return\n  }", 5, "@f is defined twice"),
    ],
)
def test_names_of_functions_and_parameters_are_defined_once(
    parameters: str, also: str, line: int, message: str
) -> None:
    text = f"module {{\n  tt.func public @f({parameters}) {{\n    tt.return\n  }}\n  {also}\n}}\n"
    with pytest.raises(CompilationError, match=message) as caught:
        read(text, "wrong.ttir")
    assert (caught.value.line, caught.value.column) == (line, 3)
