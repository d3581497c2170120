"""Inputs of the cost model: resources of blocks on a multiprocessor."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.backend.target import Target

_SPILL = 0.02
"""Part of the time that a word of registers beyond the limit adds per thread, and at most 4."""


GATHER = 9e-9
"""Seconds of an instruction whose threads access one scattered element each, on one H200
(benchmarks/workloads.py shift, nhwc)."""


@attrs.frozen
class RoleProfile:
    """The work of a kernel's roles in an iteration of their loop, and after it.

    `requests`: how often copies ask the L2 for a line or a part of one; `num_stages`: stages of the
    ring. Where no tensor map applies, each thread loads `elements`, by `loads` loads of at
    least `unit` bytes, and may have `limit` registers. `groups` of 4 warps multiply; `odd`
    instructions have an N-major B with an odd multiple of 8 columns. These warps compute
    `arithmetic` elements, before the matmuls that need them where these have A in `registers`, and
    gather by `gathers` instructions. After the loop threads make `stores` stores for an instance.
    `divisions`: those before the first copy. `cluster` blocks share an instance, and each sends
    `remote` bytes to others' shared memory; `together` blocks multicast. `alone`: whether a
    processor runs one persistent block.
    """

    requests: float
    num_stages: int
    groups: int
    elements: float = 0.0
    loads: float = 0.0
    unit: int = 16
    limit: int = 255
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
    """The resources of a block of a kernel: its warps, bytes of shared memory, words of registers
    that its busiest thread needs, and the limit per thread; `stages`: stages of its buffers;
    `fragments`: bytes that all its threads read from shared memory in one instance; `words`:
    registers of all its threads, where they differ, and None where all have the same; `roles`: the
    work of its roles, if it is warp-specialized; `gathers`: instructions that access scattered
    elements in one instance, of all its warps."""

    warps: int
    shared: int
    registers: int
    stages: int = 1
    fragments: float = 0.0
    limit: int = 255
    words: int | None = None
    roles: RoleProfile | None = None
    gathers: float = 0.0

    def resident(self, machine: Target) -> int:
        """Resident blocks of a processor; 0 where not even one fits."""
        each = max(24, min(self.registers, self.limit, machine.max_registers))
        words = self.words or machine.register_words(self.warps, each)
        fitting = machine.resident_blocks(self.warps, words, self.shared)
        return min(fitting, 1) if self.roles is not None and self.roles.alone else fitting

    @property
    def excess(self) -> int:
        """Words a thread needs beyond those it may have."""
        return max(0, self.registers - self.limit)

    @property
    def spilling(self) -> float:
        """The slowdown by spills of the busiest thread, as a ratio."""
        return 1.0 + min(4.0, _SPILL * self.excess)


@attrs.frozen
class Estimate:
    """Estimated seconds and their parts: `waves` of `resident` blocks a processor, the parts of the
    busiest processor by name, and the limiter of an iteration."""

    seconds: float
    waves: float
    resident: int
    parts: Mapping[str, float]

    @property
    def bound(self) -> str:
        """The largest part."""
        return max(self.parts, key=lambda name: self.parts[name])
