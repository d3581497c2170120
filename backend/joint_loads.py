"""Loads of PTX that are issued before the first of them is waited for.

ptxas may delay a load until shortly before its result is used, to use fewer registers: each load is
then waited for alone. `bar.warp.sync` orders accesses of memory, so a load before it is issued
before it; as machine code it takes one instruction, if any. It is used in the first basic block of
a kernel only, which all threads of a warp execute together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_REGISTER = re.compile(r"%(?:r|rs|rd|f|fd|rq|p)\d+\b")
_DESTINATION = re.compile(r"\s*(?:@!?%p\d+\s+)?[\w.:]+\s+(\{[^}]*\}|%\w+(?:\|%\w+)?)")
_END = re.compile(r"\s*(?:\$L\w+:|(?:@!?%p\d+\s+)?(?:bra|brx|ret|exit|trap)\b)")
_ASM = "// begin inline asm"
_LOAD = "ld.global"
_BARRIER = "\tbar.warp.sync \t0xffffffff;"


def with_joint_loads(ptx: str) -> str:
    """`ptx` of one kernel with a barrier of each warp after loads of the first basic block that do
    not depend on each other: before the first instruction that computes with one of their results,
    if there are two or more."""
    lines = ptx.split("\n")
    places = list(_places(lines))
    for place in reversed(places):
        lines.insert(place, _BARRIER)
    return "\n".join(lines)


def _places(lines: list[str]) -> Iterator[int]:
    """The numbers of the lines before which a barrier holds two loads or more."""
    kernel = next((i for i, line in enumerate(lines) if ".entry " in line), len(lines))
    start = next((i for i in range(kernel, len(lines)) if lines[i] == "{"), len(lines))
    loaded, count = set[str](), 0
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if _END.match(line):
            return
        for statement in line.split(";"):
            written, read = _registers(statement)
            if not loaded.isdisjoint(read) and "mov." not in statement:
                if count > 1:
                    yield number - (lines[number - 1].strip() == _ASM)
                loaded, count = set(), 0
            if _LOAD in statement:
                count += 1
            if _LOAD in statement or not loaded.isdisjoint(read):
                loaded.update(written)


def _registers(statement: str) -> tuple[set[str], set[str]]:
    """The registers that a statement writes, as its first operand, and the others."""
    destination = _DESTINATION.match(statement)
    if destination is None:
        return set(), set(_REGISTER.findall(statement))
    written = set(_REGISTER.findall(destination[1]))
    return written, set(_REGISTER.findall(statement[destination.end() :]))
