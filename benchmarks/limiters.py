"""The limiter of a kernel, determined by rules on metrics of Nsight Compute."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

LAUNCH = 1.5
"""Times an empty kernel's duration, up to which a kernel is limited by its launch."""
MEMORY, TENSOR, LEVEL, PIPE, ISSUE, IDLE = 85.0, 80.0, 80.0, 80.0, 80.0, 20.0
"""Percent of a peak from which on a unit is the limit; percent of processor time without work."""

ACTIVE = "pct_of_peak_sustained_active"
ELAPSED = "pct_of_peak_sustained_elapsed"
PIPES = {
    "alu": "integers", "fma": "multiply-adds", "fmaheavy": "multiply-adds (heavy)",
    "fp16": "halves", "fp64": "doubles", "lsu": "loads and stores", "xu": "special functions",
    "uniform": "uniform", "adu": "addresses", "cbu": "branches", "tex": "textures",
}  # fmt: skip
STALLS = {
    "barrier": "barrier", "branch_resolving": "branch resolving", "dispatch_stall": "dispatch",
    "drain": "drain (stores at the end)", "gmma": "GMMA (warpgroup MMAs)",
    "imc_miss": "constant cache miss", "lg_throttle": "LG throttle (queue of global accesses)",
    "long_scoreboard": "long scoreboard (global memory)", "membar": "memory barrier",
    "math_pipe_throttle": "math pipe throttle", "misc": "misc",
    "mio_throttle": "MIO throttle (queue of shared accesses)", "no_instruction": "no instruction",
    "no_instructions": "no instruction", "short_scoreboard": "short scoreboard (shared memory)",
    "sleeping": "sleeping", "tex_throttle": "TEX throttle", "wait": "wait (fixed latency)",
    "warpgroup_arrive": "warpgroup arrive",
}  # fmt: skip
"""Reasons of stalls as `ncu` names them, in its words."""
READY = ("selected", "not_selected")
"""Warps that issue, or could have: these do not wait for anything."""


class Facts(NamedTuple):
    """The properties of a launch: microseconds, percents of peaks, the percentage of processor time
    without work (`idle`), the busiest pipe other than tensor cores, and the stall reasons with the
    number of stalled warps per issued instruction, the largest first. None: not measured."""

    us: float | None = None
    grid: float | None = None
    block: float | None = None
    waves: float | None = None
    registers: float | None = None
    shared: float | None = None
    occupancy: float | None = None
    tensor: float | None = None
    dram: float | None = None
    l2: float | None = None
    l1: float | None = None
    l2_hits: float | None = None
    issue: float | None = None
    idle: float | None = None
    ghz: float | None = None
    conflicts: float | None = None
    instructions: float | None = None
    pipe: tuple[str, float] | None = None
    stalls: tuple[tuple[str, float], ...] = ()
    limits: tuple[tuple[str, float], ...] = ()


