"""The function that transposes matrices, by blocks of 16 rows and 16 columns in registers."""

from __future__ import annotations

from typing import Any

from tileir.backend.cpu.lane_values import WIDTH, scalar_type
from tileir.types import Element

BLOCK = 16
"""Rows and columns of a block; matrices have a multiple of them."""


def transposing_function(thread: Any, element: Element) -> str:
    """The name of the function that writes the transpose of a matrix. The module will contain its
    definition."""
    name = f"@transpose.{scalar_type(element)}"
    thread.declare(_text(name, scalar_type(element), element.bytes))
    return name


def _text(name: str, kind: str, size: int) -> str:
    """The definition of the function. Element (i, j) is stored at (i / WIDTH) panel + j row + i %
    WIDTH."""
    vector, r = f"<{BLOCK} x {kind}>", range(BLOCK)
    lines = [
        f"define internal void {name}(ptr noalias %from, ptr noalias %to, i64 %rows, i64 %columns, "
        "i64 %pitch, i64 %panel, i64 %row) noinline #0 {",
        "entry:",
        "  br label %down",
        "down:",
        "  %i = phi i64 [ 0, %entry ], [ %in, %below ]",
        f"  %lane = and i64 %i, {WIDTH - 1}",
        f"  %number = lshr i64 %i, {WIDTH.bit_length() - 1}",
        "  %first = mul i64 %number, %panel",
        "  %start = add i64 %first, %lane",
        "  br label %across",
        "across:",
        "  %j = phi i64 [ 0, %down ], [ %jn, %across ]",
    ]
    for k in r:
        lines += [
            f"  %i{k} = add i64 %i, {k}",
            f"  %r{k} = mul i64 %i{k}, %pitch",
            f"  %o{k} = add i64 %r{k}, %j",
            f"  %p{k} = getelementptr {kind}, ptr %from, i64 %o{k}",
            f"  %v0.{k} = load {vector}, ptr %p{k}, align {size}",
        ]
    for stage in range(BLOCK.bit_length() - 1):
        lines += _exchange(vector, stage)
    last = BLOCK.bit_length() - 1
    for k in r:
        lines += [
            f"  %j{k} = add i64 %j, {k}",
            f"  %s{k} = mul i64 %j{k}, %row",
            f"  %d{k} = add i64 %s{k}, %start",
            f"  %q{k} = getelementptr {kind}, ptr %to, i64 %d{k}",
            f"  store {vector} %v{last}.{k}, ptr %q{k}, align {size}",
        ]
    lines += [
        f"  %jn = add i64 %j, {BLOCK}",
        "  %more = icmp ult i64 %jn, %columns",
        "  br i1 %more, label %across, label %below",
        "below:",
        f"  %in = add i64 %i, {BLOCK}",
        "  %further = icmp ult i64 %in, %rows",
        "  br i1 %further, label %down, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _exchange(vector: str, stage: int) -> list[str]:
    """One stage of the butterfly: exchange bit `stage` of the row index and of the lane index."""
    step, lines = 1 << stage, list[str]()
    for k in range(BLOCK):
        low, high = k & ~step, k | step
        lanes = [
            (j if not j & step else BLOCK + j - step) if k == low
            else (j + step if not j & step else BLOCK + j)
            for j in range(BLOCK)
        ]  # fmt: skip
        lane_words = ", ".join(f"i32 {lane}" for lane in lanes)
        lines.append(
            f"  %v{stage + 1}.{k} = shufflevector {vector} %v{stage}.{low}, "
            f"{vector} %v{stage}.{high}, <{BLOCK} x i32> <{lane_words}>"
        )
    return lines
