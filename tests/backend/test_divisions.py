"""Divisions of integers, by what is known of their operands."""

import itertools
import re

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.executor import executor
from tileir.textual import parse

KERNEL = """tir 1.0

define kernel void @k(i64* %out, i32 %n, i32 %m) {{
entry:
  %pid = program_id i32
  %a = {extend_a} i64 {a}
  %b = {extend_b} i64 {b}
  %q = {op} i64 %a, %b{mode}
  %at = getelementptr i64* %out, %pid
  store %at, %q
  ret
}}
"""
CASES = {
    "an index by a size": ("sext", "%pid", "sext", "%n", True),
    "an index by an unsigned size": ("sext", "%pid", "zext", "%n", True),
    "any number by any": ("sext", "%m", "sext", "%n", False),
    "unsigned numbers": ("zext", "%m", "zext", "%n", True),
}

LOWEST, HIGHEST = -(2**31), 2**31 - 1
DIVISORS_AND_DIVIDENDS = (
    (1, LOWEST), (-1, LOWEST), (LOWEST, LOWEST), (HIGHEST, LOWEST), (3, LOWEST),
    (-1, HIGHEST), (LOWEST, HIGHEST), (HIGHEST, HIGHEST), (-7, HIGHEST),
    (3, 5), (3, -5), (-7, -5), (LOWEST, 0),
)  # fmt: skip


def module_of(case, op, mode):
    extend_a, a, extend_b, b, narrow = CASES[case]
    text = KERNEL.format(
        extend_a=extend_a, a=a, extend_b=extend_b, b=b, op=op,
        mode=f" {{rounding = {mode}}}" if mode else "",
    )  # fmt: skip
    return parse(text), narrow


@pytest.mark.sampled(4, by="case")
@pytest.mark.parametrize(
    ("op", "mode"),
    [("sdiv", ""), ("sdiv", "floor"), ("sdiv", "ceil"), ("udiv", ""), ("udiv", "ceil"),
     ("srem", ""), ("srem", "floor"), ("urem", "")],
)  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_quotients_and_remainders_of_64_bits(case, op, mode):
    """The same in 32 bits and without signs, at the ends of i32."""
    module, _ = module_of(case, op, mode)
    for n, m in DIVISORS_AND_DIVIDENDS:
        expected, actual = np.zeros(5, np.int64), np.zeros(5, np.int64)
        tileir.interpret(module, "k", 5, [expected, n, m])
        executor("simt").launch(module, "k", 5, [actual, n, m])
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("op", ["sdiv", "srem"])
@pytest.mark.parametrize("case", CASES)
def test_numbers_of_32_bits_are_divided_as_such(case, op):
    module, narrow = module_of(case, op, "")
    ptx = compile_kernel(module, "sm_90a").ptx
    assert bool(re.search(r"\b(div|rem)\.[su]64", ptx)) != narrow


SCALARS = """tir 1.0

define kernel void @k(i32* %out, i32 %n, i32 %m) {{
entry:
  %pid = program_id i32
  %i = make_range i32<64>
  %q = {op} i32 {a}, {b}
  %r = {rest} i32 {a}, {b}
  %s = sub i32 %q, %r
  %all = splat i32<64> %s
  %divisor = splat i32<64> {b}
  %each = {op} i32<64> %i, %divisor
  %sum = add i32<64> %all, %each
  %outs = splat i32*<64> %out
  %at = getelementptr i32*<64> %outs, %i
  store %at, %sum
  ret
}}
"""


def scalars(op, rest, a, b):
    return parse(SCALARS.format(op=op, rest=rest, a=a, b=b))


