"""A meter that compiles for a GPU and looks at registers instead of a clock."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from tileir.backend.measurement.meter import Device
from tileir.backend.tuning import GpuMeter


@attrs.frozen
class Registers(GpuMeter):
    """Candidates take as many microseconds as registers."""

    needs_isolation: bool = False

    def device(self) -> Device:
        return Device("registers", "1")

    def open(self, inputs: Any) -> Session:
        return Session()


class Session:
    def seconds(self, artifact: Any, grid: Any, launches: int) -> list[float]:
        assert artifact.code.cubin[:4] == b"\x7fELF"
        return [artifact.registers * 1e-6] * launches

    def results(self, artifact: Any, grid: Any) -> Any:
        return {"c": np.zeros(1)}

    def close(self) -> None:
        pass
