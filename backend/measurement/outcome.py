"""Outcomes of candidates."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from tileir.backend.measurement.errors import TuneError
from tileir.backend.measurement.points import Choice, point_name
from tileir.errors import TileirError


class Status(Enum):
    """The last step that a candidate completed."""

    MEASURED = "measured"
    """The candidate was measured, and its result is right."""
    PRUNED = "ruled out"
    """It was left out by the cost model, before code was generated."""
    INFEASIBLE = "infeasible"
    """The compiler rejects it: it exceeds a resource, or the target lacks an op."""
    CRASHED = "crashed"
    """The process that compiled or measured it has ended."""
    TIMEOUT = "too slow"
    """It exceeded a time limit."""
    WRONG = "wrong"
    """Its result is wrong."""
    FAILED = "failed"
    """The factory, the compiler or the launch raised an error of another kind."""


@attrs.frozen
class CandidateOutcome:
    """The outcome of a candidate.

    `seconds` is the median of `samples`. A failure has an error `code` and a `message` instead.
    `predicted` is the time by the cost model in seconds. Registers and spilled bytes are per
    thread, `shared` bytes per block. `digest` identifies the machine code.
    """

    point: Mapping[str, Choice]
    status: Status
    launches: int = 0
    seconds: float | None = None
    samples: tuple[float, ...] = ()
    code: str = ""
    message: str = ""
    predicted: float | None = None
    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    digest: str = ""
    compiling: float = 0.0

    @property
    def name(self) -> str:
        """The canonical name of the point."""
        return point_name(self.point)

    @property
    def good(self) -> bool:
        """Whether the candidate was measured successfully."""
        return self.status is Status.MEASURED

    @property
    def spread(self) -> float:
        """Half the interquartile range of the samples, relative to the median."""
        if len(self.samples) < 2 or not self.seconds:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / 2 / self.seconds


_BY_CODE = {
    "TIR1104": Status.PRUNED, "TIR1105": Status.CRASHED, "TIR1106": Status.TIMEOUT,
    "TIR1107": Status.WRONG, "TIR1108": Status.FAILED, "TIR0708": Status.INFEASIBLE,
    "TIR0706": Status.INFEASIBLE,
}  # fmt: skip


def failure(point: Mapping[str, Choice], error: BaseException, **value: Any) -> CandidateOutcome:
    """The outcome of a candidate that raised `error`. An error that is not one of the compiler's
    has the code TIR1108."""
    if isinstance(error, TileirError):
        status = _BY_CODE.get(error.code, Status.FAILED)
        return CandidateOutcome(
            point, status, code=error.code, message=error.diagnostics[0].message, **value
        )
    code = "TIR1105" if _is_death(error) else "TIR1108"
    text = f"{type(error).__name__}: {error}".splitlines()
    return CandidateOutcome(
        point, _BY_CODE[code], code=code, message=text[0] if text else code, **value
    )


def _is_death(error: BaseException) -> bool:
    """Whether `error` is the one by which an executor reports that a worker died (`BrokenExecutor`,
    Dask's `KilledWorker`)."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"BrokenExecutor", "KilledWorker", "MemoryError"})


__all__ = ["CandidateOutcome", "Status", "TuneError", "failure"]
