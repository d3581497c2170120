"""One generated product against the passes that make roles: what each made of it means the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir.analysis.clusters import persistent_instances
from tileir.backend.executors import expand_descriptors
from tileir.errors import InterpretError
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passmanager import run as optimise
from tileir.testing.executors import Found, interpreter, violation
from tileir.testing.matmul_programs.features import ALL, COPIES
from tileir.testing.program import Program
from tileir.types import Descriptor

SIMT = ALL
"""The whole backend, on the machine of threads."""
_FRONT = ("cse", "licm", "scalarize-pointer-steps", "modulo-to-mask", "infer-descriptors")
_LATER = ("sink-wgmma-waits", "prefetch-register-operands")
PRODUCTS = (
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
    """What comes before pass `name`, and the pass; by the seed a program is persistent or not."""
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
    turns = name == "multicast" and seed % 3 == 0
    if name not in ("persist", "split-k", "cluster-instances"):
        warps = ",warps=4" if name == "pingpong" or turns else ""
        passes.append(f"warp-specialize{{num-stages={_slots(seed)}{warps}}}")
    last = ("pingpong", "multicast")
    if name == "defer-wgmma-waits" or (
        name in ("pipeline-chained-matmuls", "peel-first-iteration", *last) and seed % 4 < 2
    ):
        passes.append("defer-wgmma-waits")
    if name == "pipeline-chained-matmuls" or (name in last and seed % 8 < 4):
        passes.append("pipeline-chained-matmuls")
    if turns:
        passes.append("pingpong")
    return ",".join([*passes, name] if name in (*last, *_LATER, "peel-first-iteration") else passes)


def _slots(seed: int) -> int:
    """Few slots, so that short loops use each again and again; 0 for as many as fit."""
    return (0, 2, 3)[seed // 4 % 3]


def _ranks(seed: int) -> int:
    """Blocks of a cluster."""
    return (2, 4, 8)[seed // 12 % 3]


def compared(name: str, program: Program, seed: int) -> tuple[bool, str | None, bool]:
    """Whether the pass did something, what was wrong, whether the program has no meaning."""
    if name in (SIMT, COPIES, "per-warpgroup-stores"):
        return _on_threads(program, seed, name)
    before, _, last = pipeline_of(name, seed).rpartition(",")
    try:
        early = optimise(program.module, before).module
        changed = optimise(early, last).module
    except Exception as error:
        return True, f"{type(error).__name__}: {error}", False
    if changed is early:
        return False, None, False
    try:
        expected = interpreter()(program, seed)
    except InterpretError:
        return True, None, True
    return True, different(program, changed, expected, seed), False


def different(program: Program, changed: Module, expected: Found, seed: int) -> str | None:
    """How a module, made of the program's by passes, differs from what is wanted."""
    arguments = program.arguments(seed)
    first, taken = program.module.functions[program.kernel], changed.functions[program.kernel]
    given = [arguments[p.name or ""] for p in first.parameters]
    if not any(isinstance(p.type, Descriptor) for p in taken.parameters):
        given = expand_descriptors(first, given)
    from tileir.backend.tma.host_plan import HostPlan

    kernel = changed.functions[program.kernel]
    extents = list(program.grid) if persistent_instances(kernel) else []
    if not _allowed(kernel, [*given, *extents]):
        return None
    try:
        interpret(changed, program.kernel, (2,) if extents else program.grid, [*given, *extents])
    except InterpretError as error:
        early = "TIR0554" in str(error) and HostPlan.of(kernel) is None
        return None if early else str(error)
    outputs = {name: arguments[name] for name, b in program.buffers.items() if b.output}
    return violation(Found(outputs), expected)


def _allowed(kernel: Any, arguments: Sequence[Any]) -> bool:
    """Whether the host would launch the kernel."""
    from tileir.backend.tma.host_plan import HostPlan

    plan = HostPlan.of(kernel)
    numbers = [i + 1 << 40 if isinstance(v, np.ndarray) else v for i, v in enumerate(arguments)]
    return plan is None or plan.map_values(numbers) is not None


def _on_threads(program: Program, seed: int, name: str) -> tuple[bool, str | None, bool]:
    from tileir.backend.executors import SimtExecutor

    if name not in (SIMT, COPIES) and not _warpgroups_write(program):
        return False, None, False

    try:
        expected = interpreter()(program, seed)
    except InterpretError:
        return True, None, True
    arguments = program.arguments(seed)
    options: dict[str, Any] = {"target": "sm_90a", "seed": seed, "blocks": 1 + seed // 2 % 2}
    options["num_stages"] = _slots(seed) or None
    if name == COPIES:
        options["warp_specialize"] = False
        options["num_warps"] = (None, 4, 8)[seed % 3]
    else:
        options |= _of_roles(seed)
    try:
        SimtExecutor().launch(program.module, program.kernel, program.grid, arguments, **options)
    except Exception as error:
        return True, f"{type(error).__name__}: {error}", False
    outputs = {name: arguments[name] for name, b in program.buffers.items() if b.output}
    return True, violation(Found(outputs), expected), False


def _of_roles(seed: int) -> dict[str, Any]:
    options: dict[str, Any] = {"persistent": False} if seed % 2 else {}
    options["pingpong"] = seed % 3 == 0
    options["split_k"] = _ranks(seed) if seed % 3 == 1 else None
    options["multicast"] = _ranks(seed // 2) if seed % 4 == 0 else None
    return options


def _warpgroups_write(program: Program) -> bool:
    """Whether `per-warpgroup-stores` lets warpgroups of the program write by themselves."""
    from tileir.backend.compile import run_pipeline
    from tileir.backend.options import Options
    from tileir.backend.target import target

    done = run_pipeline(program.module, target("sm_90a"), Options(), program.kernel)
    last = done.stages["barriers"]
    return any(
        op.mnemonic == "gpu.tma_store" and op.warpgroup  # type: ignore[attr-defined]
        for function in last.functions.values() for op in function.ops
    )  # fmt: skip
