"""Checks of generated matmuls against the passes of warp specialization: each pass must preserve
the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir.analysis.clusters import persistent_instances
from tileir.backend.launch_arguments import expand_descriptors
from tileir.errors import InterpretError
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passmanager import run as optimise
from tileir.testing.executors import RunResult, interpreter, violation
from tileir.testing.matmul_programs.features import ALL, COPIES
from tileir.testing.program import Program
from tileir.types import Descriptor

SIMT = ALL
"""The whole backend, on the SIMT simulator."""
_FRONT = ("cse", "licm", "scalarize-pointer-steps", "modulo-to-mask", "infer-descriptors")
_LATER = ("sink-wgmma-waits", "prefetch-register-operands")
MATMUL_PASSES = (
    "modulo-to-mask",
    "swap-operands",
    "infer-descriptors",
    "pad-to-swizzle-panels",
    "persist",
    "split-k",
    "cluster-instances",
    "warp-specialize",
    "defer-wgmma-waits",
    "pipeline-chained-matmuls",
    *_LATER,
    "peel-first-iteration",
    "per-warpgroup-stores",
    "pingpong",
    "multicast",
    SIMT,
    COPIES,
)


def pipeline_of(name: str, seed: int) -> str:
    """The pipeline of pass `name` and the passes before it; the seed selects whether a program is
    persistent."""
    if name in _FRONT:
        return ",".join(_FRONT[: _FRONT.index(name) + 1])
    if name == "swap-operands":
        return ",".join([*_FRONT[:-1], name])
    passes = [*_FRONT]
    if name == "pad-to-swizzle-panels":
        return ",".join([*passes, name])
    if name in ("cluster-instances", "multicast"):
        passes.append(f"cluster-instances{{ranks={_ranks(seed)}}}")
    elif name in ("persist", "pingpong") or seed % 2:
        passes.append("persist")
    if name == "split-k" or (name in ("warp-specialize", "defer-wgmma-waits") and seed % 3 == 2):
        passes.append(f"split-k{{ranks={_ranks(seed)}}}")
    pingpong = name == "multicast" and seed % 3 == 0
    if name not in ("persist", "split-k", "cluster-instances"):
        warps = ",warps=4" if name == "pingpong" or pingpong else ""
        passes.append(f"warp-specialize{{num-stages={_num_stages(seed)}{warps}}}")
    last = ("pingpong", "multicast")
    if name == "defer-wgmma-waits" or (
        name in ("pipeline-chained-matmuls", "peel-first-iteration", *last) and seed % 4 < 2
    ):
        passes.append("defer-wgmma-waits")
    if name == "pipeline-chained-matmuls" or (name in last and seed % 8 < 4):
        passes.append("pipeline-chained-matmuls")
    if pingpong:
        passes.append("pingpong")
    return ",".join([*passes, name] if name in (*last, *_LATER, "peel-first-iteration") else passes)


def _num_stages(seed: int) -> int:
    """A small number of stages, so that short loops reuse each of them; 0 for as many as fit."""
    return (0, 2, 3)[seed // 4 % 3]


def _ranks(seed: int) -> int:
    """The number of blocks of a cluster."""
    return (2, 4, 8)[seed // 12 % 3]


def compare(name: str, program: Program, seed: int) -> tuple[bool, str | None, bool]:
    """Whether the pass changed the program, the failure (None if there is none), and whether the
    program is undefined."""
    if name in (SIMT, COPIES, "per-warpgroup-stores"):
        return _run_simt(program, seed, name)
    preparation, _, last = pipeline_of(name, seed).rpartition(",")
    try:
        before = optimise(program.module, preparation).module
        changed = optimise(before, last).module
    except Exception as error:
        return True, f"{type(error).__name__}: {error}", False
    if changed is before:
        return False, None, False
    try:
        expected = interpreter()(program, seed)
    except InterpretError:
        return True, None, True
    return True, difference_of(program, changed, expected, seed), False


def difference_of(program: Program, changed: Module, expected: RunResult, seed: int) -> str | None:
    """The difference between the outputs of `changed`, the module after passes, and the expected
    ones; None if there is none."""
    from tileir.backend.tma.host_plan import HostPlan

    by_name = program.arguments(seed)
    original, kernel = (m.functions[program.kernel] for m in (program.module, changed))
    arguments = [by_name[p.name or ""] for p in original.parameters]
    if not any(isinstance(p.type, Descriptor) for p in kernel.parameters):
        arguments = expand_descriptors(original, arguments)
    extents = list(program.grid) if persistent_instances(kernel) else []
    if not _can_launch(kernel, [*arguments, *extents]):
        return None
    try:
        interpret(
            changed, program.kernel, (2,) if extents else program.grid, [*arguments, *extents]
        )
    except InterpretError as error:
        misaligned = "TIR0554" in str(error) and HostPlan.of(kernel) is None
        return None if misaligned else str(error)
    outputs = {name: by_name[name] for name, b in program.buffers.items() if b.output}
    return violation(RunResult(outputs), expected)


def _can_launch(kernel: Any, arguments: Sequence[Any]) -> bool:
    """Whether the host would launch the kernel."""
    from tileir.backend.tma.host_plan import HostPlan

    plan = HostPlan.of(kernel)
    numbers = [i + 1 << 40 if isinstance(v, np.ndarray) else v for i, v in enumerate(arguments)]
    return plan is None or plan.map_values(numbers) is not None


def _run_simt(program: Program, seed: int, name: str) -> tuple[bool, str | None, bool]:
    from tileir.backend.executors import SimtExecutor

    if name not in (SIMT, COPIES) and not _warpgroups_write(program):
        return False, None, False

    try:
        expected = interpreter()(program, seed)
    except InterpretError:
        return True, None, True
    arguments = program.arguments(seed)
    options: dict[str, Any] = {"target": "sm_90a", "seed": seed, "blocks": 1 + seed // 2 % 2}
    options["num_stages"] = _num_stages(seed) or None
    if name == COPIES:
        options["warp_specialize"] = False
        options["num_warps"] = (None, 4, 8)[seed % 3]
    else:
        options |= _warp_specialize_options(seed)
    try:
        SimtExecutor().launch(program.module, program.kernel, program.grid, arguments, **options)
    except Exception as error:
        return True, f"{type(error).__name__}: {error}", False
    outputs = {name: arguments[name] for name, b in program.buffers.items() if b.output}
    return True, violation(RunResult(outputs), expected), False


def _warp_specialize_options(seed: int) -> dict[str, Any]:
    options: dict[str, Any] = {"persistent": False} if seed % 2 else {}
    options["pingpong"] = seed % 3 == 0
    options["split_k"] = _ranks(seed) if seed % 3 == 1 else None
    options["multicast"] = _ranks(seed // 2) if seed % 4 == 0 else None
    return options


def _warpgroups_write(program: Program) -> bool:
    """Whether `per-warpgroup-stores` lets the warpgroups of the program store separately."""
    from tileir.backend.compile import run_pipeline
    from tileir.backend.options import Options
    from tileir.backend.target import target

    done = run_pipeline(program.module, target("sm_90a"), Options(), program.kernel)
    last = done.stages["barriers"]
    return any(
        op.mnemonic == "gpu.tma_store" and op.warpgroup  # type: ignore[attr-defined]
        for function in last.functions.values() for op in function.ops
    )  # fmt: skip
