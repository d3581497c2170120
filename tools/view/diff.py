"""The difference of two texts side by side: pairs of corresponding lines, and the changes within
them."""

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
    """A pair of lines; a line is None if the other text has no corresponding one. Line numbers
    start at 1."""

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
    """Both lines in segments, each with whether it is only in that line."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    left: list[tuple[bool, str]] = []
    right: list[tuple[bool, str]] = []
    for same, i, j, k, n in _blocks(before, after):
        left.append((not same, "".join(before[i:j])))
        right.append((not same, "".join(after[k:n])))
    return [p for p in left if p[1]], [p for p in right if p[1]]


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Yield runs of lines of both texts, and whether they are equal."""
    for tag, *bounds in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        i, j, k, n = bounds
        yield tag == "equal", i, j, k, n


def _side_by_side(
    old: Sequence[str], new: Sequence[str], i: int, j: int, k: int, n: int, *,
    same: bool = False, paired: bool = True,
) -> Iterator[Pair]:  # fmt: skip
    """Pair the lines of two runs; the remaining lines of the longer run stay single. Runs that are
    not `paired` are shown one after the other."""
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
