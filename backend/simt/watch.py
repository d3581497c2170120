"""Machines of threads that do more than run: count, or leave a barrier out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from tileir.backend.simt.counts import Counted, Counts
from tileir.backend.simt.machine import SimtThread
from tileir.backend.simt.memory import Memory
from tileir.op import Op

Site: TypeAlias = tuple[Op, int]
"""A barrier: the op whose rule waits, and how many barriers of that rule come before."""

Make: TypeAlias = Callable[[int, Sequence[int], Sequence[int], Memory], SimtThread]


class _CountedThread(Counted, SimtThread):
    """Threads that count what they do."""


def counting(counts: Counts) -> Make:
    """Threads that add to `counts`."""

    def make(*operands: Any) -> SimtThread:
        made = _CountedThread(*operands)
        made.counts = counts
        return made

    return make


@attrs.define
class Barriers:
    """The barriers that a kernel waited at, in order, but for `without`, which does nothing."""

    without: Site | None = None
    sites: dict[Site, None] = attrs.field(factory=dict)

    def make(self, *operands: Any) -> SimtThread:
        """Threads that meet at all barriers but one."""
        made = _SkippingThread(*operands)
        made.found = self
        return made


class _SkippingThread(SimtThread):
    found: Barriers
    _at: tuple[Any, int] = (None, 0)

    def barrier(self) -> None:
        site = self._site()
        self.found.sites[site] = None
        if site != self.found.without:
            super().barrier()

    def _site(self) -> Site:
        """The barrier of the rule that runs; counting begins anew whenever a rule does."""
        run, index = self._at
        index = index + 1 if run == self.runs else 0
        self._at = (self.runs, index)
        assert self.op is not None
        return self.op, index
