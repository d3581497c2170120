"""Meters, which measure candidates: the protocol of GPU, CPU and the tests' clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from tileir.backend.measurement.job import Job
from tileir.backend.performance_model.cost import Estimate, ResourceUse
from tileir.backend.performance_model.work import WorkEstimate


@attrs.frozen
class Survey:
    """Estimates for a candidate before code generation: its work, the resources of a block, and the
    cost model's time; None where the meter has no model."""

    work: WorkEstimate | None = None
    use: ResourceUse | None = None
    estimate: Estimate | None = None

    @property
    def seconds(self) -> float | None:
        """Predicted."""
        return None if self.estimate is None else self.estimate.seconds


@attrs.frozen
class Artifact:
    """A compiled candidate, small and picklable: `code` is what the meter's session runs."""

    code: Any
    digest: str
    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    compiling: float = 0.0
    """Seconds."""


@attrs.frozen
class Device:
    """The device of measurements: its kind and its driver. Only measurements of equal devices are
    comparable."""

    name: str
    driver: str


class Session(Protocol):
    """A place where candidates run, with the arguments they run on."""

    def seconds(self, artifact: Artifact, grid: Sequence[int], launches: int) -> Sequence[float]:
        """Seconds of up to `launches` launches, each. Raises TileirError."""
        ...

    def results(self, artifact: Artifact, grid: Sequence[int]) -> Mapping[str, Any]:
        """The arrays that may be written, after one launch on fresh arguments."""
        ...

    def close(self) -> None:
        """Release its resources."""
        ...


class Meter(Protocol):
    """Compiles and measures. It is sent to other processes, and so has to be picklable."""

    @property
    def alone(self) -> bool:
        """Whether nothing may be compiled while something is measured."""
        ...

    @property
    def needs_isolation(self) -> bool:
        """Whether sessions have to be in processes of their own."""
        ...

    def device(self) -> Device:
        """The device that the meter measures on."""
        ...

    def places(self) -> Sequence[Mapping[str, str]]:
        """The environment variables of the measuring process, for each device."""
        ...

    def survey(
        self, job: Job, numbers: Mapping[str, int], footprint: float | None = None
    ) -> Survey:
        """Estimates before code generation, from the integers among the arguments and the bytes of
        all arrays. Raises `CompileError` for a candidate that does not compile."""
        ...

    def compile(self, job: Job) -> Artifact:
        """The candidate, compiled. Raises `CompileError`."""
        ...

    def open(self, inputs: Mapping[str, Any]) -> Session:
        """Get ready to run on `inputs`."""
        ...
