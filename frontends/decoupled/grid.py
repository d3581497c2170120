"""The launch grid that a schedule asks for: levels of loops over blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tileir import records
from tileir.frontends.decoupled.schedule import Schedule


@records.frozen
class Level:
    """A level of the launch grid: a loop of `count` over `label`, of which `inner`, a level of its
    own, counts `factor` positions each. `total` is how many positions there are in all, `of` the
    dimension they are blocks of."""

    label: str
    inner: str | None
    factor: int
    total: int
    of: str

    @property
    def count(self) -> int:
        """Rounds of the loop."""
        return -(-self.total // self.factor)


def levels(schedule: Schedule, sizes: Mapping[str, int]) -> tuple[Level, ...]:
    """The levels of a kernel's grid, the outermost first: what `map` does not name is outside, what
    `block` names last outermost."""
    totals = {n: -(-sizes[n] // min(block, sizes[n])) for n, block in schedule.blocks.items()}
    mapped, of = {split.label for split in schedule.order}, {n: n for n in totals}
    found = [Level(n, None, 1, totals[n], n) for n in reversed(list(totals)) if n not in mapped]
    for split in schedule.order:
        own = of[split.label]
        found.append(Level(split.label, split.inner, split.factor, totals[split.label], own))
        if split.inner is not None:
            totals[split.inner], of[split.inner] = split.factor, own
    return tuple(found)


def instances(found: Sequence[Level]) -> int:
    """Program instances of a grid."""
    return math.prod(level.count for level in found)
