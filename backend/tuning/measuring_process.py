"""The process that runs candidates: its state and its requests."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir.backend.measurement.job import Job
from tileir.backend.measurement.meter import Artifact, Meter, Session, Survey
from tileir.backend.tuning.problem import Expected, Inputs
from tileir.backend.tuning.result_check import Reference, Within


@attrs.frozen
class Opening:
    """Makes a bench in the measuring process. `reference` is the file for the results of the first
    candidate, if there are no expected results."""

    meter: Meter
    inputs: Inputs
    expected: Expected | None
    within: Within
    reference: str

    def __call__(self) -> MeasuringProcess:
        inputs = self.inputs()
        expected = None if self.expected is None else dict(self.expected(inputs))
        right = None if expected is None else Reference(expected, self.within)
        return MeasuringProcess(self, self.meter.open(inputs), right)


@attrs.define(eq=False)
class MeasuringProcess:
    """A session, and the reference for its results."""

    opening: Opening
    session: Session
    reference: Reference | None

    def expected_results(self) -> Reference | None:
        """The expected results; None where there are none yet."""
        if self.reference is None and Path(self.opening.reference).exists():
            with np.load(self.opening.reference) as archive:
                kinds = dict(zip(archive["names"].tolist(), archive["kinds"].tolist(), strict=True))
                expected = {n: archive[f"array {n}"].view(_dtype(kinds[n])) for n in kinds}
            self.reference = Reference(expected, self.opening.within)
        return self.reference

    def keep(self, results: Mapping[str, Any]) -> None:
        """Store `results` as the reference for other candidates."""
        names = list(results)
        kinds = [results[n].dtype.name for n in names]
        arrays = {f"array {n}": _plain(results[n]) for n in names}
        scratch = f"{self.opening.reference}.{os.getpid()}.npz"
        np.savez(scratch, names=np.array(names), kinds=np.array(kinds), **arrays)
        Path(scratch).replace(self.opening.reference)
        self.reference = Reference(dict(results), self.opening.within)


def _plain(array: Any) -> Any:
    """The array as bits of a type that files know."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _dtype(name: str) -> Any:
    import ml_dtypes  # only bfloat16 and similar types are not defined by numpy

    return np.dtype(getattr(ml_dtypes, name, name))


def survey_jobs(
    meter: Meter, jobs: Sequence[Job], numbers: Mapping[str, int], footprint: float
) -> list[Any]:
    """A `Survey` or the error of each job."""
    return [_survey(meter, job, numbers, footprint) for job in jobs]


def _survey(
    meter: Meter, job: Job, numbers: Mapping[str, int], footprint: float
) -> Survey | Exception:
    try:
        return meter.survey(job, numbers, footprint)
    except Exception as error:
        return error


def compile_candidate(meter: Meter, job: Job) -> Artifact:
    """Compile a candidate."""
    return meter.compile(job)


def measure_candidate(
    bench: MeasuringProcess, artifact: Artifact, grid: Sequence[int], launches: int, checked: bool
) -> list[float]:
    """Seconds of each launch. With `checked` the results are verified first; raises `TuneError`
    (TIR1107) if they are wrong. Without a reference the first candidate's results become the
    reference."""
    if checked:
        results = bench.session.results(artifact, grid)
        right = bench.expected_results()
        if right is None:
            bench.keep(results)
        else:
            right.check(results)
    return list(bench.session.seconds(artifact, grid, launches))


def ready(*_: Any) -> None:
    """Do nothing: a task that starts a process."""
