"""Divisions of integers, by what is known of their operands."""

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


def module_of(case, op, mode):
    extend_a, a, extend_b, b, narrow = CASES[case]
    text = KERNEL.format(
        extend_a=extend_a, a=a, extend_b=extend_b, b=b, op=op,
        mode=f" {{rounding = {mode}}}" if mode else "",
    )  # fmt: skip
    return parse(text), narrow


@pytest.mark.parametrize(
    ("op", "mode"),
    [("sdiv", ""), ("sdiv", "floor"), ("sdiv", "ceil"), ("udiv", ""), ("udiv", "ceil"),
     ("srem", ""), ("srem", "floor"), ("urem", "")],
)  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_quotients_and_remainders_of_64_bits(case, op, mode):
    """The same in 32 bits and without signs, at the ends of i32."""
    module, _ = module_of(case, op, mode)
    for n in (1, -1, 3, -7, 2**31 - 1, -(2**31)):
        for m in (0, 5, -5, 2**31 - 1, -(2**31)):
            expected, found = np.zeros(9, np.int64), np.zeros(9, np.int64)
            tileir.interpret(module, "k", 9, [expected, n, m])
            executor("simt").launch(module, "k", 9, [found, n, m])
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", ["sdiv", "srem"])
@pytest.mark.parametrize("case", CASES)
def test_numbers_of_32_bits_are_divided_as_such(case, op):
    module, narrow = module_of(case, op, "")
    ptx = compile_kernel(module, "sm_90a").ptx
    assert bool(re.search(r"\b(div|rem)\.[su]64", ptx)) != narrow
