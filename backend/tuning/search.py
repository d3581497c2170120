"""Search strategies: the candidates to measure next, from the outcomes so far.

A search proposes batches of trials, and gets the outcomes of each batch before it proposes the next
one. It depends only on the outcomes, its seed and the cost model: the same measurements lead to the
same choice, in whatever order they arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from random import Random
from typing import Protocol

import attrs

from tileir.backend.measurement.outcome import CandidateOutcome
from tileir.backend.measurement.points import Point, point_name
from tileir.backend.tuning.evaluate import Trial
from tileir.backend.tuning.space import Space
from tileir.backend.tuning.surrogate import Surrogate


@attrs.frozen
class SearchState:
    """The state of a search.

    It has the candidates with their predicted times in seconds, the fastest first, and the outcomes
    so far: for each point the outcome with the most launches.
    """

    space: Space
    candidates: Sequence[Point]
    predicted: Mapping[str, float]
    outcomes: Mapping[str, CandidateOutcome]

    @property
    def good_outcomes(self) -> list[CandidateOutcome]:
        """The successful outcomes, the fastest first."""
        good = [o for o in self.outcomes.values() if o.good]
        return sorted(good, key=lambda o: (o.seconds, o.name))

    def untried_points(self) -> list[Point]:
        """The candidates without an outcome, in order."""
        return [p for p in self.candidates if point_name(p) not in self.outcomes]

    def launches(self, name: str) -> int:
        """Return the number of launches by which the point was measured."""
        outcome = self.outcomes.get(name)
        return 0 if outcome is None else outcome.launches


class Search(Protocol):
    """A search strategy."""

    @property
    def name(self) -> str:
        """The name of the strategy on the command line."""
        ...

    def propose(self, field: SearchState) -> list[Trial]:
        """Return the next trials; none ends the search."""
        ...

    def trial_estimate(self, candidates: int) -> int:
        """Estimate the number of trials for a search of `candidates` candidates."""
        ...


@attrs.frozen
class Exhaustive:
    """Measures every candidate in batches of `batch`, the fastest by the cost model first."""

    launches: int = 20
    batch: int = 64
    name: str = "exhaustive"

    def propose(self, field: SearchState) -> list[Trial]:
        return [Trial(p, self.launches) for p in field.untried_points()[: self.batch]]

    def trial_estimate(self, candidates: int) -> int:
        return candidates


@attrs.frozen
class Halving:
    """Successive halving (Jamieson and Talwalkar, AISTATS 2016).

    Each rung measures its candidates by more launches than the rung before, and keeps the best of
    them, until `final` candidates are left that were measured by `launches` launches. `first` is
    the number of launches in the first rung, `keep` the share of candidates that a rung keeps.
    `most` is the number of candidates in the first rung, the fastest by the cost model; None is
    all.
    """

    launches: int = 60
    first: int = 3
    keep: float = 0.25
    final: int = 4
    most: int | None = None
    name: str = "halving"

    def propose(self, field: SearchState) -> list[Trial]:
        alive: Sequence[Point] = field.candidates[: self.most]
        launches = self.first
        while True:
            due = [p for p in alive if field.launches(point_name(p)) < launches]
            tried = [p for p in due if not self._has_failed(field, p)]
            if tried:
                return [Trial(p, launches) for p in tried]
            if launches >= self.launches:
                return []
            alive = self._best(field, alive)
            launches = min(self.launches, max(launches + 1, ceil(launches / self.keep)))

    def _has_failed(self, field: SearchState, point: Point) -> bool:
        outcome = field.outcomes.get(point_name(point))
        return outcome is not None and not outcome.good

    def _best(self, field: SearchState, alive: Sequence[Point]) -> list[Point]:
        names = {point_name(p) for p in alive}
        outcomes = [o for o in field.good_outcomes if o.name in names]
        count = max(self.final, ceil(len(outcomes) * self.keep))
        return [o.point for o in outcomes[:count]]

    def trial_estimate(self, candidates: int) -> int:
        total, alive, launches = 0, min(candidates, self.most or candidates), self.first
        while True:
            total += alive
            if launches >= self.launches:
                return total
            alive = min(alive, max(self.final, ceil(alive * self.keep)))
            launches = min(self.launches, max(launches + 1, ceil(launches / self.keep)))


@attrs.frozen
class Local:
    """Local search guided by a model.

    It begins with the `starts` candidates that the cost model ranks highest, and some random ones.
    From then on the cost model, corrected by measurements (`surrogate`), selects which neighbours
    of the best candidates to measure, and one other candidate. The search stops after `patience`
    batches without an improvement.
    """

    launches: int = 20
    starts: int = 16
    batch: int = 8
    patience: int = 3
    seed: int = 0
    name: str = "local"

    def propose(self, field: SearchState) -> list[Trial]:
        if len(field.outcomes) < min(self.starts, len(field.candidates)):
            return self._trials(self._first(field))
        if self._stale(field):
            return []
        untried = {point_name(p): p for p in field.untried_points()}
        model = Surrogate.fit(field.space, field.good_outcomes, field.predicted)
        near = self._near(field, untried)
        ranked = sorted(near, key=lambda n: (model.seconds(untried[n]), n))[: self.batch - 2]
        unranked = sorted(
            untried.keys() - set(ranked), key=lambda n: (model.seconds(untried[n]), n)
        )
        chosen = [*ranked, *unranked[: self.batch - len(ranked)]]
        return self._trials([untried[name] for name in chosen])

    def _first(self, field: SearchState) -> list[Point]:
        untried = field.untried_points()
        count = self.starts - len(field.outcomes)
        head = untried[: ceil(count * 3 / 4)]
        tail = untried[len(head) :]
        drawn = Random(self.seed).sample(tail, min(len(tail), count - len(head)))
        return [*head, *drawn]

    def _near(self, field: SearchState, untried: Mapping[str, Point]) -> set[str]:
        """Untried neighbours of the three best."""
        around = (p for o in field.good_outcomes[:3] for p in field.space.neighbours(o.point))
        return {point_name(p) for p in around} & untried.keys()

    def _stale(self, field: SearchState) -> bool:
        """Whether `patience` batches brought no improvement and all neighbours of the best were
        tried."""
        order = list(field.outcomes.values())
        if not field.good_outcomes:
            return False
        best = field.good_outcomes[0].seconds or 0.0
        since = next(i for i, o in enumerate(reversed(order)) if o.good and o.seconds == best)
        return since >= self.patience * self.batch

    def _trials(self, points: Sequence[Point]) -> list[Trial]:
        return [Trial(p, self.launches) for p in points]

    def trial_estimate(self, candidates: int) -> int:
        return min(candidates, self.starts + 2 * self.patience * self.batch)


SEARCHES = {"exhaustive": Exhaustive, "halving": Halving, "local": Local}
"""The search strategies by name."""
