"""Scalar divisions of 64 bits whose numbers 32 bits hold: which become narrower, and results."""

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.transforms.narrow_division import narrow_divisions
from tileir.textual import parse

OPS = ("sdiv", "srem", "udiv", "urem")


def division_types(*lines):
    """Types of what becomes of the ops `%v0`, ... of i64: %p is an instance, %n any i32, %m any
    i32 but the least, %u never negative, %w any i64."""
    text = (
        "tir 1.0\n\ndefine kernel void @k(i64* %x, i32 %a, i64 %w) {\nentry:\n"
        "  %i = program_id i32\n  %p = sext i64 %i\n  %n = sext i64 %a\n"
        "  %b = smax i32 %a, -2147483647\n  %m = sext i64 %b\n"
        "  %c = smax i32 %a, 1\n  %u = sext i64 %c\n"
        + "".join(f"  %v{i} = {line}\n" for i, line in enumerate(lines))
        + "".join(f"  store %x, %v{i}\n" for i in range(len(lines)))
        + "  ret\n}\n"
    )
    function = narrow_divisions(parse(text).kernel())
    return [str(op.result.type) for op in function.ops if op.mnemonic in OPS]


def test_numbers_that_32_bits_hold_are_divided_so():
    assert division_types("sdiv i64 %p, %n", "srem i64 %p, %n", "sdiv i64 %m, %n") == ["i32"] * 3
    assert division_types("udiv i64 %p, %u", "urem i64 %u, 7") == ["i32"] * 2
    assert division_types("sdiv i64 %p, -5 {rounding = ceil}") == ["i32"]


def test_others_are_not():
    assert division_types("sdiv i64 %n, %n", "srem i64 %n, -1") == ["i64"] * 2  # the least by -1
    assert division_types("udiv i64 %p, %n", "urem i64 %n, 7") == ["i64"] * 2
    assert (
        division_types("sdiv i64 %w, %n", "srem i64 %p, %w", "sdiv i64 %p, 2147483648")
        == ["i64"] * 3
    )


@pytest.mark.parametrize(("axis", "bits"), [(0, 64), (1, 32), (2, 32)])
def test_a_grid_is_short_along_its_second_and_third_axis(axis, bits):
    """The first index of a block of 2048 elements fits 32 bits there, and not along the first."""
    text = (
        "tir 1.0\n\ndefine kernel void @k(i64* %x, i32 %a) {\nentry:\n"
        f"  %i = program_id i32 {{axis = {axis}}}\n  %p = sext i64 %i\n"
        "  %first = mul i64 %p, 2048\n  %n = sext i64 %a\n  %r = srem i64 %first, %n\n"
        "  store %x, %r\n  ret\n}\n"
    )
    function = narrow_divisions(parse(text).kernel())
    assert [str(op.result.type) for op in function.ops if op.mnemonic == "srem"] == [f"i{bits}"]


@pytest.mark.parametrize("op", ["sdiv", "srem"])
@pytest.mark.parametrize("rounding", ["zero", "floor"])
def test_quotients_are_the_same(op, rounding):
    text = (
        "tir 1.0\n\ndefine kernel void @k(i64* %x, i32 %a, i32 %b) {\nentry:\n"
        "  %s = smax i32 %a, -2147483647\n  %m = sext i64 %s\n  %n = sext i64 %b\n"
        f"  %q = {op} i64 %m, %n {{rounding = {rounding}}}\n  store %x, %q\n  ret\n}}\n"
    )
    module = parse(text)
    function = narrow_divisions(module.kernel())
    assert function is not module.kernel()
    edge = (-(2**31) + 1, -7, -1, 0, 1, 6, 2**31 - 1)
    for a in edge:
        for b in (*edge, -(2**31)):
            if b:
                results = []
                for kernel in (module, module.with_functions({"k": function})):
                    x = np.zeros(1, np.int64)
                    tileir.interpret(kernel, "k", (1,), {"x": x, "a": a, "b": b})
                    results.append(x[0])
                assert results[0] == results[1]


def test_the_compiler_narrows_those_of_tiles():
    """A remainder of 64 bits is a branch, or a subroutine, for each element of a thread."""
    text = (
        "tir 1.0\n\ndefine kernel void @k(i64* %x, i32 %a) {\nentry:\n"
        "  %i = program_id i32 {axis = 1}\n  %p = sext i64 %i\n  %first = mul i64 %p, 64\n"
        "  %from = splat i64<64> %first\n  %lanes = make_range i32<64>\n"
        "  %wide = sext i64<64> %lanes\n  %at = add i64<64> %from, %wide\n  %n = sext i64 %a\n"
        "  %ns = splat i64<64> %n\n  %r = srem i64<64> %at, %ns\n  %xs = splat i64*<64> %x\n"
        "  %q = getelementptr i64*<64> %xs, %lanes\n  store %q, %r\n  ret\n}\n"
    )
    ptx = compile_kernel(parse(text), "sm_90", Options(num_warps=1)).ptx
    assert "rem.s32" in ptx and "rem.s64" not in ptx and "rem.u64" not in ptx


def test_the_compiler_narrows_them():
    text = (
        "tir 1.0\n\ndefine kernel void @k(i64* %x, i32 %a) {\nentry:\n  %i = program_id i32\n"
        "  %p = sext i64 %i\n  %n = sext i64 %a\n  %q = sdiv i64 %p, %n\n  store %x, %q\n"
        "  ret\n}\n"
    )
    compiled = compile_kernel(parse(text), "sm_90", Options(num_warps=1))
    assert "div.s32" in compiled.ptx or "div.u32" in compiled.ptx
    assert "div.s64" not in compiled.ptx and "div.u64" not in compiled.ptx
