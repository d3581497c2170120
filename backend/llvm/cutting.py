"""Where a long function of LLVM IR can be cut: between which of its lines something lies that
control enters at one place and leaves at one other.

That is so where no branch leads from between two places to elsewhere or back: where the same
branches are under way at both. Each branch has a random number, and a place the exclusive or of
the numbers of those that are under way (LLVM refuses what is cut where two such sums are equal by
accident: a branch then leads to a label that is not there).
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tileir import records
from tileir.backend.llvm.types import defined_type, leading_type, operands

_LEAST, _MOST = 512, 2048
"""Lines of a part."""

_VALUES = 32
"""The most values that enter or leave a part: each takes a register, or local memory, and an
instruction on both sides of the call."""

_STRIDE = 64
"""How much further the next part is looked for where too much enters or leaves."""

_NAME = re.compile(r"%([\w.$]+)")
_QUOTED = re.compile(r'"[^"]*"')
"""Assembly, whose registers have names of their own."""
_ENDS = ("  br ", "  ret ", "  unreachable", "  switch ")


@records.frozen(eq=False)
class Region:
    """Lines `start` to `stop` of a function, `stop` not included, the labels of the blocks that
    they begin in and that they leave unfinished, and what enters and leaves: types by name."""

    start: int
    stop: int
    first: str
    last: str
    entering: dict[str, str]
    leaving: dict[str, str]


@records.frozen(eq=False)
class Lines:
    """What the lines of a function define and mention."""

    body: list[str]
    parameters: dict[str, str]
    """Types by name."""
    names: list[list[str]]
    """The values and labels that each line mentions, what it defines first."""
    defined: dict[str, int]
    """The line of each value; -1 for parameters."""
    last: dict[str, int]
    """The last line that mentions each value or label."""
    early: dict[str, int]
    """The first phi that takes each value, from further on in a loop as well."""
    labels: dict[str, int]
    """Their lines, in order."""

    @classmethod
    def of(cls, head: str, body: list[str]) -> Lines:
        names = [_NAME.findall(_QUOTED.sub("", line) if '"' in line else line) for line in body]
        parameters = _parameters(head)
        defined = dict.fromkeys(parameters, -1)
        defined |= {names[i][0]: i for i, line in enumerate(body) if line.startswith("  %")}
        last = {name: i for i, found in enumerate(names) for name in found}
        phis = [i for i, line in enumerate(body) if " = phi " in line]
        early = {name: i for i in reversed(phis) for name in names[i][1:]}
        labels = {line[:-1]: i for i, line in enumerate(body) if line.endswith(":")}
        return cls(body, parameters, names, defined, last, early, labels)

    def region(self, start: int, stop: int) -> Region | None:
        """Lines `start` to `stop`; None where more than `_VALUES` values enter or leave."""
        defined, last = self.defined, self.last
        used = dict.fromkeys(n for names in self.names[start:stop] for n in names)
        own = [n for n in used if start <= defined.get(n, -1) < stop]
        entering = [n for n in used if defined.get(n, stop) < start]
        leaving = [n for n in own if last[n] >= stop or self.early.get(n, stop) < start]
        if max(len(entering), len(leaving)) > _VALUES:
            return None
        return Region(
            start, stop, self._block(start), self._block(stop),
            {n: self._type(n) for n in entering}, {n: self._type(n) for n in leaving},
        )  # fmt: skip

    def _type(self, name: str) -> str:
        line = self.defined[name]
        if line < 0:
            return self.parameters[name]
        return defined_type(self.body[line].split(" = ", 1)[1])

    def _block(self, place: int) -> str:
        """The label of the block that a line is in."""
        labels = list(self.labels)
        return labels[bisect_right(list(self.labels.values()), place) - 1]

    def within_blocks(self) -> list[int]:
        """Places that continue a block behind its phis, but not the first block, where what is in
        local memory is allocated."""
        found, inside = list[int](), False
        first = next((i for i in self.labels.values() if i), len(self.body))
        for i, line in enumerate(self.body):
            if inside and i > first and not line.endswith(":") and " = phi " not in line:
                found.append(i)
            inside = not line.startswith(_ENDS)
        return found

    def under_way(self) -> list[int]:
        """By place: the number of the branches that are under way before the line."""
        chance, ends = random.Random(0), [0] * len(self.body)
        for i, line in enumerate(self.body):
            if line.startswith(_ENDS):
                leads = (self.labels[n] for n in self.names[i] if n in self.labels)
                for label in leads:
                    number = chance.getrandbits(64)
                    ends[i] ^= number
                    ends[label] ^= number
                if line.startswith("  ret "):
                    ends[i] ^= chance.getrandbits(64)
        found, now = list[int](), 0
        for end in ends:
            found.append(now)
            now ^= end
        return found

    def crossing(self) -> list[int]:
        """By place: how many values defined before it a line from there on mentions."""
        changes = [0] * (len(self.body) + 2)
        for name, line in self.defined.items():
            changes[line + 1] += 1
            changes[self.last.get(name, line) + 1] -= 1
        found, count = list[int](), 0
        for change in changes:
            count += change
            found.append(count)
        return found


def regions(lines: Lines) -> Iterator[Region]:
    """What becomes parts, one behind the other: from the first place on that has another `_LEAST`
    to `_MOST` lines further, up to the one of these that the fewest values cross."""
    crossing, under_way, places = lines.crossing(), lines.under_way(), lines.within_blocks()
    alike: dict[int, list[int]] = {}
    for place in places:
        alike.setdefault(under_way[place], []).append(place)
    free = 0
    for place in places:
        if place < free:
            continue
        others = alike[under_way[place]]
        low, high = bisect_left(others, place + _LEAST), bisect_right(others, place + _MOST)
        if low == high:
            continue
        end = min(others[low:high], key=lambda p: (crossing[p], -p))
        found = lines.region(place, end)
        if found is None:
            free = place + _STRIDE
        else:
            free = end
            yield found


def _parameters(head: str) -> dict[str, str]:
    """The types of a function's parameters."""
    texts = operands(head[head.index("(", head.index("@")) + 1 : head.rindex(")")])
    return {_NAME.findall(text)[0]: leading_type(text) for text in texts if text}
