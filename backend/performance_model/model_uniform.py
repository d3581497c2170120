"""Kernels without warp specialization: waves of blocks, traffic, pipeline depth.

Blocks run in waves: as many at once as are resident on all processors. While a processor runs `r`
blocks, an iteration of their loops takes the longest of

    matmuls         r * operations / rate, less where too few warps feed the tensor cores
    fragments       r * bytes read from shared memory / 128 bytes a cycle
    traffic         r * bytes of the iteration / the processor's share of the L2's bandwidth
    latency         a memory access, divided by the iterations in flight (`stages - 1`)

plus the time of scattered accesses, which no copy prefetches (`GATHER`). The total is at least the
time to read all arrays from memory once. Rates are published peaks of dense arithmetic. `_LAUNCH`
and the latency are fitted: matmuls of 2048x2048xK on one H200 took 8 us, plus 10.3 us per 1024 of
K, of which the peak rate accounts for 9.3 us.
"""

from __future__ import annotations

from tileir.backend.gpu_models import GpuModel
from tileir.backend.performance_model.model_inputs import GATHER, Estimate, ResourceUse
from tileir.backend.performance_model.work import WorkEstimate

_LAUNCH = 5e-6
"""Seconds from the launch to the first instruction, and from the last to the end."""

_LATENCY = 0.8e-6
"""Seconds of a read from memory under load."""

_FEEDING = 4
"""Warps that keep the tensor cores of a processor busy with `mma.sync`, one per quarter."""

_BY_WARP = 0.62
"""The part of the peak matmul rate that `mma.sync` reaches."""


def estimate_uniform(
    work: WorkEstimate, use: ResourceUse, instances: int, machine: GpuModel, once: float
) -> Estimate:
    """The time of `instances` instances in blocks that take `use`. `once` is the number of bytes
    that are read from and written to memory."""
    resident = max(1, use.resident(machine.target))
    resident_blocks = machine.processors * resident
    full, last_blocks = divmod(instances, resident_blocks)
    last = -(-last_blocks // machine.processors)
    parts = dict.fromkeys(_wave(work, use, 1, machine), 0.0)
    total, gathered = _LAUNCH, 0.0
    for count, blocks in ((full, resident), (1, last)):
        if blocks == 0 or count == 0:
            continue
        wave = _wave(work, use, blocks, machine)
        scattered = blocks * use.gathers * GATHER
        total += count * (max(wave.values()) + scattered + _LATENCY)
        gathered += count * scattered
        for name, seconds in wave.items():
            parts[name] += count * seconds
    parts["gathers"] = gathered
    parts["memory"] = once / machine.memory
    total = max(total, parts["memory"] + _LAUNCH) * use.spilling
    return Estimate(total, full + last / resident, resident, parts)


def _wave(work: WorkEstimate, use: ResourceUse, blocks: int, machine: GpuModel) -> dict[str, float]:
    """For each part of a processor, the seconds that it is busy while the processor runs `blocks`
    blocks."""
    feeding = _BY_WARP * min(1.0, blocks * use.warps / _FEEDING)
    cycles = sum(
        count / (machine.matmul_rates[bits] * (feeding if bits > 0 else 1.0))
        for bits, count in work.dots.items()
    )
    ahead = max(1, use.stages - 1) * blocks
    share = machine.cache / machine.processors
    return {
        "matmuls": blocks * cycles / machine.clock,
        "arithmetic": blocks * work.arithmetic / (machine.arithmetic * machine.clock),
        "fragments": blocks * use.fragments / (128 * machine.clock),
        "traffic": blocks * (work.read + work.written) / share,
        "latency": blocks * work.steps * _LATENCY / ahead,
    }
