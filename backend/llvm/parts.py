"""Long kernels as several functions, so that compiling takes time in proportion to their length.

What LLVM's code generator and the assembler keep of a function outgrows caches, and some of what
the assembler does takes the square of its length. So what lies between two places of a long
function becomes a function of its own, called there and never inlined. Values cross as parameters
and results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tileir.backend.llvm.cutting import Lines, Region, regions

_NAMED = re.compile(r"@([\w.$]+)\(")
_PREDECESSOR = re.compile(r"(?<=, )%([\w.$]+)(?= \])")
"""A block in a phi, which is the second of each pair."""


def divided(text: str, longest: int) -> str:
    """`text`, a module of LLVM IR, with its functions of more than `longest` lines cut into parts.

    Kept whole are kernels with roles, whose registers and products in flight are those of one
    function, with maps of tensors, which only a kernel has, and with lines for debuggers."""
    if "wgmma" in text or "setmaxnreg" in text:
        return text
    written, start, lines = list[str](), None, text.split("\n")
    for i, line in enumerate(lines):
        if start is None:
            start = i if line.startswith("define ") else None
            if start is None:
                written.append(line)
        elif line == "}":
            head, body = lines[start], lines[start + 1 : i]
            whole = len(body) <= longest or "byval" in head or "!dbg" in head
            written += (head, *body, "}") if whole else _function(head, body)
            start = None
    return "\n".join(written)


def _function(head: str, body: list[str]) -> Iterator[str]:
    """The function, its parts before it."""
    named = _NAMED.search(head)
    assert named
    rest, place, home = list[str](), 0, dict[str, str]()
    for number, region in enumerate(regions(Lines.of(head, body))):
        name = f"@part{number}.{named[1]}"
        yield from _part(name, region, body)
        rest += body[place : region.start]
        rest += _call(name, region)
        place = region.stop
        home[region.last] = home.get(region.first, region.first)
    yield head
    yield from (_moved(line, home) for line in (*rest, *body[place:]))
    yield "}"


def _part(name: str, region: Region, body: list[str]) -> Iterator[str]:
    """The function that `region` becomes: its block begins where the caller's stops."""
    taken = ", ".join(f"{kind} %{n}" for n, kind in region.entering.items())
    result = _together(region)
    yield f"define internal {result} {name}({taken}) noinline convergent nounwind {{"
    yield f"{region.first}:"
    yield from body[region.start : region.stop]
    if len(region.leaving) < 2:
        yield "".join(f"  ret {kind} %{n}" for n, kind in region.leaving.items()) or "  ret void"
    else:
        whole = "undef"
        for i, (n, kind) in enumerate(region.leaving.items()):
            yield f"  %given.{i} = insertvalue {result} {whole}, {kind} %{n}, {i}"
            whole = f"%given.{i}"
        yield f"  ret {result} {whole}"
    yield "}"


def _call(name: str, region: Region) -> Iterator[str]:
    """What stands in place of `region`."""
    taken = ", ".join(f"{kind} %{n}" for n, kind in region.entering.items())
    result = _together(region)
    call = f"call {result} {name}({taken}) convergent nounwind"
    if len(region.leaving) < 2:
        yield "".join(f"  %{n} = {call}" for n in region.leaving) or f"  {call}"
        return
    yield f"  %given.{region.start} = {call}"
    for i, n in enumerate(region.leaving):
        yield f"  %{n} = extractvalue {result} %given.{region.start}, {i}"


def _together(region: Region) -> str:
    """The type of all that leaves."""
    kinds = [*region.leaving.values()]
    return "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"


def _moved(line: str, home: Mapping[str, str]) -> str:
    """`line` where blocks go on in others: the block of a call is that which its part ended in."""
    if " = phi " not in line:
        return line
    return _PREDECESSOR.sub(lambda m: f"%{home.get(m[1], m[1])}", line)
