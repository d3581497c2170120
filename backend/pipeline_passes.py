"""The backend's pipelines as passes, for `tileir-opt`: their stages are printed, timed, verified,
bisected and reproduced like any pass."""

from __future__ import annotations

from tileir.ir import Module
from tileir.passmanager.manager import Recorder
from tileir.passmanager.registry import pass_


@pass_("gpu-pipeline")
def gpu_pipeline(
    module: Module, recorder: Recorder, *, target: str = "sm_90a", kernel: str = "", warps: int = 0
) -> Module:
    """Run the stages of the GPU backend, up to the module from which PTX is written.

    `target` is the name of a GPU target. `kernel` names the kernel; it is required if the module
    has several. `warps` is the number of warps of a block: 0 leaves the choice to the kernel's
    attributes or to the backend. The resulting module has layouts, shared memory and barriers. The
    stages are listed in `tileir.backend.pipeline.GPU`; a warp-specialized kernel passes the tables
    of `tileir.backend.warp_specialize.driver` first. Raises CompileError.
    """
    from tileir.backend.compile import run_pipeline
    from tileir.backend.options import Options
    from tileir.backend.target import target as target_named

    options = Options(num_warps=warps or None)
    lowered = run_pipeline(module, target_named(target), options, kernel or None, recorder)
    return lowered.stages["barriers"]


@pass_("cpu-pipeline")
def cpu_pipeline(module: Module, recorder: Recorder, *, kernel: str = "") -> Module:
    """Run the stages of the CPU backend, up to the module from which native code is written.

    `kernel` names the kernel; it is required if the module has several. The stages are listed in
    `tileir.backend.cpu.pipeline.STAGES`. Raises CompileError.
    """
    from tileir.backend.cpu.compile import lower

    return lower(module, kernel or None, recorder=recorder).module


def stage_names() -> frozenset[str]:
    """Names of all stages, warp specialization's included."""
    from tileir.backend.cpu.pipeline import STAGES
    from tileir.backend.pipeline import GPU
    from tileir.backend.warp_specialize.driver import TABLES

    return frozenset(stage.name for table in (GPU, STAGES, *TABLES) for stage in table)
