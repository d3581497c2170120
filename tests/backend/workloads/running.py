"""What every program of `tileir.testing.workloads` is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tileir.backend import Options, compile as compile_kernel
from tileir.backend.driver.gpu import gpu_target
from tileir.backend.executors import GpuExecutor, SimtExecutor
from tileir.errors import LaunchError
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passmanager import run

FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"


def agree(
    module: Module,
    grid: Sequence[int],
    arguments: Sequence[Any],
    place: int,
    expected: Any,
    *,
    off: float,
    seeds: int = 2,
    roles: bool = True,
    alone: bool = False,
) -> None:
    """Argument `place` is what `expected` says, up to `off` of its largest number: interpreted as
    written and, if `roles`, as roles; on the SIMT simulator, in `seeds` orders; and on a GPU of
    compute capability 9.0, where there is one. `alone`: a block works for one instance."""
    (name,) = (n for n, f in module.functions.items() if f.kernel)
    bound = off * max(1.0, float(np.nanmax(np.abs(expected), initial=0)))

    def near(actual: Any) -> None:
        kept = ~np.isnan(np.asarray(expected, np.float64))
        values = actual.astype(np.float64)[kept]
        np.testing.assert_allclose(values, np.asarray(expected)[kept], rtol=0, atol=bound)

    def copied_arguments() -> list[Any]:
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        copies[place].fill(-77 if copies[place].dtype.kind == "i" else np.nan)
        return copies

    values = copied_arguments()
    interpret(module, name, tuple(grid), values)
    near(values[place])
    if roles:
        values = copied_arguments()
        transformed = run(
            module, f"{FRONT},warp-specialize,defer-wgmma-waits,pipeline-chained-matmuls"
        ).module
        assert transformed.stage == "warp_specialized"
        interpret(transformed, name, tuple(grid), values)
        near(values[place])
    for seed in range(seeds):
        values = copied_arguments()
        options = {"target": "sm_90a", "seed": seed, "persistent": not (alone or seed % 2)}
        SimtExecutor().launch(module, name, tuple(grid), values, **options)
        near(values[place])
    if _on_hopper():
        values = copied_arguments()
        GpuExecutor().launch(module, name, tuple(grid), values, wait_timeout=True)
        near(values[place])


@cache
def _on_hopper() -> bool:
    try:
        return gpu_target() == "sm_90a"
    except LaunchError:
        return False


def assembles(module: Module, roles: bool = True, **options: Any) -> Any:
    """The module compiled for sm_90a: as roles or not, nothing spilled, no warnings."""
    kernel = compile_kernel(module, "sm_90a", Options(**options))
    machine_code = kernel.machine_code
    assert (kernel.host is not None) == roles, [str(r) for r in kernel.remarks]
    assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())
    return kernel


def normal(*shape: int, seed: int = 0, dtype: Any = np.float16) -> np.ndarray[Any, Any]:
    """Random numbers."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


__all__ = ["agree", "assembles", "normal"]
