"""How much work reading takes, for texts of the shapes that are the densest: calls of functions per
KiB are counted, not seconds. What is read by tokens takes ten times as many."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tileir.textual import parse

HEAD = "tir 1.0\n\n"
SIZE = 1 << 14


def kernel(body: str) -> str:
    return f"define kernel void @k(f32* %x, i32 %n, i1 %p) {{\nentry:\n{body}  ret\n}}\n"


SHAPES: dict[str, tuple[int, Callable[[int], str], Callable[[str], str]]] = {
    "ops": (2700, lambda i: f"  %a{i} = add i32 %n, {i}\n", kernel),
    "ops of other spacing": (3700, lambda i: f"\t%a{i}=add i32 %n,{i} ; c\n", kernel),
    "ops of literals": (2700, lambda i: f"  %a{i} = fadd f32 1.0, {i}.5\n", kernel),
    "tiles of many types": (5500, lambda i: f"  %a{i} = add i32<{i + 1}> {i}, {i}\n", kernel),
    "strings": (4300, lambda i: f'  assert %p {{message = "m{i}"}}\n', kernel),
    "predicated ops": (3700, lambda i: "  @%p store %x, 1.0\n", kernel),
    "blocks": (6000, lambda i: f"  br b{i}\nb{i}:\n", kernel),
    "loops": (
        4000,
        lambda i: (
            f"  br b{i}\nb{i}:\n"
            f"  %q{i} = phi i32 [0, {f'c{i - 1}' if i else 'entry'}], [%z{i}, b{i}]\n"
            f"  %z{i} = add i32 %q{i}, 1\n  cond_br %p, b{i}, c{i}\nc{i}:\n"
        ),
        kernel,
    ),
    "declarations": (2300, lambda i: f"declare i32 @f{i}(i32 %a, f32* %b)\n", str),
    "functions": (4900, lambda i: f"define void @f{i}() {{\nentry:\n  ret\n}}\n", str),
    "functions of blocks": (
        5600,
        lambda i: (
            f"define void @f{i}(i1 %p) {{\ne:\n  cond_br %p, a, b\na:\n  br b\nb:\n  ret\n}}\n"
        ),
        str,
    ),
    "functions with attributes": (
        4300,
        lambda i: (
            f"define kernel void @f{i}(f32* aligned(16) noalias %x) {{num_warps = 4}} {{\n"
            "entry:\n  ret\n}\n"
        ),
        str,
    ),
    "globals": (2500, lambda i: f"global f32 @g{i} = 0.0\n", str),
    "initial values": (1900, lambda i: f"constant i32<4> @g{i} = [1, 2, 3, 4]\n", str),
    "comments": (4400, lambda i: "; c\n", str),
    "empty lines": (9, lambda i: "\n", str),
}  # fmt: skip


def text_of(size: int, line: Callable[[int], str], around: Callable[[str], str]) -> str:
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(line(len(lines)))
        length += len(lines[-1])
    return HEAD + around("".join(lines))


def calls(text: str) -> int:
    """How many functions, of Python and of C, reading `text` calls."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    old = sys.getprofile()
    sys.setprofile(profile)
    try:
        parse(text)
    finally:
        sys.setprofile(old)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_calls_few_functions(shape: str) -> None:
    most, line, around = SHAPES[shape]
    parse(text_of(1 << 10, line, around))  # what is imported and remembered
    text = text_of(SIZE, line, around)
    calls_per_kib = calls(text) / (len(text) / 1024)
    assert 0 < calls_per_kib < most, f"{calls_per_kib:.0f} calls per KiB"