def facts(metrics: Mapping[str, float]) -> Facts:
    """The properties of a launch, derived from its metrics."""
    us = metrics.get("gpu__time_duration.sum")
    elapsed = _first(metrics, "sm__cycles_elapsed.max", "gpc__cycles_elapsed.max")
    active = metrics.get("sm__cycles_active.avg")
    stalls = _matching(metrics, r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
    stalls = stalls or _matching(metrics, r"smsp__pcsamp_warps_issue_stalled_(\w+)")
    named = [
        (reason, x)
        for reason, x in _by_value(stalls)
        if x > 0 and reason not in READY and not reason.endswith("_not_issued")
    ]
    pipes = _matching(metrics, rf"sm__inst_executed_pipe_([a-z0-9]+)\.avg\.{ACTIVE}")
    pipes |= _matching(metrics, rf"sm__pipe_([a-z0-9]+)_cycles_active\.avg\.{ACTIVE}")
    others = _by_value({n: x for n, x in pipes.items() if n in PIPES})
    limits = _matching(metrics, r"launch__occupancy_limit_(\w+)")
    return Facts(
        us=us,
        grid=metrics.get("launch__grid_size"),
        block=metrics.get("launch__block_size"),
        waves=metrics.get("launch__waves_per_multiprocessor"),
        registers=metrics.get("launch__registers_per_thread"),
        shared=_first(
            metrics, "launch__shared_mem_per_block", "launch__shared_mem_per_block_dynamic"
        ),
        occupancy=metrics.get(f"sm__warps_active.avg.{ACTIVE}"),
        tensor=_tensor(metrics),
        dram=_first(
            metrics, f"dram__throughput.avg.{ELAPSED}", f"gpu__dram_throughput.avg.{ELAPSED}"
        ),
        l2=metrics.get(f"lts__throughput.avg.{ELAPSED}"),
        l1=_most(metrics, r"l1tex__(throughput|data_bank_(reads|writes))\.avg\.pct_of_peak_\w+"),
        l2_hits=metrics.get("lts__t_sector_hit_rate.pct"),
        issue=_first(metrics, f"smsp__issue_active.avg.{ACTIVE}", f"sm__inst_issued.avg.{ACTIVE}"),
        idle=100 * max(0.0, 1 - active / elapsed) if active is not None and elapsed else None,
        ghz=elapsed / us / 1e3 if elapsed and us else None,
        conflicts=metrics.get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
        instructions=metrics.get("smsp__inst_executed.sum"),
        pipe=others[0] if others else None,
        stalls=tuple(named[:3]),
        limits=tuple(sorted(limits.items())),
    )


def limiter(launch: Facts, empty: float | None = None) -> str:
    """The first rule that applies, as text. `empty` is the duration of an empty kernel."""
    start = empty / launch.us if empty and launch.us else 0.0
    if start and 1 / start <= LAUNCH:
        return "launch latency"
    if _at_least(launch.dram, MEMORY):
        return f"memory bandwidth, {launch.dram:.0f} %"
    idle = launch.idle if launch.idle is not None else _last_wave(launch.waves)
    without = 0.0 if idle is None else max(0.0, idle - 100 * start)
    if launch.tensor is not None and _at_least(launch.tensor * (1 - without / 100), TENSOR):
        return f"tensor cores, {launch.tensor:.0f} %"
    if without >= IDLE:
        few = launch.waves is not None and launch.waves < 1
        return f"{'too few blocks' if few else 'quantisation'}, {without:.0f} % of processors idle"
    if _at_least(launch.l2, LEVEL):
        return f"L2 bandwidth, {launch.l2:.0f} %"
    if _at_least(launch.l1, LEVEL):
        return f"shared memory and L1 bandwidth, {launch.l1:.0f} %"
    if launch.pipe and launch.pipe[1] >= PIPE:
        return f"{PIPES[launch.pipe[0]]}, {launch.pipe[1]:.0f} %"
    if _at_least(launch.issue, ISSUE):
        return f"instruction issue, {launch.issue:.0f} %"
    if launch.stalls:
        return f"latency: {stall(launch.stalls[0][0])}"
    return "not known"


def stall(reason: str) -> str:
    """A stall reason as text."""
    return STALLS.get(reason, reason.replace("_", " "))


def _last_wave(waves: float | None) -> float | None:
    """The percentage of processor time without work if all blocks take equally long."""
    return 100 * (1 - waves / math.ceil(waves)) if waves else None


def _at_least(value: float | None, bound: float) -> bool:
    return value is not None and value >= bound


def _tensor(metrics: Mapping[str, float]) -> float | None:
    """The use of tensor cores, whose metrics have different names on different GPUs."""
    whole = metrics.get(f"sm__pipe_tensor_cycles_active.avg.{ACTIVE}")
    kinds = rf"sm__(inst_executed_)?pipe_tensor(_op_[a-z]+|)(_cycles_active)?\.avg\.{ACTIVE}"
    return whole if whole is not None else _most(metrics, kinds)


def _first(metrics: Mapping[str, float], *names: str) -> float | None:
    return next((metrics[name] for name in names if name in metrics), None)


def _most(metrics: Mapping[str, float], pattern: str) -> float | None:
    return max((x for name, x in metrics.items() if re.fullmatch(pattern, name)), default=None)


def _matching(metrics: Mapping[str, float], pattern: str) -> dict[str, float]:
    """The values of the first group of names that matches."""
    matches = ((re.fullmatch(pattern, name), value) for name, value in metrics.items())
    return {match[1]: value for match, value in matches if match}


def _by_value(values: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda item: -item[1])
