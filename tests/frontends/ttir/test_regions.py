"""Regions: what is stated of a module holds in them, too; the combiners that reductions name; and
statements in a form that Triton does not print."""

from __future__ import annotations

import re

import pytest

from tests.sizes import for_each
from tileir import textual
from tileir.frontends.ttir import read
from tileir.frontends.ttir.errors import CompilationError

KERNEL = """module {{
  tt.func public @f(%p: !tt.ptr<f32>, %q: !tt.ptr<i1>, %c: i1, %n: i32) {{
    %low = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    {}
    tt.return
  }}
}}
"""
AROUND = {
    "": "{}",
    "if": "scf.if %c {{\n {} \n}}",
    "else": "scf.if %c {{\n }} else {{\n {} \n}}",
    "for": "scf.for %k = %low to %n step %one : i32 {{\n {} \n}}",
    "while": "scf.while : () -> () {{\n scf.condition(%c)\n }} do {{\n {} \n scf.yield\n}}",
    "while condition": "scf.while : () -> () {{\n {} \n scf.condition(%c)\n }} do {{\n"
    " scf.yield\n}}",
    "deep": "scf.if %c {{\n scf.for %k = %low to %n step %one : i32 {{\n {} \n}}\n}}",
}
"""Statements around others."""
LOAD = "%v = tt.load %p, %c : !tt.ptr<f32>"
WAIT = "tt.grid_dependency_wait"
LOOP = "scf.for %j = %low to %n step %one : i32 {\n %w = tt.load %p : !tt.ptr<f32>\n}"


def text(line: str, around: str, **options: object) -> str:
    source = KERNEL.format(AROUND[around].format(line))
    return textual.print_module(read(source, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("around", AROUND)
def test_regions_are_read_as_what_is_around_them(around: str) -> None:
    assert "load f32 %p, %c, 0.0" in text(LOAD, around)
    undefined = text(LOAD, around, masked_off="undefined")
    assert "load f32 %p, %c\n" in undefined.replace(" loc", "\n")
    assert "griddepcontrol" not in text(WAIT, around)
    assert "griddepcontrol.wait" in text(WAIT, around, overlapped=True)
    assert "independent_loads" in text(LOOP, around)
    assert "independent_loads" not in text(LOOP, around, num_stages=1)


LOADED = "%b = tt.load %q : !tt.ptr<i1>\n"


@for_each("around", AROUND)
def test_a_condition_that_is_not_loaded_decides_in_regions(around: str) -> None:
    """The conjunction is a `select` by the one that is always defined, wherever the other one was
    loaded."""
    for operands in ("%b, %c", "%c, %b"):
        both = f"%both = arith.andi {operands} : i1"
        inside = AROUND[around].format(LOADED + both)
        outside = LOADED + AROUND[around].format(both)
        for source in (inside, outside):
            result = text(source, "", masked_off="undefined")
            assert re.search(r"select i1 %c, %\d+, false", result)
            assert re.search(r" and i1 ", text(source, ""))


REDUCE = """%v = arith.constant dense<1.0> : tensor<8xf32>
    %r = "tt.reduce"(%v) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      {}
    }}) : (tensor<8xf32>) -> f32"""


@for_each(
    ("body", "named"),
    [
        ("%s = arith.addf %a, %b : f32\n tt.reduce.return %s : f32", "fadd"),
        ("%s = arith.addf %b, %a : f32\n tt.reduce.return %s : f32", "fadd"),
        ("%s = arith.maxnumf %a, %b : f32\n tt.reduce.return %s : f32", "fmaxnum"),
        ("%s = arith.maximumf %a, %b : f32\n tt.reduce.return %s : f32", "fmaximum"),
        ("%s = arith.addf %a, %a : f32\n tt.reduce.return %s : f32", None),
        ("%s = arith.addf %a, %b : f32\n tt.reduce.return %a : f32", None),
        ("%s = arith.subf %a, %b : f32\n tt.reduce.return %s : f32", None),
        ("%s = arith.addf %a, %b : f32\n %t = arith.addf %s, %b : f32\n"
         " tt.reduce.return %t : f32", None),
    ],
)  # fmt: skip
def test_a_region_of_one_op_on_its_parameters_is_a_named_combiner(
    body: str, named: str | None
) -> None:
    result = text(REDUCE.format(body), "")
    assert f"combiner = {named or '@'}" in result


@for_each("line", [
    "%a = arith.cmpi %n, %n : i32", "%a = arith.cmpf %n, %n : i32",
    "%a = tt.atomic_rmw fadd, acq_rel, cluster, %p, %n : (!tt.ptr<f32>, i32) -> f32",
    "%a = tt.atomic_rmw fadd, %p, %n : (!tt.ptr<f32>, i32) -> f32",
    "%a = tt.atomic_cas acq_rel, %p, %n, %n : (!tt.ptr<f32>, i32, i32) -> f32",
    "%a = arith.select %c, %n : i32", "%a = tt.clampf %n, %n : i32", "%a = arith.extf : f32 to f64",
    "scf.for %k = %low to %n : i32 {\n}", "cf.cond_br %c", "cf.br",
])  # fmt: skip
def test_statements_that_lack_something_are_refused_at_their_place(line: str) -> None:
    with pytest.raises(CompilationError) as caught:
        read(KERNEL.format(line), "wrong.ttir")
    assert caught.value.line == 5


@for_each("body", [
    "%w = tt.load %p : !tt.ptr<f32>\n tt.map_elementwise.return %w : f32",
    "%w = tt.splat %x : f32 -> tensor<4xf32>\n tt.map_elementwise.return %x : f32",
])  # fmt: skip
def test_functions_of_elements_have_numbers_and_pointers_only(body: str) -> None:
    line = f"""%v = arith.constant dense<1.0> : tensor<8xf32>
    %m = "tt.map_elementwise"(%v) <{{pack = 1 : i32}}> ({{
    ^bb0(%x: f32):
      {body}
    }}) : (tensor<8xf32>) -> tensor<8xf32>"""
    if "splat" in body:
        with pytest.raises(CompilationError, match=r"region of tt\.map_elementwise has a"):
            text(line, "")
    else:
        assert "load f32<8>" in text(line, "")
