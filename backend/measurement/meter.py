"""Meters, which measure candidates: the protocol that meters of GPUs, of CPUs and of tests
implement."""

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
    time by the cost model, None if the meter has no model."""

    work: WorkEstimate | None = None
    use: ResourceUse | None = None
    estimate: Estimate | None = None

    @property
    def seconds(self) -> float | None:
        """The predicted time in seconds."""
        return None if self.estimate is None else self.estimate.seconds


@attrs.frozen
class Artifact:
    """A compiled candidate, small and picklable. `code` is what the meter's session runs."""

    code: Any
    digest: str
    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    compiling: float = 0.0
    """Seconds."""


@attrs.frozen
class Device:
    """The kind and the driver of a device. Only measurements of equal devices are comparable."""

    name: str
    driver: str


class Session(Protocol):
    """Runs candidates on fixed arguments."""

    def seconds(self, artifact: Artifact, grid: Sequence[int], launches: int) -> Sequence[float]:
        """Seconds of each of up to `launches` launches. Raises TileirError."""
        ...

    def results(self, artifact: Artifact, grid: Sequence[int]) -> Mapping[str, Any]:
        """The arrays that may be written, after one launch on fresh copies of the arguments."""
        ...

    def close(self) -> None:
        """Release its resources."""
        ...


class Meter(Protocol):
    """Compiles and measures candidates. It is sent to other processes, so it must be picklable."""

    @property
    def alone(self) -> bool:
        """Whether nothing may be compiled while a candidate is measured."""
        ...

    @property
    def needs_isolation(self) -> bool:
        """Whether each session needs a process of its own."""
        ...

    def device(self) -> Device:
        """The device that the meter measures on."""
        ...

    def places(self) -> Sequence[Mapping[str, str]]:
        """For each device, the environment variables of the process that measures on it."""
        ...

    def survey(
        self, job: Job, numbers: Mapping[str, int], footprint: float | None = None
    ) -> Survey:
        """Estimates before code generation, from the integers among the arguments and the total
        size in bytes of all arrays. Raises `CompileError` for a candidate that does not compile."""
        ...

    def compile(self, job: Job) -> Artifact:
        """Compile the candidate. Raises `CompileError`."""
        ...

    def open(self, inputs: Mapping[str, Any]) -> Session:
        """A session that runs candidates on `inputs`."""
        ...
