"""Choice of tile shapes without measurements: the cost model ranks the points of a problem's space.

rank_points(problem, "sm_90a", {"m": 4096, "n": 4096, "k": 4096})[0].point
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tileir.backend.measurement.errors import tune_error
from tileir.backend.measurement.points import Point, point_name
from tileir.backend.performance_model.cost import Estimate
from tileir.backend.target import target as target_named
from tileir.backend.tuning.gpu import GpuMeter
from tileir.backend.tuning.problem import Problem
from tileir.backend.tuning.prune import Pruning, ruled_out
from tileir.errors import CompileError


@attrs.frozen
class Ranked:
    """A point with its predicted time."""

    point: Point
    estimate: Estimate


def rank_points(
    problem: Problem,
    target: str,
    numbers: Mapping[str, int],
    points: Iterable[Point] | None = None,
    processors: int | None = None,
    footprint: float | None = None,
) -> list[Ranked]:
    """Return the points of the problem's space (or `points`) that fit on `target`, the fastest by
    the cost model first.

    `numbers` are the integers among the arguments, `processors` the number of multiprocessors,
    `footprint` the bytes of all arrays. A point takes 10 to 50 ms; no code is generated.

    Raises `TuneError` (TIR1102) if no point fits, and `CompileError` for errors that do not depend
    on sizes.
    """
    meter, machine, ranking = GpuMeter(target, processors), target_named(target), list[Ranked]()
    reasons: list[str] = []
    for point in problem.space if points is None else points:
        try:
            survey = meter.survey(problem.job(point), numbers, footprint)
        except CompileError as error:
            if error.code != "TIR0708":
                raise
            reasons.append(f"{point_name(point)}: {error.diagnostics[0].message}")
            continue
        why = ruled_out(survey, machine, Pruning())
        if why is not None or survey.estimate is None:
            reasons.append(f"{point_name(point)}: {why}")
        else:
            ranking.append(Ranked(point, survey.estimate))
    if not ranking:
        first = reasons[0] if reasons else "the space is empty"
        raise tune_error(f"no point fits on {target}; {first}", "TIR1102")
    return sorted(ranking, key=lambda r: (r.estimate.seconds, point_name(r.point)))