@pytest.mark.parametrize(("op", "rest"), [("sdiv", "srem"), ("udiv", "urem")])
@pytest.mark.parametrize(("a", "b"), [("%m", "%n"), ("%pid", "%n"), ("%m", "-3"), ("%m", "-1")])
def test_quotients_and_remainders_of_the_same_numbers(op, rest, a, b):
    module = scalars(op, rest, a, b)
    for n, m in DIVISORS_AND_DIVIDENDS:
        expected, actual = np.zeros(64, np.int32), np.zeros(64, np.int32)
        tileir.interpret(module, "k", 1, [expected, n, m])
        executor("simt").launch(module, "k", 1, [actual, n, m])
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("a", ["%m", "%pid"])
def test_a_scalar_divisor_is_not_tested(a):
    """A divisor of zero is an error of the program. What the instruction makes of it, and of the
    smallest number by -1, is defined in PTX, and in LLVM where the range of the number shows that
    it is another."""
    ptx = compile_kernel(scalars("sdiv", "srem", a, "%n"), "sm_90a").ptx
    assert re.search(r"\bdiv\.[su]32", ptx) and "rem.s32" not in ptx
    assert "selp" not in ptx and "setp" not in ptx


NARROW = """tir 1.0

define kernel void @k(i{bits}* %x, i{bits}* %y, i{bits}* %o) {{
entry:
  %i = make_range i32<64>
  %xs = splat i{bits}*<64> %x
  %p = getelementptr i{bits}*<64> %xs, %i
  %a = load i{bits}<64> %p
  %ys = splat i{bits}*<64> %y
  %q = getelementptr i{bits}*<64> %ys, %i
  %b = load i{bits}<64> %q
  %r = {op} i{bits}<64> %a, %b
  %os = splat i{bits}*<64> %o
  %at = getelementptr i{bits}*<64> %os, %i
  store %at, %r
  ret
}}
"""


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("op", ["sdiv", "udiv", "srem", "urem"])
def test_elements_are_divided_by_the_instruction_for_any_numbers(op, bits):
    """Without tests of the divisor: what a division by zero results in is what it is for other
    compilers, on which test-suites of Triton's users rely."""
    module = parse(NARROW.format(op=op, bits=bits))
    ptx = compile_kernel(module, "sm_90a").ptx
    assert f"{op[1:]}.{op[0]}{max(bits, 16)}" in ptx
    assert "selp" not in ptx and "setp" not in ptx
    info = np.iinfo(f"i{bits // 8}")
    numbers = [info.min, info.min + 1, -7, -1, 1, 2, 3, info.max]
    x, y = (np.array(v, info.dtype) for v in zip(*itertools.product(numbers, numbers), strict=True))
    expected, actual = np.zeros(64, info.dtype), np.zeros(64, info.dtype)
    tileir.interpret(module, "k", 1, [x, y, expected])
    executor("simt").launch(module, "k", 1, [x, y, actual])
    np.testing.assert_array_equal(actual, expected)


INDEX = """tir 1.0

define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n, i32 %stride) {
entry:
  %pid = program_id i32
  %whole = add i32 %n, 255
  %tiles = sdiv i32 %whole, 256
  %column = srem i32 %pid, %tiles
  %first = mul i32 %column, 256
  %wide = sext i64 %first
  %starts = splat i64<256> %wide
  %range = make_range i32<256>
  %offsets = sext i64<256> %range
  %indices = add i64<256> %starts, %offsets
  %step = sext i64 %stride
  %steps = splat i64<256> %step
  %at = mul i64<256> %indices, %steps
  %xs = splat f32*<256> %x
  %p = getelementptr f32*<256> %xs, %at
  %v = load f32<256> %p
  %ys = splat f32*<256> %y
  %q = getelementptr f32*<256> %ys, %at
  store %q, %v
  ret
}
"""


def test_a_remainder_of_an_instance_is_extended_by_zeros():
    """It has no sign, so that indices of 64 bits are those of 32 with zeros above."""
    ptx = compile_kernel(parse(INDEX), "sm_90a").ptx
    assert "cvt.s64.s32" not in ptx and "cvt.u64.u32" in ptx
