"""Two texts side by side: which lines belong together, and what changed within them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import attrs

from tileir.passmanager.renumbering import renumber

_DEFINED = re.compile(r"\s*(?:@\S+\s+)?(%[\w.$-]+)")
_WORD = re.compile(r"[\w.%#$@-]+|\s+|.")


@attrs.frozen
class Pair:
    """A line of both texts; None where the other has none. Numbers count from 1."""

    old: str | None
    new: str | None
    old_number: int = 0
    new_number: int = 0
    same: bool = False
    """Whether nothing changed but the numbers of values without names."""


def pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[Pair]:
    """The lines of both texts in order. Changed lines that define the same value, or begin with
    the same word, stand next to each other."""
    renumbered = renumber(old, new)
    for same, i, j, k, n in _blocks(old, renumbered):
        if same:
            yield from _side_by_side(old, new, i, j, k, n, same=True)
            continue
        before, after = [_key(s) for s in old[i:j]], [_key(s) for s in renumbered[k:n]]
        for paired, a, b, c, d in _blocks(before, after):
            yield from _side_by_side(old, new, i + a, i + b, k + c, k + d, paired=paired)


def segments(old: str, new: str) -> tuple[list[tuple[bool, str]], list[tuple[bool, str]]]:
    """Both lines in segments, each with whether it is only there."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    left: list[tuple[bool, str]] = []
    right: list[tuple[bool, str]] = []
    for same, i, j, k, n in _blocks(before, after):
        left.append((not same, "".join(before[i:j])))
        right.append((not same, "".join(after[k:n])))
    return [p for p in left if p[1]], [p for p in right if p[1]]


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Stretches of both, and whether they are equal."""
    for tag, *bounds in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        i, j, k, n = bounds
        yield tag == "equal", i, j, k, n


def _side_by_side(
    old: Sequence[str], new: Sequence[str], i: int, j: int, k: int, n: int, *,
    same: bool = False, paired: bool = True,
) -> Iterator[Pair]:  # fmt: skip
    """Lines one by one; those of the longer stretch that are left over alone. Stretches that are
    not `paired` stand one below the other."""
    together = min(j - i, n - k) if paired else 0
    for at in range(together):
        yield Pair(old[i + at], new[k + at], i + at + 1, k + at + 1, same)
    for at in range(i + together, j):
        yield Pair(old[at], None, at + 1)
    for at in range(k + together, n):
        yield Pair(None, new[at], 0, at + 1)


def _key(line: str) -> str:
    """The subject of a line: the first value that it names, else its first word."""
    result = _DEFINED.match(line)
    return result[1] if result else line.split(" ")[0] if line[:1] != " " else line.split()[0]
