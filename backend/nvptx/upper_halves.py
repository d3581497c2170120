"""Conversion of numbers in bf16 that are the upper half of a word, in PTX.

A bf16 is the upper half of an f32. ptxas 13.0 converts the lower half of a word by one shift. For
the upper half it takes two instructions: it moves the half down, and shifts it up again. Masking
the word is one. LLVM does not see halves as parts of a word, and narrows arithmetic only between
conversions, so they are masked after it.
"""

from __future__ import annotations

import re

_PARTS = re.compile(r"\tmov\.b32 \t\{(%rs\d+), (%rs\d+)\}, (%r\d+);$")
_WIDENS = re.compile(r"\tcvt\.f32\.bf16 \t(%r\d+), (%rs\d+);$")
_ONE = re.compile(r"\t[\w.]+ +\t(%\w+)[^;]*;$")
_REGISTER = re.compile(r"%[a-z]+\d+\b")


def upper_halves_masked(ptx: str) -> str:
    """`ptx` in which a conversion to f32 of the upper half of a word masks the word, if both are as
    they were when the word was taken apart in the same basic block."""
    lines: list[str] = []
    words: dict[str, str] = {}  # by upper half
    halves: dict[str, str] = {}  # by word
    for line in ptx.split("\n"):
        if line[:1] != "\t":  # usually a label
            words, halves = {}, {}
        widens = _WIDENS.match(line)
        if widens and widens[2] in words:
            line = f"\tand.b32 \t{widens[1]}, {words[widens[2]]}, -65536;"
        lines.append(line)
        parts = _PARTS.match(line)
        for register in registers_written(line):
            half = halves.pop(register, register)
            halves.pop(words.pop(half, ""), None)
        if parts:
            words.pop(halves.pop(parts[3], ""), None)  # an earlier half of the same word
            words[parts[2]], halves[parts[3]] = parts[3], parts[2]
    return "\n".join(lines)


def registers_written(line: str) -> list[str]:
    """The registers that a line of PTX may write."""
    parts, one = _PARTS.match(line), _ONE.match(line)
    if parts:
        return [parts[1], parts[2]]
    return [one[1]] if one else _REGISTER.findall(line)
