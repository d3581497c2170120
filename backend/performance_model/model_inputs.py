"""Inputs of the cost model: resources of blocks on a multiprocessor."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.backend.processors import MAX_REGISTERS
from tileir.backend.target import Target

_SPILL = 0.02
"""Part of the time that a word of registers beyond the limit adds per thread, and at most 4."""


GATHER = 9e-9
"""Seconds of an instruction whose threads access one scattered element each, on one H200
(benchmarks/workloads.py shift, nhwc)."""


@attrs.frozen
class RoleProfile:
    """The work of a kernel's roles in an iteration of their loop, and after the loop.

    - `requests`: requests of copies to the L2 for a line, or for a part of one.
    - `num_stages`: stages of the ring.
    - `groups`: warpgroups that multiply.
    - `elements`, `loads`, `unit`, `limit`: if no tensor map applies, each thread loads `elements`
      elements by `loads` loads of at least `unit` bytes, and may have `limit` registers. If they
      are `asynchronous` copies, they take none.
    - `odd`: instructions with an N-major B that has an odd multiple of 8 columns.
    - `arithmetic`: elements that the warpgroups compute; before the matmuls that need them, if
      these have A in `registers`.
    - `gathers`: instructions by which they load scattered elements.
    - `stores`: stores of threads after the loop, for one instance.
    - `divisions`: divisions before the first copy.
    - `cluster`: blocks that share an instance. Each sends `remote` bytes to the shared memory of
      others.
    - `together`: blocks that multicast.
    - `alone`: whether a multiprocessor runs a single, persistent block.
    """

    requests: float
    num_stages: int
    groups: int
    elements: float = 0.0
    loads: float = 0.0
    unit: int = 16
    limit: int = MAX_REGISTERS
    asynchronous: bool = False
    odd: float = 0.0
    arithmetic: float = 0.0
    registers: bool = False
    gathers: float = 0.0
    stores: float = 0.0
    divisions: int = 0
    cluster: int = 1
    remote: float = 0.0
    together: int = 1
    alone: bool = False


@attrs.frozen
class ResourceUse:
    """The resources that a block of a kernel takes.

    - `warps`: its warps; `shared`: bytes of shared memory.
    - `registers`: registers that its busiest thread needs; `limit`: the most that it may have.
    - `stages`: stages of its buffers.
    - `fragments`: bytes that its threads read from shared memory in one instance.
    - `words`: registers of all its threads if threads have different numbers, else None.
    - `roles`: the work of its roles, if it is warp-specialized.
    - `gathers`: instructions of all its warps that access scattered elements, in one instance.
    """

    warps: int
    shared: int
    registers: int
    stages: int = 1
    fragments: float = 0.0
    limit: int = MAX_REGISTERS
    words: int | None = None
    roles: RoleProfile | None = None
    gathers: float = 0.0

    def resident(self, machine: Target) -> int:
        """The number of resident blocks of a multiprocessor; 0 if a single block does not fit."""
        each = max(24, min(self.registers, self.limit, machine.max_registers))
        words = self.words or machine.register_words(self.warps, each)
        fitting = machine.resident_blocks(self.warps, words, self.shared)
        return min(fitting, 1) if self.roles is not None and self.roles.alone else fitting

    @property
    def excess(self) -> int:
        """The registers that the busiest thread needs beyond its limit."""
        return max(0, self.registers - self.limit)

    @property
    def spilling(self) -> float:
        """The slowdown by spills of the busiest thread, as a ratio."""
        return 1.0 + min(4.0, _SPILL * self.excess)


@attrs.frozen
class Estimate:
    """An estimated time in seconds and its composition: `waves` of `resident` blocks per
    multiprocessor, and the seconds of the busiest multiprocessor by part."""

    seconds: float
    waves: float
    resident: int
    parts: Mapping[str, float]

    @property
    def bound(self) -> str:
        """The name of the largest part."""
        return max(self.parts, key=lambda name: self.parts[name])
