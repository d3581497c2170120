"""Workaround for a defect of LLVM's code generator for AVX-512.

The first 8 or 16 lanes of a mask are extracted by `kmovb %k1, %k2` or `kmovw`, which clear the bits
above. If both masks are spilled, the register allocator treats this instruction as a copy and
stores the uncleared mask twice (LLVM 22.1, docs/explanation/cpu.md): inactive lanes then access
memory. LLVM selects the instruction for shuffles with zeros, which its optimizer creates from
`and`. This module replaces these shuffles by `and`.
"""

from __future__ import annotations

import re

_SHUFFLE = re.compile(
    r"^( *)(%\S+) = shufflevector <(\d+) x i1> (%\S+), <\3 x i1> (<[^>]*>|zeroinitializer), "
    r"<\3 x i32> <([^>]*)>", re.MULTILINE,
)  # fmt: skip


def without_partial_masks(text: str) -> str:
    """LLVM IR with `and` in place of shuffles that clear lanes of a mask and keep the others in
    place."""
    return _SHUFFLE.sub(_replacement, text) if " x i1> " in text else text


def _replacement(match: re.Match[str]) -> str:
    indent, name, count, mask, other, lanes = match.groups()
    width, active = int(count), list[int]()
    zeros = ["false"] * width if other == "zeroinitializer" else re.findall(r"i1 (\w+)", other)
    for lane, source in enumerate(re.findall(r"i32 (\w+)", lanes)):
        if source == str(lane):
            active.append(lane)
        elif source != "poison" and (int(source) < width or zeros[int(source) - width] == "true"):
            return match[0]
    ones = ", ".join(f"i1 {str(lane in active).lower()}" for lane in range(width))
    return f"{indent}{name} = and <{width} x i1> {mask}, <{ones}>"
