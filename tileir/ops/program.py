"""The position of a program instance in the grid, and clocks."""

from __future__ import annotations

from typing import Any

from tileir.op import INT, Effects, Op, attribute, family, op
from tileir.signature import ExactType
from tileir.types import I32, I64

GRID_LIMITS = ((1 << 31) - 1, 65535, 65535)
"""The largest extents of a grid: those of GPUs (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"), for every executor."""


@family
class GridQuery(Op):
    """A property of the grid along one of its three axes."""

    axis: int = attribute(INT, default=0)
    results_ = (ExactType(I32),)

    def verify(self) -> None:
        if not 0 <= self.axis < 3:
            raise self.fail("TIR0114", f"axis must be 0, 1 or 2, not {self.axis}", "axis")


@op("program_id")
class ProgramId(GridQuery):
    """Index of this program instance along `axis` of the grid.

    `%pid = program_id i32 {axis = 1}`
    """

    def evaluate(self, machine: Any) -> Any:
        return machine.program_id(self.axis)


@op("num_programs")
class NumPrograms(GridQuery):
    """Number of program instances along `axis` of the grid.

    `%n = num_programs i32 {axis = 1}`
    """

    def evaluate(self, machine: Any) -> Any:
        return machine.num_programs(self.axis)


@op("clock")
class Clock(Op):
    """A counter of cycles of the multiprocessor.

    `%t = clock i64`
    """

    results_ = (ExactType(I64),)
    effects_ = Effects.OUTSIDE

    def evaluate(self, machine: Any) -> Any:
        return machine.clock()


@op("globaltimer")
class GlobalTimer(Op):
    """A clock of the GPU in nanoseconds.

    `%t = globaltimer i64`
    """

    results_ = (ExactType(I64),)
    effects_ = Effects.OUTSIDE

    def evaluate(self, machine: Any) -> Any:
        return machine.clock()
