"""How long a kernel takes, estimated without running it.

    estimate(work, use, instances, machine_of("sm_90a")).seconds

`waves.py` is the model of kernels whose warps are all alike, `rings.py` that of those whose warps
have roles (sm_90a). The numbers rank candidates; as times they are rough.
"""

from __future__ import annotations

from tileir.backend.tuning.machines import Machine, machine_of
from tileir.backend.tuning.needs import Estimate, Roles, Use
from tileir.backend.tuning.rings import by_rings
from tileir.backend.tuning.waves import by_waves
from tileir.backend.tuning.work import Work

__all__ = ["Estimate", "Machine", "Roles", "Use", "estimate", "machine_of"]


def estimate(
    work: Work, use: Use, instances: int, machine: Machine, footprint: float | None = None
) -> Estimate:
    """The time of `instances` instances that each do `work` in blocks that take `use`;
    `footprint`: bytes of all arrays, which come from memory once at most; without it only what is
    written goes there."""
    moved = instances * (work.read + work.written)
    once = instances * work.written if footprint is None else min(moved, footprint)
    if use.roles is not None:
        return by_rings(work, use, use.roles, instances, machine, once)
    return by_waves(work, use, instances, machine, once)
