"""Measurement of a frontend's candidates at a launch, on the arguments of the launch."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs

from tileir.backend.measurement.arguments import shape_class, shape_of
from tileir.backend.measurement.database import Database, Family
from tileir.backend.measurement.job import Job
from tileir.backend.measurement.meter import Artifact, Device, Meter, Session
from tileir.backend.measurement.outcome import CandidateOutcome, Status
from tileir.backend.runtime.version import compiler_version
from tileir.errors import TileirError
from tileir.ir import Module
from tileir.measuring import Candidate

_LAUNCHES = 20


def measured_here(
    meter: Meter,
    candidates: Sequence[Candidate],
    arguments: Mapping[str, Any],
    *,
    remember: bool = False,
) -> list[float | TileirError]:
    """Seconds of each candidate, or its error (`tileir.measuring.Measuring`).

    The candidates are compiled by threads of this process: LLVM and the assembler run without
    Python's lock, and the user's script is not imported again, as other processes would.
    """
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
        compiled = list(threads.map(partial(_compile, meter), candidates))
    with Database.usual() if remember else Database() as database:
        session = meter.open(arguments)
        try:
            here = _TuningSession(session, database, meter.device(), arguments)
            return [
                kernel if isinstance(kernel, TileirError) else here.seconds(candidate, kernel)
                for candidate, kernel in zip(candidates, compiled, strict=True)
            ]
        finally:
            session.close()


def _compile(meter: Meter, candidate: Candidate) -> Artifact | TileirError:
    job = Job(
        partial(_same, candidate.module), {}, {}, candidate.options, candidate.kernel,
        candidate.grid,
    )  # fmt: skip
    try:
        return meter.compile(job)
    except TileirError as error:
        return error


def _same(module: Module) -> Module:
    return module


@attrs.frozen(eq=False)
class _TuningSession:
    """A session, and the database in which its measurements are stored."""

    session: Session
    database: Database
    device: Device
    arguments: Mapping[str, Any]

    def seconds(self, candidate: Candidate, artifact: Artifact) -> float | TileirError:
        """The time of one launch in seconds, or the exception that it raised."""
        family, point = self._family(candidate), self._point(candidate, artifact)
        for outcome in self.database.outcomes(family):
            if outcome.point == point and outcome.seconds is not None:
                return outcome.seconds
        try:
            samples = tuple(self.session.seconds(artifact, candidate.grid, _LAUNCHES))
        except TileirError as error:
            return error
        measured = CandidateOutcome(
            point, Status.MEASURED, _LAUNCHES, statistics.median(samples), samples
        )
        self.database.record(family, measured)
        return statistics.median(samples)

    def _family(self, candidate: Candidate) -> Family:
        name, arguments = candidate.kernel or "kernel", self.arguments
        return Family(
            name,
            "machine code",
            shape_of(arguments),
            shape_class(arguments),
            self.device.name,
            self.device.driver,
            compiler_version(),
        )

    def _point(self, candidate: Candidate, artifact: Artifact) -> dict[str, str]:
        return {"code": artifact.digest, "grid": "x".join(map(str, candidate.grid))}
