"""Plans of calls: kernels and their names, types of numbers, sizes, attributes, memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.decoupled import parse
from tileir.textual import print_module

from . import definitions as d
from .costs import f16, f32

SCALED = parse("Func f; In A; SIn s; Var x; f[x] = A[x] * s; f.compile();").function()


@for_each(
    ("number", "kind"),
    [
        (1, "i32"), (2**31 - 1, "i32"), (2**31, "i64"), (-(2**31), "i32"), (-(2**31) - 1, "i64"),
        (2**63 - 1, "i64"), (-(2**63), "i64"), (True, "i1"), (np.bool_(True), "i1"), (1.5, "f32"),
        (np.float64(1), "f64"), (np.int8(3), "i8"), (np.float16(3), "f16"),
    ],
)  # fmt: skip
def test_numbers_have_the_smallest_type_that_holds_them(number: Any, kind: str) -> None:
    """Those of numpy keep theirs; whole numbers have 32 bits, or 64 if these do not suffice."""
    text = print_module(SCALED.module(f32(4), number))
    assert re.findall(r"(\w+) %s loc", text)[0] == kind


@for_each("number", [2**63, -(2**63) - 1])
def test_numbers_of_more_than_64_bits_are_refused(number: int) -> None:
    with pytest.raises(TileirError, match="in the range of no integer type"):
        SCALED.module(f32(4), number)


@for_each("size", [1, np.int64(1), 0, -1, 1.0, True, "1"])
def test_sizes_are_whole_numbers_from_1_on(size: Any) -> None:
    function = parse("Func f; Var x; f[x] = x * 2; f.compile();").function()
    if size == 1 and type(size) in (int, np.int64):
        assert function(x=size).tolist() == [0]
    else:
        with pytest.raises(TileirError, match="x is a size of at least 1"):
            function(x=size)


def test_kernels_have_names_of_their_own() -> None:
    source = """Func f, f_split_k; In A; Var x; RVar k; f_split_k[x] = rmax(A[x, k], k);
    f[x] = rsum(A[x, k], k) + f_split_k[x]; f.block(k:2); f.compile();"""
    function, A = parse(source).function(), np.arange(32, dtype=np.float32).reshape(4, 8)
    kernels = [launch.kernel for launch in function.plan(A).launches]
    assert kernels[0] == "f_split_k" and kernels[2] == "f" and len(set(kernels)) == 3
    assert (function(A) == A.sum(axis=1) + A.max(axis=1)).all()


@for_each(
    ("primitive", "attribute"),
    [
        ("num_warps(8)", "num_warps = 8"), ("roles(off)", "warp_specialize = false"),
        ("persistent(off)", "persistent = false"), ("persistent(pingpong)", "pingpong = true"),
        ("roles(on)", None), ("persistent(on)", None),
    ],
)  # fmt: skip
def test_primitives_are_attributes_of_kernels(primitive: str, attribute: str | None) -> None:
    schedule = f"matmul.block(m:64, n:32); matmul.tensorize(m:0, n:0, k:0); matmul.{primitive};"
    function = parse(d.MATMUL).with_schedule(schedule).function()
    text = print_module(function.module(f16(128, 64), f16(64, 64)))
    stated = re.findall(r"\) \{(\w+ = \w+)\}", text)
    assert stated == ([attribute] if attribute else [])


def test_what_is_read_is_read_only_and_what_is_written_has_no_alias() -> None:
    text = print_module(parse(d.ADD).function().module(f32(4, 64), f32(4, 64), 1.0))
    parameters = re.findall(r"f32\*([^%]*)%(\w+)", text.split("{")[0])
    attributes = {name: words.split() for words, name in parameters}
    assert {n for n, words in attributes.items() if "readonly" in words} == {"A", "B"}
    assert {n for n, words in attributes.items() if "noalias" in words} == {"add_out"}
    assert all("aligned(16)" in words for words in attributes.values())


@for_each(("schedule", "stored"), [
    ("swish_out.block(y:4); swish_out.tensorize(y:4);", False),
    ("swish_out.block(y:4); swish_out.tensorize(y:0);", False),
    ("swish_out.block(y:4); swish_out.tensorize(y:2);", True),
    ("swish_out.block(y:100); swish_out.tensorize(y:0);", False),
    ("swish_out.block(y:100); swish_out.tensorize(y:8);", False),
    ("swish_out.tensorize(y:4);", True),
])  # fmt: skip
def test_a_fused_func_passes_through_memory_where_tiles_are_not_whole_blocks(
    schedule: str, stored: bool
) -> None:
    program = parse(d.SWISH).with_schedule(f"tmp.fuse_at(swish_out, x); {schedule}")
    function, A = program.function(), np.ones((3, 8), np.float32)
    assert bool(function.plan(A, 0.5).scratch) == stored
    np.testing.assert_allclose(function(A, 0.5), function.reference(A, 0.5), rtol=1e-6)


def test_labels_of_one_dimension_have_one_size_in_generated_tests() -> None:
    """`k` is the first dimension of A, as `x` is; others have the usual size."""
    source = """Func f; In A, C; SIn s; Var x, y; RVar k, l;
    f[x, y] = A[x, y] + s * rsum(A[k, y], k) + reshape(rsum(C[x, l], l), x, 1); f.compile();"""
    function = parse(source).function()
    for sizes in ({"x": 5, "l": 7}, {"k": 5, "l": 7}):
        shapes: list[list[int]] = []
        arguments = function.arguments(sizes, lambda shape, to=shapes: to.append(shape))
        assert shapes == [[5, 64], [5, 7]] and arguments[2:] == [0.5]


def test_results_are_f64_where_they_are_computed_so() -> None:
    source = "Func f, g; In A; Var x; f[x] = A[x] * 2; g[x] = f[x] + 1; g.compile(); {}"
    for more in ("", "f.fuse_at(g, x);"):
        function = parse(source.format(more)).function()
        for kind, expected in (("float64", "float64"), ("int64", "float32"), ("int8", "float32")):
            A = np.arange(4).astype(kind)
            result = function(A)
            assert result.dtype == expected and (result == A.astype(np.float64) * 2 + 1).all()
        half = function(np.arange(4.0), types={"g": "float16"})
        assert half.dtype == np.float16


@for_each(
    ("value", "mode"),
    [
        ("exp(A[x])", "fast"), ("exp2(A[x])", "approx"), ("sin(A[x])", "approx"),
        ("rsqrt(A[x])", "approx"), ("log(A[x])", "approx"), ("sigmoid(A[x])", "fast"),
        ("erf(A[x])", None), ("floor(A[x])", None),
    ],
)  # fmt: skip
def test_approximate_functions_have_the_fastest_mode_that_is_near(
    value: str, mode: str | None
) -> None:
    """An exponential may flush subnormal results; what is exact stays so without `math`."""
    source = f"Func f; In A; Var x; f[x] = {value}; f.compile();"
    exact = print_module(parse(source).function().module(f32(8)))
    assert "fast = " not in exact
    text = print_module(parse(source + "f.math(approx);").function().module(f32(8)))
    modes = re.findall(r"= (?:exp|exp2|sin|rsqrt|log|erf|floor) .*?fast = (\w+)", text)
    assert modes == ([mode] if mode else [])


def test_a_function_may_be_called_with_other_arguments_each_time() -> None:
    """Plans are kept for shapes, strides and types of arrays, of numbers and of the result."""
    source = "Func f; In A; SIn s; Var x, y; f[x, y] = A[x, y] * s;"
    call = parse(source + "f.tensorize(x:0, y:0); f.compile();").function()
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for array in (a, np.asfortranarray(a), a[::2], a):
        for number in (2, 1.5):
            for order in ("C", "F", None):
                out = None if order is None else np.zeros(array.shape, np.float32, order)
                result = call(array, number, out=out)
                np.testing.assert_array_equal(result, array.astype(np.float32) * number)
                assert out is None or result is out
    half = call(a, 2, types={"f": "float16"})
    assert half.dtype == np.float16 and (half == a * 2).all()
