"""Evaluation of candidates: they are compiled in many processes, and measured in one process per
device."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from tileir.backend.measurement.meter import Artifact, Meter, Survey
from tileir.backend.measurement.outcome import CandidateOutcome, Status, failure
from tileir.backend.measurement.points import Point, point_name
from tileir.backend.tuning.measuring_process import (
    Opening,
    compile_candidate,
    measure_candidate,
    ready,
    survey_jobs,
)
from tileir.backend.tuning.problem import Problem
from tileir.backend.tuning.synchronous_executor import SynchronousExecutor
from tileir.backend.tuning.workers import Workers

_CHUNK = 8
"""The candidates that one task surveys; each takes about 10 ms."""


_Running: TypeAlias = dict[Future[Any], list["Trial"]]


@attrs.frozen
class TimeLimits:
    """Time limits in seconds for compiling and for measuring one candidate."""

    compile: float = 120.0
    measure: float = 60.0


@attrs.frozen
class Trial:
    """A point, and the number of launches by which it is measured."""

    point: Point
    launches: int


class Evaluator:
    """Surveys, compiles and measures candidates of a problem.

    `executor`, any executor of `concurrent.futures`, runs surveys and compilations. If it breaks or
    hangs, the evaluator's own processes continue. Close the evaluator, or use it as a context."""

    def __init__(
        self,
        problem: Problem,
        meter: Meter,
        executor: Executor | None,
        limits: TimeLimits,
        processes: int | None = None,
    ) -> None:
        self.problem, self.meter, self.limits = problem, meter, limits
        self._stack = ExitStack()
        self._processes = processes
        self._executor = executor
        self._own: Workers | None = None
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tileir-tune-"))
        reference = str(Path(folder, "reference.npz"))
        self._opening = Opening(meter, problem.inputs, problem.expected, problem.within, reference)
        self._benches: Executor | None = None
        self._artifacts: dict[str, Artifact] = {}
        self._futures: dict[Any, Future[Any]] = {}
        self._checked: set[str] = set()
        self._primed = problem.expected is not None

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        for executor in (self._benches, self._own):
            if executor is not None:
                executor.shutdown(wait=False, cancel_futures=True)
        self._stack.close()

    def begin(self) -> None:
        """Start the processes, while other work continues."""
        if self._executor is None:
            self._workers().submit(ready)
        if self.meter.needs_isolation:
            self._bench().submit(ready)

    # Surveying ----------------------------------------------------------------------------------

    def survey(
        self, points: Sequence[Point], numbers: Mapping[str, int], footprint: float
    ) -> Iterator[tuple[Point, Survey | Exception]]:
        """The survey of each point before code generation, in order of completion."""
        chunks = [points[i : i + _CHUNK] for i in range(0, len(points), _CHUNK)]
        tasks = {
            i: (survey_jobs, (self.meter, [self.problem.job(p) for p in chunk], numbers, footprint))
            for i, chunk in enumerate(chunks)
        }
        for at, answer in self._all(tasks):
            failed = isinstance(answer, BaseException)
            answers: list[Any] = [answer] * len(chunks[at]) if failed else answer
            yield from zip(chunks[at], answers, strict=True)

    # Measuring ----------------------------------------------------------------------------------

    def outcomes(
        self, trials: Sequence[Trial], surveys: Mapping[str, Survey]
    ) -> Iterator[CandidateOutcome]:
        """The outcome of each trial, in order of completion."""
        pending = list(trials)
        # The trial that others are compared with runs first, and alone.
        while pending and not self._primed:
            for outcome in self._batch([pending.pop(0)]):
                self._primed = outcome.good
                yield self._with_predictions(outcome, surveys)
        for outcome in self._batch(pending):
            yield self._with_predictions(outcome, surveys)

    def _batch(self, trials: Sequence[Trial]) -> Iterator[CandidateOutcome]:
        by_name = {point_name(t.point): t for t in trials}
        running: _Running = {}
        tasks: dict[str, Any] = {}
        for name, trial in by_name.items():
            if name in self._artifacts:
                self._start(trial, running)
            else:
                tasks[name] = (compile_candidate, (self.meter, self.problem.job(trial.point)))
        ready: list[Trial] = []
        for name, answer in self._all(tasks):
            trial = by_name[name]
            if isinstance(answer, BaseException):
                yield failure(trial.point, answer)
                continue
            self._artifacts[name] = answer
            if self.meter.alone:
                ready.append(trial)
                continue
            self._start(trial, running)
            yield from self._collect(running, block=False)
        for trial in ready:
            self._start(trial, running)
        while running:
            yield from self._collect(running, block=True)

    def _start(self, trial: Trial, running: _Running) -> None:
        """Measure a compiled candidate. Candidates with equal machine code are measured once."""
        name = point_name(trial.point)
        artifact, grid = self._artifacts[name], self.problem.job(trial.point).grid
        key = (artifact.digest, grid, trial.launches)
        if key not in self._futures:
            checked = artifact.digest not in self._checked
            self._futures[key] = self._bench().submit(
                measure_candidate, artifact, grid, trial.launches, checked
            )
        running.setdefault(self._futures[key], []).append(trial)

    def _collect(self, running: _Running, *, block: bool) -> Iterator[CandidateOutcome]:
        done, _ = wait(running, None if block else 0, FIRST_COMPLETED)
        for future in done:
            for trial in running.pop(future):
                yield self._read(trial, future)

    def _read(self, trial: Trial, future: Future[Any]) -> CandidateOutcome:
        try:
            samples = tuple(future.result())
        except Exception as error:
            return failure(trial.point, error, launches=trial.launches)
        self._checked.add(self._artifacts[point_name(trial.point)].digest)
        seconds = statistics.median(samples)
        return CandidateOutcome(trial.point, Status.MEASURED, trial.launches, seconds, samples)

    def _with_predictions(
        self, outcome: CandidateOutcome, surveys: Mapping[str, Survey]
    ) -> CandidateOutcome:
        """The outcome with the predictions of the compiler and the model."""
        artifact, survey = self._artifacts.get(outcome.name), surveys.get(outcome.name)
        predicted = attrs.evolve(outcome, predicted=survey.seconds if survey else None)
        if artifact is None:
            return predicted
        return attrs.evolve(
            predicted,
            registers=artifact.registers,
            spills=artifact.spills,
            shared=artifact.shared,
            digest=artifact.digest,
            compiling=artifact.compiling,
        )

    def _bench(self) -> Any:
        """The measuring executor: its tasks take a bench as their first argument."""
        if self._benches is None:
            self._benches = (
                Workers(
                    limit=self.limits.measure,
                    opening=self._opening,
                    environments=self.meter.places(),
                )
                if self.meter.needs_isolation
                else SynchronousExecutor(self._opening)
            )
        return self._benches

    def _workers(self) -> Workers:
        """The evaluator's own processes, which compile."""
        if self._own is None:
            self._own = Workers(self._processes, self.limits.compile)
        return self._own

    # Executors ----------------------------------------------------------------------------------

    def _all(
        self, tasks: Mapping[Any, tuple[Callable[..., Any], tuple[Any, ...]]]
    ) -> Iterator[Any]:
        """Yield the key and the answer or error of each task. The caller's executor runs the tasks,
        and own processes run those that it did not complete."""
        pending = dict(tasks)
        if self._executor is not None:
            for key, answer in self._by_callers_executor(pending):
                del pending[key]
                yield key, answer
        if not pending:
            return
        own = self._workers()
        futures = {own.submit(f, *args): key for key, (f, args) in pending.items()}
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from ((futures[f], _answer(f)) for f in done)

    def _by_callers_executor(
        self, tasks: Mapping[Any, tuple[Callable[..., Any], Any]]
    ) -> Iterator[Any]:
        """Yield the answers of the caller's executor, until it breaks or until no task ends for
        longer than one candidate may take."""
        assert self._executor is not None
        try:
            futures = {self._executor.submit(f, *args): key for key, (f, args) in tasks.items()}
        except RuntimeError:  # broken, or shut down
            self._executor = None
            return
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, self.limits.compile, FIRST_COMPLETED)
            broken = {f for f in done if _broke(f)}
            yield from ((futures[f], _answer(f)) for f in done - broken)
            if not done or broken:
                self._abandon(waiting, broken)
                return

    def _abandon(self, waiting: Iterable[Future[Any]], broken: set[Future[Any]]) -> None:
        for future in waiting:
            future.cancel()
        if broken:
            self._executor = None


def _broke(future: Future[Any]) -> bool:
    """Whether a task failed because its worker failed."""
    error = None if future.cancelled() else future.exception()
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return future.cancelled() or bool(kinds & {"BrokenExecutor", "KilledWorker"})


def _answer(future: Future[Any]) -> Any:
    error = future.exception()
    return future.result() if error is None else error
