"""Descriptions of launches in comments of a kernel's source.

    // run.a = f16[m, k] normal      a buffer
    // run.m = 4096                  a number
    // run.grid = cdiv(m, TM), cdiv(n, TN)
    // expect.c = matmul(a, b)
    // within.c = 1e-2
    // tune.TK = 32, 64              choices of a parameter

The keys are those of the metadata of `.tir` (`tileir.tools.inputs`). Extents may be expressions of
numbers that are defined earlier. Comments may also begin with `#` or `;`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tileir.errors import Diagnostic, ToolError
from tileir.tools.tuning.expressions import numbers

_LINE = re.compile(r"\s*(?://|#|;)\s*(run|expect|within|tune)\.([\w.]+)\s*=\s*(.+?)\s*")
_GIVEN = re.compile(r"(?:(run|expect|within|tune)\.)?([\w.]+)=(.*)")
_BUFFER = re.compile(r"(\w+)\s*\[([^\]]*)\]\s*(.*)")


def directives(text: str, overrides: Iterable[str] = ()) -> dict[str, str]:
    """The directives in `text`, with the changes `overrides`: `run.m=64`, or `m=64` for an
    argument. Raises `ToolError` (TIR0903) for an override of another form."""
    result: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            result[f"{match[1]}.{match[2]}"] = match[3].strip('"')
    for word in overrides:
        match = _GIVEN.fullmatch(word)
        if match is None:
            raise ToolError(Diagnostic("TIR0903", f"{word!r} is not NAME=VALUE"))
        result[f"{match[1] or 'run'}.{match[2]}"] = match[3]
    return result


def resolve_extents(stated: Mapping[str, str]) -> dict[str, str]:
    """`stated` with the extents of buffers as numbers."""
    numbers_by_name = known_numbers(stated)
    answer: dict[str, str] = {}
    for key, text in stated.items():
        match = _BUFFER.fullmatch(text) if key.startswith("run.") else None
        if match is None:
            answer[key] = text
        else:
            extents = (
                ", ".join(map(str, numbers(match[2], numbers_by_name))) if match[2].strip() else ""
            )
            answer[key] = f"{match[1]}[{extents}] {match[3]}".strip()
    return answer


def known_numbers(stated: Mapping[str, str]) -> dict[str, int]:
    """The arguments that are whole numbers, by name."""
    words = {k.removeprefix("run."): v for k, v in stated.items() if k.startswith("run.")}
    return {k: int(v) for k, v in words.items() if re.fullmatch(r"-?\d+", v)}
