"""The ranking of candidates by the cost model, before any candidate is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileir.backend.measurement.arguments import footprint_of, numbers_in
from tileir.backend.measurement.meter import Meter, Survey
from tileir.backend.measurement.outcome import failure
from tileir.backend.measurement.points import Point
from tileir.backend.tuning import Problem, Pruning, TimeLimits, point_name
from tileir.backend.tuning.evaluate import Evaluator
from tileir.backend.tuning.prune import prune_candidates
from tileir.backend.tuning.report import duration
from tileir.tools.table import Row, plain

_LISTED = 20


@attrs.frozen
class Ranking:
    """Candidates by name in the order of the cost model, and the messages of those that were left
    out."""

    candidates: Mapping[str, tuple[Point, Survey]]
    infeasible: Mapping[str, str]
    pruned: Mapping[str, str]

    def __str__(self) -> str:
        """A table of the first candidates, and the first messages."""
        left_out = len(self.infeasible) + len(self.pruned)
        rows = [_row(n, survey) for n, (_, survey) in list(self.candidates.items())[:_LISTED]]
        lines = [f"{len(self.candidates) + left_out} candidates, {left_out} left out"]
        lines.append(plain(_HEADS, rows))
        for messages in (self.infeasible, self.pruned):
            lines += [f"{name}: {message}" for name, message in sorted(messages.items())[:3]]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Every candidate with its estimated seconds, and the messages of those left out."""
        return {
            "candidates": [
                {"point": dict(point), "seconds": survey.seconds}
                for point, survey in self.candidates.values()
            ],
            "infeasible": dict(self.infeasible),
            "pruned": dict(self.pruned),
        }


def ranking(problem: Problem, meter: Meter, processes: int | None, pruning: Pruning) -> Ranking:
    """Rank all candidates of `problem` by the cost model."""
    result: dict[str, tuple[Point, Survey]] = {}
    infeasible: dict[str, str] = {}
    inputs = problem.inputs()
    facts = numbers_in(inputs), footprint_of(inputs)
    with Evaluator(problem, meter, None, TimeLimits(), processes) as evaluator:
        for point, survey in evaluator.survey(list(problem.space), *facts):
            if isinstance(survey, Survey):
                result[point_name(point)] = point, survey
            else:
                infeasible[point_name(point)] = failure(point, survey).message
    pruned = prune_candidates(result, getattr(meter, "target", None), pruning)
    names = [n for n in result if n not in pruned]
    order = sorted(names, key=lambda n: (result[n][1].seconds or 0.0, n))
    messages = {name: outcome.message for name, outcome in pruned.items()}
    return Ranking({n: result[n] for n in order}, infeasible, messages)


_HEADS = ("", "estimate", "bound by", "waves", "blocks", "registers", "shared")


def _row(name: str, survey: Survey) -> Row:
    estimate, use = survey.estimate, survey.use
    if estimate is None or use is None:
        return Row((name, *("-" for _ in _HEADS[1:])))
    return Row(
        (
            name, duration(estimate.seconds), estimate.bound, f"{estimate.waves:.2f}",
            str(estimate.resident), str(use.registers), str(use.shared),
        )
    )  # fmt: skip
