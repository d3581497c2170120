"""The cost model: an estimate of the time of a kernel, without running it.

    estimate(work, use, instances, machine_of("sm_90a")).seconds

`model_uniform.py` is the model of kernels whose warps are all alike, `model_warp_specialized.py`
that of warp-specialized kernels (sm_90a). The estimates rank candidates; as absolute times they are
rough.
"""

from __future__ import annotations

from tileir.backend.gpu_models import GpuModel, machine_of
from tileir.backend.performance_model.model_inputs import Estimate, ResourceUse, RoleProfile
from tileir.backend.performance_model.model_uniform import estimate_uniform
from tileir.backend.performance_model.model_warp_specialized import estimate_warp_specialized
from tileir.backend.performance_model.work import WorkEstimate

__all__ = ["Estimate", "GpuModel", "ResourceUse", "RoleProfile", "estimate", "machine_of"]


def estimate(
    work: WorkEstimate,
    use: ResourceUse,
    instances: int,
    machine: GpuModel,
    footprint: float | None = None,
) -> Estimate:
    """The time of `instances` instances that each do `work`, in blocks that take `use`. `footprint`
    is the size in bytes of all arrays, each of which comes from memory at most once. Without it,
    only the written bytes count as memory traffic."""
    moved = instances * (work.read + work.written)
    once = instances * work.written if footprint is None else min(moved, footprint)
    if use.roles is not None:
        return estimate_warp_specialized(work, use, use.roles, instances, machine, once)
    return estimate_uniform(work, use, instances, machine, once)
