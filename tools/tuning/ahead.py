"""What the model thinks of candidates, before any is compiled."""

from __future__ import annotations

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


def ranking(problem: Problem, meter: Meter, processes: int | None, pruning: Pruning) -> str:
    """The candidates in the model's order, and what would be left out."""
    result: dict[str, tuple[Point, Survey]] = {}
    refusals: list[str] = []
    inputs = problem.inputs()
    facts = numbers_in(inputs), footprint_of(inputs)
    with Evaluator(problem, meter, None, TimeLimits(), processes) as evaluator:
        for point, survey in evaluator.survey(list(problem.space), *facts):
            if isinstance(survey, Survey):
                result[point_name(point)] = point, survey
            else:
                refusals.append(f"{point_name(point)}: {failure(point, survey).message}")
    without = prune_candidates(result, getattr(meter, "target", None), pruning)
    names = [n for n in result if n not in without]
    order = sorted(names, key=lambda n: (result[n][1].seconds or 0.0, n))
    head = f"{len(result) + len(refusals)} candidates, {len(without) + len(refusals)} left out"
    lines = [head, plain(_HEADS, [_row(n, result[n][1]) for n in order[:_LISTED]])]
    lines += sorted(refusals)[:3] + [f"{n}: {o.message}" for n, o in sorted(without.items())][:3]
    return "\n".join(lines) + "\n"


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
