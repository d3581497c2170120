"""Conversions of the upper half of a word from bf16: which mask the word."""

from __future__ import annotations

from typing import Any

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.nvptx.llvm_codegen import with_upper_halves_masked
from tileir.backend.nvptx.upper_halves import upper_halves_masked
from tileir.builder import BF16, F32, Builder, arg, pointer

PARTS = "\tmov.b32 \t{%rs1, %rs2}, %r1;"
LOWER, UPPER = "\tcvt.f32.bf16 \t%r2, %rs1;", "\tcvt.f32.bf16 \t%r3, %rs2;"
MASKED = "\tand.b32 \t%r3, %r1, -65536;"


def lines_of(*lines: str) -> list[str]:
    return upper_halves_masked("\n".join(lines)).split("\n")


def test_the_upper_half_is_masked() -> None:
    assert lines_of(PARTS, LOWER, UPPER) == [PARTS, LOWER, MASKED]
    other = "\tadd.s32 \t%r4, %r1, %r2;"
    assert lines_of(PARTS, other, UPPER, UPPER) == [PARTS, other, MASKED, MASKED]


@pytest.mark.parametrize(
    "line",
    [
        "\tmov.b32 \t%r1, %r7;", "\tadd.s32 \t%r1, %r1, 1;", "\tmov.b16 \t%rs2, %rs7;",
        "\tmov.b32 \t{%rs7, %rs8}, %r1;\n\tmov.b32 \t%r1, %r7;",
        "\tmov.b32 \t{%rs2, %rs7}, %r8;", "$L__BB0_1:", "\t@%p1 ld.global.b32 %r1, [%rd1];",
        "\tmov.b32 %r1, %r5; @%p1 ld.global.v2.b32 {%r1, %r6}, [%rd1];",
    ],
)  # fmt: skip
def test_others_are_not(line: str) -> None:
    """The word or its half is another one, or the block may be reached from elsewhere."""
    lines = [PARTS, *line.split("\n"), UPPER]
    assert lines_of(*lines) == lines


def test_halves_of_another_word_are_masked_there() -> None:
    parts, upper = "\tmov.b32 \t{%rs1, %rs2}, %r9;", "\tcvt.f32.bf16 \t%r3, %rs2;"
    assert lines_of(PARTS, parts, upper) == [PARTS, parts, "\tand.b32 \t%r3, %r9, -65536;"]


@pytest.mark.parametrize("dot", ["\tmma.sync", "\twgmma.mma_async", None])
def test_kernels_with_dots_stay_as_they_are(dot: str | None) -> None:
    text = "\n".join([PARTS, UPPER, *filter(None, [dot])])
    assert (with_upper_halves_masked(text) == text) is (dot is not None)


def sums(*, narrow: bool) -> Any:
    """Sums of f32, or of bf16, of neighbours that a thread loads as four words."""
    b = Builder()
    kinds = {name: arg(pointer(BF16), aligned=16) for name in "xyz"}
    with b.kernel("k", **kinds) as (x, y, z):
        i = b.arange(1024)
        x, y = ((p + i).load().to(F32) for p in (x, y))
        (z + i).store((x + y if narrow else x + y + y).to(BF16))
    return b.module()


def test_the_compiler_masks_them() -> None:
    """One instruction for the upper half and one for the lower half of each word."""
    ptx = compile_kernel(sums(narrow=False), "sm_90").ptx
    assert ptx.count(", -65536;") == ptx.count("cvt.f32.bf16") == 8


def test_arithmetic_between_conversions_stays_narrow() -> None:
    """LLVM adds in bf16, of which no half is converted."""
    ptx = compile_kernel(sums(narrow=True), "sm_90").ptx
    assert "add.rn.bf16" in ptx and "cvt.f32" not in ptx and ", -65536;" not in ptx
