"""Pruning of candidates that are not worth compiling, because they do not fit or their predicted
time is too long."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.backend.measurement.errors import tune_error
from tileir.backend.measurement.meter import Survey
from tileir.backend.measurement.outcome import CandidateOutcome, failure
from tileir.backend.measurement.points import Point, point_name
from tileir.backend.target import Target, target


@attrs.frozen
class Pruning:
    """Limits for candidates that are not measured.

    `slower`: candidates are pruned if their predicted time exceeds that of the best candidate this
    many times; None prunes none. `excess`: candidates are pruned if a thread is estimated to spill
    more than this many registers; None prunes none.
    """

    slower: float | None = 3.0
    excess: int | None = 160


def ruled_out(survey: Survey, machine: Target, pruning: Pruning) -> str | None:
    """The reason in its survey why a candidate does not fit on `machine`; None if it may fit."""
    use = survey.use
    if use is None:
        return None
    if use.shared > machine.shared_bytes:
        return f"{use.shared} bytes of shared memory, of {machine.shared_bytes}"
    if use.resident(machine) == 0:
        return f"{use.warps} warps with {use.registers} registers exceed the register file"
    if pruning.excess is not None and use.excess > pruning.excess:
        return f"about {use.registers} registers a thread, of {use.limit}"
    return None


def prune_candidates(
    surveys: Mapping[str, tuple[Point, Survey]], machine: str | None, pruning: Pruning
) -> dict[str, CandidateOutcome]:
    """Outcomes TIR1104 of candidates that are not worth compiling, by name."""
    outcomes: dict[str, CandidateOutcome] = {}
    for name, (point, survey) in surveys.items():
        why = None if machine is None else ruled_out(survey, target(machine), pruning)
        if why is not None:
            outcomes[name] = _without(point, survey, why)
    candidates = {
        n: s for n, (_, s) in surveys.items() if n not in outcomes and s.seconds is not None
    }
    if pruning.slower is None or not candidates:
        return outcomes
    best = min(s.seconds or 0.0 for s in candidates.values())
    for name, survey in candidates.items():
        ratio = (survey.seconds or 0.0) / best
        if ratio > pruning.slower:
            why = f"expected to take {ratio:.1f} times as long as the best"
            outcomes[name] = _without(surveys[name][0], survey, why)
    return outcomes


def _without(point: Point, survey: Survey, why: str) -> CandidateOutcome:
    return failure(point, tune_error(why, "TIR1104"), predicted=survey.seconds)


__all__ = ["Pruning", "point_name", "prune_candidates", "ruled_out"]
