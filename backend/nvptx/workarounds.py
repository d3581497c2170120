"""PTX written around defects of assemblers."""

from __future__ import annotations

import re

_NEGATION = re.compile(r"neg\.s32( *\t?)(%r\d+), (%r\d+);")
_CHOICE = re.compile(r"\b(?:min|max)\.s32\b")


def negations_kept(ptx: str) -> str:
    """`ptx` with negations that a minimum or maximum of signed words keeps.

    ptxas 13.0 makes one instruction of two of these for sm_90 and sm_100, VIMNMX3, and leaves out
    the minus of its second operand. It keeps ~x + 1."""
    if "neg.s32" not in ptx or not _CHOICE.search(ptx):
        return ptx
    return _NEGATION.sub(r"not.b32\g<1>\2, \3;\n\tadd.s32\g<1>\2, \2, 1;", ptx)
