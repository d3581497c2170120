"""Masks that LLVM's register allocator spills wrongly (docs/explanation/cpu.md) are not made."""

import re

import numpy as np
import pytest

from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.cpu.masks import without_partial_masks
from tileir.textual import parse

TEXT = """tir 1.0
define kernel void @k(f16* %x, f16* %y, i32 %n) {
entry:
  %pid = program_id i32
  %base = mul i32 %pid, LENGTH
  %l = make_range i32<LENGTH>
  %b = splat i32<LENGTH> %base
  %i = add i32<LENGTH> %l, %b
  %s = splat i32<LENGTH> %n
  %m = trunc i1<LENGTH> %s
  %xs = splat f16*<LENGTH> %x
  %p = getelementptr f16*<LENGTH> %xs, %l
  %v = load f16<LENGTH> %p, %m
  %ys = splat f16*<LENGTH> %y
  %q = getelementptr f16*<LENGTH> %ys, %i
  store %q, %v
  ret
}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("length", [8, 16, 40, 48, 72, 80, 104, 136, 200])
def test_lanes_that_are_off_access_nothing(length: int) -> None:
    kernel = compile_kernel(parse(TEXT.replace("LENGTH", str(length))), checked=False)
    x, y = np.ones(length + 64, np.float16), np.zeros(3 * length + 64, np.float16)
    kernel(3, [x, y, 1], 1)
    assert (y[: 3 * length] == 1).all() and not y[3 * length :].any()
    assert not re.search(
        r"shufflevector <\d+ x i1> %\S+, <\d+ x i1> <[^>]*false", kernel.optimized_llvm
    )


def shuffle(lanes: str, other: str = "zeroinitializer") -> str:
    return f"  %a = shufflevector <4 x i1> %m, <4 x i1> {other}, <4 x i32> <{lanes}>\n"


def test_what_keeps_lanes_is_an_and() -> None:
    expected = "  %a = and <4 x i1> %m, <i1 true, i1 true, i1 false, i1 false>\n"
    assert without_partial_masks(shuffle("i32 0, i32 1, i32 6, i32 7")) == expected
    other = "<i1 poison, i1 poison, i1 false, i1 false>"
    assert without_partial_masks(shuffle("i32 0, i32 1, i32 6, i32 7", other)) == expected
    assert without_partial_masks(shuffle("i32 0, i32 1, i32 poison, i32 5")) == expected


@pytest.mark.parametrize(
    "text",
    [shuffle("i32 1, i32 0, i32 6, i32 7"), shuffle("i32 0, i32 0, i32 0, i32 0"),
     shuffle("i32 0, i32 1, i32 6, i32 7", "<i1 false, i1 false, i1 true, i1 false>")],
)  # fmt: skip
def test_what_moves_lanes_stays(text: str) -> None:
    assert without_partial_masks(text) == text
