"""A meter for tests: times are computed by a formula, and candidates fail on request."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir.backend.measurement.job import Job
from tileir.backend.measurement.meter import Artifact, Device, Survey
from tileir.backend.measurement.points import point_name
from tileir.backend.performance_model.cost import Estimate
from tileir.errors import CompileError, Diagnostic

Formula = Callable[[Mapping[str, Any]], float]


@attrs.frozen
class FormulaMeter:
    """A meter without a device.

    `seconds(choices)` is the time of a candidate, `model(choices)` its predicted time. `faults`
    maps names of candidates to faults: `refuse` and `error` while they are surveyed; `crash`,
    `hang` and `raise` while they are compiled; `kill` and `wrong` while they run. `pause` is the
    compile time in seconds. `hung` is a folder to which a hanging process writes a file named by
    its process id. Both functions must be picklable.
    """

    seconds: Formula
    model: Formula | None = None
    faults: Mapping[str, str] = attrs.field(factory=dict)
    pause: float = 0.0
    hung: str | None = None
    alone: bool = False
    needs_isolation: bool = False
    count: int = 1

    def device(self) -> Device:
        return Device("a formula", "1")

    def places(self) -> Sequence[Mapping[str, str]]:
        return [{"TILEIR_PLACE": str(i)} for i in range(self.count)]

    def survey(
        self, job: Job, numbers: Mapping[str, int], footprint: float | None = None
    ) -> Survey:
        match self._fault(job):
            case "refuse":
                raise CompileError(Diagnostic("TIR0708", "too much shared memory"))
            case "error":
                raise ValueError("the factory does not like it")
            case _:
                pass
        if self.model is None:
            return Survey()
        seconds = self.model(_choices(job))
        return Survey(estimate=Estimate(seconds, 1.0, 1, {"formula": seconds}))

    def compile(self, job: Job) -> Artifact:
        time.sleep(self.pause)
        match self._fault(job):
            case "crash":
                os.kill(os.getpid(), 11)
            case "hang":
                if self.hung is not None:
                    (Path(self.hung) / str(os.getpid())).touch()
                time.sleep(3600)
            case "raise":
                raise ValueError("the compiler is confused")
            case _:
                pass
        text = point_name(_choices(job))
        digest = hashlib.sha256(text.encode()).hexdigest()
        return Artifact((_choices(job), self._fault(job)), digest, 32, 0, 1024, self.pause)

    def open(self, inputs: Mapping[str, Any]) -> FormulaSession:
        return FormulaSession(self.seconds)

    def _fault(self, job: Job) -> str:
        return self.faults.get(point_name(_choices(job)), "")


def _choices(job: Job) -> dict[str, Any]:
    return {**job.choices, **job.options, **job.attributes}


@attrs.frozen
class FormulaSession:
    """A session that evaluates the formula instead of measuring."""

    formula: Formula

    def seconds(self, artifact: Artifact, grid: Sequence[int], launches: int) -> list[float]:
        choices, fault = artifact.code
        if fault == "kill":
            os.kill(os.getpid(), 9)
        return [self.formula(choices)] * launches

    def results(self, artifact: Artifact, grid: Sequence[int]) -> Mapping[str, Any]:
        _, fault = artifact.code
        return {"y": np.full(4, 2.0 if fault == "wrong" else 1.0, np.float32)}

    def close(self) -> None:
        pass
