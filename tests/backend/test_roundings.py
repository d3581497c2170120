"""Numbers that are rounded to bf16 and used as f32: they are rounded to words."""

from __future__ import annotations

from typing import Any

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.nvptx.roundings import rounded_in_words
from tileir.builder import BF16, F32, Builder, arg, pointer

NARROWS, WIDENS = "\tcvt.rn.bf16.f32 \t%rs1, %r1;", "\tcvt.f32.bf16 \t%r2, %rs1;"
WORD = "\tcvt.rn.bf16x2.f32 \t%r2, %r1, 0f00000000;"


def lines_of(*lines: str) -> list[str]:
    return rounded_in_words("\n".join(lines)).split("\n")


def test_a_rounded_number_is_a_word() -> None:
    assert lines_of(NARROWS, WIDENS) == [NARROWS, WORD]
    other = "\tadd.s32 \t%r4, %r1, %r2;"
    repeated = "\tcvt.f32.bf16 \t%r3, %rs1;"
    assert lines_of(NARROWS, other, WIDENS, repeated) == [
        NARROWS, other, WORD, "\tcvt.rn.bf16x2.f32 \t%r3, %r1, 0f00000000;",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "\tmov.b32 \t%r1, %r7;", "\tadd.f32 \t%r1, %r1, %r7;", "\tmov.b16 \t%rs1, %rs7;",
        "\tmov.b32 \t{%rs1, %rs7}, %r8;", "$L__BB0_1:", "\t@%p1 ld.global.b32 %r1, [%rd1];",
        "\tmov.b32 %r1, %r5; @%p1 ld.global.v2.b32 {%r1, %r6}, [%rd1];",
    ],
)  # fmt: skip
def test_others_stay(line: str) -> None:
    """The number or its rounding is another one, or the block may be reached from elsewhere."""
    lines = [NARROWS, line, WIDENS]
    assert lines_of(*lines) == lines


def test_the_number_may_be_overwritten() -> None:
    """The word takes the place of the number that it rounds; a later conversion does not use it."""
    in_place = "\tcvt.f32.bf16 \t%r1, %rs1;"
    rounded = "\tcvt.rn.bf16x2.f32 \t%r1, %r1, 0f00000000;"
    assert lines_of(NARROWS, in_place, WIDENS) == [NARROWS, rounded, WIDENS]


def test_a_later_rounding_counts() -> None:
    later = "\tcvt.rn.bf16.f32 \t%rs1, %r9;"
    assert lines_of(NARROWS, later, WIDENS)[2] == WORD.replace("%r1", "%r9")


def to_bf16_and_back() -> Any:
    """What x * y is in bf16, plus x in f32."""
    b = Builder()
    kinds = {name: arg(pointer(F32), aligned=16) for name in "xyz"}
    with b.kernel("k", **kinds) as (x, y, z):
        i = b.arange(1024)
        x, y = ((p + i).load() for p in (x, y))
        (z + i).store((x * y).to(BF16).to(F32) + x)
    return b.module()


def test_the_compiler_rounds_to_words() -> None:
    """A conversion for each of the eight elements of a thread, and none back."""
    ptx = compile_kernel(to_bf16_and_back(), "sm_90").ptx
    assert ptx.count("cvt.rn.bf16x2.f32") == 8
    assert "cvt.f32.bf16" not in ptx
