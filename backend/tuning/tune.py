"""Tuning: survey, prune, search, measure, and store the results.

result = tune(problem, GpuMeter.here(), database=Database("tuning.db"))
result.best.point, result.best.seconds
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from random import Random
from typing import Protocol

import attrs

from tileir.backend.measurement.arguments import footprint_of, numbers_in, shape_class, shape_of
from tileir.backend.measurement.database import Database, Family
from tileir.backend.measurement.errors import tune_error
from tileir.backend.measurement.meter import Meter, Survey
from tileir.backend.measurement.outcome import CandidateOutcome, failure
from tileir.backend.measurement.points import Point, point_name
from tileir.backend.runtime.version import compiler_version
from tileir.backend.tuning.evaluate import Evaluator, TimeLimits, Trial
from tileir.backend.tuning.problem import Problem
from tileir.backend.tuning.prune import Pruning, prune_candidates
from tileir.backend.tuning.search import Exhaustive, Search, SearchState


class TuningObserver(Protocol):
    """The interface of observers that follow the progress of tuning."""

    def begin(self, what: str, total: int) -> None:
        """Called when the phase `what` starts, with about `total` steps."""
        ...

    def on_survey(self) -> None:
        """Called after the survey of one candidate."""
        ...

    def on_result(self, outcome: CandidateOutcome, best: CandidateOutcome | None) -> None:
        """Called after one candidate was measured or failed."""
        ...


@attrs.frozen
class Silent:
    """Ignore all reports."""

    def begin(self, what: str, total: int) -> None:
        pass

    def on_survey(self) -> None:
        pass

    def on_result(self, outcome: CandidateOutcome, best: CandidateOutcome | None) -> None:
        pass


@attrs.frozen
class Stop:
    """Conditions that end a search, checked between batches; None disables a condition.

    - `seconds`: the maximum time.
    - `trials`: the maximum number of trials.
    - `patience`: the number of successive trials without an improvement.
    - `near`: the best measured time is at most this many times the best predicted time.
    """

    seconds: float | None = None
    trials: int | None = None
    patience: int | None = None
    near: float | None = None


@attrs.frozen
class Spent:
    """Seconds of a run: in total, for surveys, and the total of all compilations."""

    wall: float
    survey: float
    compiling: float


@attrs.frozen
class TuningResult:
    """The result of tuning.

    - `outcomes`: every candidate that was tried, in the order of the search.
    - `left_out`: candidates that were pruned, or that the compiler rejected before code generation.
    - `reused`: the number of outcomes that came from the database.
    - `stopped`: the reason why the search ended.
    """

    problem: Problem
    family: Family
    outcomes: tuple[CandidateOutcome, ...]
    left_out: tuple[CandidateOutcome, ...]
    surveys: Mapping[str, Survey]
    spent: Spent
    reused: int
    stopped: str

    @property
    def good_outcomes(self) -> list[CandidateOutcome]:
        """The successful outcomes, the fastest first."""
        good = [o for o in self.outcomes if o.good]
        return sorted(good, key=lambda o: (o.seconds, o.name))

    @property
    def best(self) -> CandidateOutcome:
        """The fastest outcome. Raises `TuneError` (TIR1102) if there is none."""
        measured = self.good_outcomes
        if not measured:
            raise tune_error(self._nothing(), "TIR1102")
        return measured[0]

    def _nothing(self) -> str:
        every = (*self.left_out, *self.outcomes)
        if not every:
            return "the space is empty"
        first = every[0]
        return f"none of {len(every)} candidates is left; {first.name}: {first.message}"


def tune(
    problem: Problem,
    meter: Meter,
    *,
    search: Search | None = None,
    executor: Executor | None = None,
    processes: int | None = None,
    database: Database | None = None,
    pruning: Pruning | None = None,
    stop: Stop | None = None,
    limits: TimeLimits | None = None,
    most: int = 4096,
    version: str | None = None,
    observer: TuningObserver | None = None,
) -> TuningResult:
    """Find the fastest candidate of `problem`, measured by `meter`.

    - `executor` runs surveys and compilations: any executor of `concurrent.futures`. None starts
      `processes` processes, by default one per processor.
    - `database` stores outcomes immediately. Candidates with an outcome there are not measured
      again.
    - `most`: from a larger space, this many points are sampled, the same ones each time.
    - `version` is the version of the compiler; None is a digest of its sources. Measurements of
      another version are not used.

    Raises `TuneError` TIR1101 for an invalid problem, TIR1103 for the database. Candidates that
    fail are outcomes of the result.
    """
    start = time.perf_counter()
    with Evaluator(problem, meter, executor, limits or TimeLimits(), processes) as evaluator:
        evaluator.begin()
        inputs, device = problem.inputs(), meter.device()
        family = Family(
            problem.name, problem.content, shape_of(inputs), shape_class(inputs), device.name,
            device.driver, version or compiler_version(),
        )  # fmt: skip
        run = _TuningRun(
            problem, family, evaluator, search or Exhaustive(), database or Database(),
            stop or Stop(), observer or Silent(), start, numbers_in(inputs), footprint_of(inputs),
        )  # fmt: skip
        points = _points(problem, most)
        surveys, left_out = run.survey(points, pruning or Pruning(), _target(meter))
        return run.run_search(surveys, left_out)


def _points(problem: Problem, most: int) -> list[Point]:
    points: list[Point] = list(problem.space)
    return points if len(points) <= most else Random(0).sample(points, most)


def _target(meter: Meter) -> str | None:
    target = getattr(meter, "target", None)
    return target if isinstance(target, str) else None


@attrs.define(eq=False)
class _TuningRun:
    """One run of `tune`."""

    problem: Problem
    family: Family
    evaluator: Evaluator
    search: Search
    database: Database
    stop: Stop
    observer: TuningObserver
    start: float
    numbers: Mapping[str, int]
    footprint: float
    surveying: float = 0.0
    stored: dict[tuple[str, int], CandidateOutcome] = attrs.field(factory=dict)
    order: dict[str, CandidateOutcome] = attrs.field(factory=dict)
    reused: int = 0

    def survey(
        self, points: Sequence[Point], pruning: Pruning, target: str | None
    ) -> tuple[dict[str, tuple[Point, Survey]], list[CandidateOutcome]]:
        """Survey `points`; the surveys of those worth compiling, and the outcomes of the others."""
        self.observer.begin("looking at candidates", len(points))
        surveys: dict[str, tuple[Point, Survey]] = {}
        refusals: list[CandidateOutcome] = []
        for point, survey in self.evaluator.survey(points, self.numbers, self.footprint):
            self.observer.on_survey()
            if isinstance(survey, Survey):
                surveys[point_name(point)] = point, survey
            else:
                refusals.append(failure(point, survey))
        without = prune_candidates(surveys, target, pruning)
        self.surveying = time.perf_counter() - self.start
        selected = {name: each for name, each in surveys.items() if name not in without}
        order = sorted([*refusals, *without.values()], key=lambda o: o.name)
        return selected, order

    def run_search(
        self, surveys: Mapping[str, tuple[Point, Survey]], left_out: Sequence[CandidateOutcome]
    ) -> TuningResult:
        """The result of the search among the points surveyed."""
        self.stored = {(o.name, o.launches): o for o in self.database.outcomes(self.family)}
        predicted = {n: s.seconds for n, (_, s) in surveys.items() if s.seconds is not None}
        place = (
            {point_name(p): i for i, p in enumerate(self.problem.space)} if not predicted else {}
        )
        names = sorted(surveys, key=lambda n: (predicted.get(n, 0.0), place.get(n, 0), n))
        candidates = [surveys[n][0] for n in names]
        self.observer.begin("measuring", self.search.trial_estimate(len(candidates)))
        alone = {name: survey for name, (_, survey) in surveys.items()}
        while (why := self._stop_reason(predicted)) is None:
            field = SearchState(self.problem.space, candidates, predicted, self.order)
            trials = self.search.propose(field)
            if not trials:
                why = "every candidate of the search was tried"
                break
            self._run_trials(trials, alone)
        spent = Spent(time.perf_counter() - self.start, self.surveying, self._compiling())
        return TuningResult(
            self.problem, self.family, tuple(self.order.values()), tuple(left_out), alone, spent,
            self.reused, why,
        )  # fmt: skip

    def _compiling(self) -> float:
        return sum(o.compiling for o in self.order.values())

    def _run_trials(self, trials: Sequence[Trial], surveys: Mapping[str, Survey]) -> None:
        """Add the outcomes of a batch, reused ones and new ones, in the order of the batch."""
        outcomes: dict[str, CandidateOutcome] = {}
        new: list[Trial] = []
        for trial in trials:
            remembered = self._stored_outcome(trial)
            if remembered is None:
                new.append(trial)
            else:
                self.reused += 1
                self._tell(outcomes, remembered)
        for outcome in self.evaluator.outcomes(new, surveys):
            self.database.record(self.family, outcome)
            self._tell(outcomes, outcome)
        for trial in trials:
            name = point_name(trial.point)
            self.order.pop(name, None)
            self.order[name] = attrs.evolve(outcomes[name], launches=trial.launches)

    def _tell(self, outcomes: dict[str, CandidateOutcome], outcome: CandidateOutcome) -> None:
        outcomes[outcome.name] = outcome
        good = [o for o in (*self.order.values(), *outcomes.values()) if o.good]
        best = min(good, key=lambda o: o.seconds or 0.0, default=None)
        self.observer.on_result(outcome, best)

    def _stored_outcome(self, trial: Trial) -> CandidateOutcome | None:
        """The outcome in the database: by as many launches, or a failure, which no number of
        launches changes."""
        name = point_name(trial.point)
        return self.stored.get((name, trial.launches)) or self.stored.get((name, 0))

    def _stop_reason(self, predicted: Mapping[str, float]) -> str | None:
        """The reason to stop now; None to continue."""
        stop, order = self.stop, list(self.order.values())
        if stop.seconds is not None and time.perf_counter() - self.start > stop.seconds:
            return f"{stop.seconds:g} seconds are over"
        if stop.trials is not None and len(order) >= stop.trials:
            return f"{stop.trials} candidates were tried"
        good = [o for o in order if o.good]
        if not good:
            return None
        best = min(good, key=lambda o: o.seconds or 0.0)
        if stop.patience is not None and len(order) - order.index(best) > stop.patience:
            return f"{stop.patience} candidates in a row were no quicker"
        least = min(predicted.values(), default=0.0)
        if stop.near is not None and (best.seconds or 0.0) <= stop.near * least:
            return f"the best is within {stop.near:g} times what the model expects"
        return None
