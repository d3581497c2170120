"""Entry points into the middle of kernels with thousands of branches and predicated accesses, so
that ptxas does not take quadratic time.

To ptxas a predicated access is a block, and some of its phases walk up the dominators of each: in
sequence they form a chain as long as the kernel. Therefore branches that are never taken lead from
the start of a kernel to entry points in its middle. These are at least `_LEAST_DISTANCE` blocks
apart, at positions that no other branch crosses, so that loops keep a single entry. The chains of
dominators are short then. Predicated loads become unconditional loads, which are no blocks: where
the predicate is false, they read zeros from a constant block, and the zeros are discarded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MANY = 4096
"""Branches and predicated accesses of a function, above which it has entrances."""

_LEAST_DISTANCE = 128
"""The least number of blocks between two entrances."""

_NO_GPU = 1 << 16
"""More multiprocessors than a GPU has."""

_START = "\t.reg .b64 %near, %zeros;\n\tmov.u64 %zeros, $zeros;"
_ZEROS = "\n.global .align 32 .b8 $zeros[32];\n"
"""A block of zeros, as large as the largest access of a thread. Names of LLVM do not begin with
`$`."""

_FUNCTION = re.compile(r"^\{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_GUARDED = re.compile(r"@!?%p\d")
_LABEL = re.compile(r"([$\w]+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+([$\w]+);")
_WHOLE = re.compile(r"\bbrx\b|\bwgmma\b")
"""Branches with indirect targets; wgmma in flight."""

_LOAD = re.compile(
    r"((?:mov\.b\d+ %\w+, %\w+; )*)@(%p\d+) (ld\.global[.\w:]*) ([^;]+), \[(%rd\d+)\]([^;]*);"
)
_MOVE = re.compile(r"mov\.b(\d+) (%\w+), (%\w+);")


def break_dominator_chains(ptx: str) -> str:
    """`ptx` with entry points, and without predicated loads, in functions of more than `_MANY`
    blocks; `ptx` itself if there is no such function."""
    if ptx.count("@") <= _MANY:
        return ptx
    rewritten = _FUNCTION.sub(lambda body: f"{{\n{_function(body[1])}}}", ptx)
    if "$zeros" in rewritten:
        head, size, functions = rewritten.partition(".address_size 64\n")
        rewritten = f"{head}{size}{_ZEROS}{functions}"
    return rewritten


def _function(body: str) -> str:
    if len(_GUARDED.findall(body)) <= _MANY or _WHOLE.search(body):
        return body
    lines = body.split("\n")
    places = _entrances(lines)
    start = next(i for i, line in enumerate(lines) if _is_code(line))
    written = [*lines[:start], _START, *(_ways_in(len(places)) if places else ())]
    labels = {place: f"$entrance_{i}:" for i, place in enumerate(places)}
    for i, line in enumerate(lines[start:], start):
        if i in labels:
            written.append(labels[i])
        written.append(_LOAD.sub(_as_unconditional_load, line) if "@" in line else line)
    return "\n".join(written)


def _is_code(line: str) -> bool:
    """Whether the line is an instruction, and not a label, directive or comment."""
    return (line.startswith("\t") and line[1:2].isalpha()) or line.startswith("\t@")


def _entrances(lines: Sequence[str]) -> list[int]:
    """The lines before which an entry point may be inserted: outside braces, inline assembly and
    the span of every branch, at least `_LEAST_DISTANCE` blocks after the previous one."""
    crossing, entrances, passed, depth, assembly = _crossings(lines), list[int](), 0, 0, False
    for i, line in enumerate(lines):
        if "inline asm" in line:
            assembly = "begin" in line
        if passed >= _LEAST_DISTANCE and not (crossing[i] or depth or assembly) and _is_code(line):
            entrances.append(i)
            passed = 0
        passed += len(_GUARDED.findall(line))
        depth += line.count("{") - line.count("}")
    return entrances


def _crossings(lines: Sequence[str]) -> list[int]:
    """The number of branches that cross the position before each line."""
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    change = [0] * (len(lines) + 1)
    for i, line in enumerate(lines):
        for name in _BRANCH.findall(line):
            first, last = sorted((i, labels.get(name, i)))
            change[first + 1] += 1
            change[last + 1] -= 1
    total = 0
    return [total := total + step for step in change]


def _ways_in(count: int) -> Iterator[str]:
    """Branches to all entry points, by binary search on the number of multiprocessors. They are
    taken only on GPUs with more multiprocessors than any GPU has."""
    yield "\t.reg .pred %far;\n\t.reg .b32 %many;"
    yield f"\tmov.u32 %many, %nsmid;\n\tsetp.lt.u32 %far, %many, {_NO_GPU};"
    yield "\t@%far bra.uni $entered;"
    yield from _halves(0, count)
    yield "$entered:"


def _halves(first: int, stop: int) -> Iterator[str]:
    if stop - first < 2:
        yield f"\tbra.uni $entrance_{first};"
        return
    middle = (first + stop) // 2
    yield f"\tsetp.lt.u32 %far, %many, {_NO_GPU + middle};\n\t@!%far bra.uni $from_{middle};"
    yield from _halves(first, middle)
    yield f"$from_{middle}:"
    yield from _halves(middle, stop)


def _as_unconditional_load(load: re.Match[str]) -> str:
    """A predicated load as an unconditional one, from the block of zeros where the predicate is
    false."""
    moves, guard, name, results, place, hint = load.groups()
    defaults = _MOVE.findall(moves)
    if {x for _, _, x in defaults} & {r for _, r, _ in defaults}:
        return load[0]
    chosen = "".join(f" selp.b{size} {r}, {r}, {x}, {guard};" for size, r, x in defaults)
    return f"selp.b64 %near, {place}, %zeros, {guard}; {name} {results}, [%near]{hint};{chosen}"
