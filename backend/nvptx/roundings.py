"""Numbers that are rounded to bf16 and stay f32, in PTX.

A bf16 is the upper half of an f32. ptxas 13.0 converts a single number to bf16 by F2F, which the
unit of special functions executes, and back by a shift. Converted together with zero, it becomes
the upper half of a word whose lower half is zero, which is the rounded number as f32. This is one
instruction, F2FP.
"""

from __future__ import annotations

import re

from tileir.backend.nvptx.upper_halves import registers_written

_NARROWS = re.compile(r"\tcvt\.rn\.bf16\.f32 \t(%rs\d+), (%[rf]\d+);$")
_WIDENS = re.compile(r"\tcvt\.f32\.bf16 \t(%[rf]\d+), (%rs\d+);$")


def rounded_in_words(ptx: str) -> str:
    """`ptx` in which a conversion to f32 of a number that was rounded to bf16 narrows the number
    again, to the upper half of a word, if both are as they were in the same basic block. The other
    rounding stays: it may have further uses, and the assembler removes it if it has none."""
    lines: list[str] = []
    sources: dict[str, str] = {}  # by rounded number
    results: dict[str, list[str]] = {}  # what a number was rounded to
    for line in ptx.split("\n"):
        if line[:1] != "\t":  # usually a label
            sources, results = {}, {}
        widens = _WIDENS.match(line)
        if widens and widens[2] in sources:
            line = f"\tcvt.rn.bf16x2.f32 \t{widens[1]}, {sources[widens[2]]}, 0f00000000;"
        lines.append(line)
        for register in registers_written(line) if sources else ():
            for x in (register, *results.pop(register, ())):
                sources.pop(x, None)
        narrows = _NARROWS.match(line)
        if narrows:
            sources[narrows[1]] = narrows[2]
            results.setdefault(narrows[2], []).append(narrows[1])
    return "\n".join(lines)
