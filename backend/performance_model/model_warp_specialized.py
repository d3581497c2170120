"""The model of warp-specialized kernels (sm_90a), whose producers copy blocks to rings of stages
and whose consumers multiply.

Blocks run in waves of one block per processor, or as many as are resident. An iteration on the
busiest processor takes the longest of

    matmuls      operations / the rate of `wgmma`, and the part of the arithmetic in between that
                 other warpgroups do not hide
    arithmetic   the elements computed between matmuls
    gathers      instructions that load scattered elements
    fragments    bytes of operands that `wgmma` reads / 128 bytes a cycle of shared memory
    traffic      requests for lines of the L2, or parts of lines / the rate of the port that two
                 processors share
    loads        where no tensor map can describe an operand: loads by threads
    latency      of a copy / stages of the ring

plus `_ITERATION`. After the loop, results are stored. All waves together take at least the time
that memory needs for the bytes of first accesses, and the time that the power limit imposes for the
operations.

Constants are for one H200: times in seconds, sizes in bytes, rates in units per second. Unless
stated otherwise, they were fitted jointly to 5213 measurements of 109 problems
(benchmarks/results/matmul_shapes*.json) and rounded. `docs/explanation/tuning.md` states their
accuracy.
"""

from __future__ import annotations

from typing import NamedTuple

from tileir.backend.gpu_models import GpuModel
from tileir.backend.performance_model.model_inputs import GATHER, Estimate, ResourceUse, RoleProfile
from tileir.backend.performance_model.work import WorkEstimate

LINE, HALF = 128, 64
"""Bytes of a line of the L2, which a request is for, and of the halves that rows are asked for by
where they do not begin at halves."""

_CLOCK = 1.98e9
"""Cycles a second, the most that the device may have: short kernels run at that."""

_SUSTAINED = {16: 760e12, 8: 1500e12, 32: 390e12}
"""Operations a second of matmuls, by bits of their operands, that its power allows for long."""

_REACHED, _THREE = 0.87, 0.77
"""Parts of the peak rate that `wgmma` reaches, and with three groups of 4 warps."""

_ODD = 100.0
"""Additional cycles of an instruction with an N-major B and an odd multiple of 8 columns."""

_OVERLAPPED = 64.0
"""Elements a cycle and processor that are computed between matmuls: half of what the units allow;
operands of 4 and 8 bits (benchmarks/results/workloads_quantised.json) take about that."""

_SHOWING = {1: 1.0, 2: 0.8, 3: 0.5}
"""The part of the arithmetic between matmuls that matmuls of other warpgroups do not hide, by
number of groups (benchmarks/results/attention.json)."""

_REQUEST, _ALONE = 2.0, 0.6
"""Cycles of a request where both processors at a port are busy; its part where one is."""

_LATENCY, _ITERATION = 0.9e-6, 0.035e-6
"""Latency of a copy under load; overhead of an iteration for barriers."""

_LAUNCH = 6.5e-6
"""The time from the launch to the end of the last block that is not in the loop."""

_DIVISION = 0.065e-6
"""A division before the first copy, 130 cycles."""

_NEXT_BLOCK = 0.74e-6
"""Between a block's end and the first step of the one that takes its place."""

_STORED = 80e9
"""Bytes of results a second and processor."""

_THREADS, _PER_ELEMENT, _LOAD = 0.43e-6, 2.6e-9, 9.6e-9
"""An iteration of loads by threads, for each element that a thread owns, and for each of its
loads."""

_COPIED, _COPY = 5.3e-9, 4e-9
"""An iteration of asynchronous copies by threads, for each element that a thread owns, and for each
of its copies. Of eight tiles and sizes of f16, by 4 and 8 bytes, whose iterations take 0.84 to 1.52
us on an H200, all take 0.94 to 1.14 of this."""

_FEW, _FEWER = 104, 1.45
"""Registers with which threads keep fewer loads under way, and how many times as long they take."""

_NEEDED, _LACKING = 88, 0.22
"""Registers of a thread that loads by less than 4 bytes, and how many times as long it takes for
each that it lacks."""

_STORE = 0.3e-9
"""A store by a thread, of all of a block."""

_CLUSTER_BARRIER, _EACH, _SENT = 0.6e-6, 0.02e-6, 13.6e9
"""Cluster barriers: once, and for each of the blocks; bytes a second that a block sends."""

_TOGETHER = 1.0e-6
"""The additional time of blocks that load for each other."""

_COLD = 1.6
"""The ratio of the time of first accesses by tiles to that of one array in order."""

_LEFT = 8
"""Processors that clusters of 4 and more leave unused: clusters stay within groups of 16 or 18, of
which one has fewer. 31 clusters of 4 run at once."""

_JOIN, _CAP = 4, 8
"""Exponents of the norm by which two limits that are alike add up, of memory and of power."""


class _Scale(NamedTuple):
    """The number of resident blocks of a processor, of processors in use, and of blocks of all
    processors."""

    resident: int
    processors: int
    blocks: int


def estimate_warp_specialized(
    work: WorkEstimate,
    use: ResourceUse,
    roles: RoleProfile,
    instances: int,
    machine: GpuModel,
    once: float,
) -> Estimate:
    """The time of `instances` instances in blocks whose roles do `roles`. `once` is the number of
    bytes that are read from and written to memory."""
    scale = _scale(use, roles, machine, instances)
    full, last_blocks = divmod(scale.blocks, scale.processors * scale.resident)
    counts = {scale.processors * scale.resident: full, last_blocks: 1}
    spent = [
        (count, _wave(work, roles, machine, blocks, -(-blocks // scale.processors)))
        for blocks, count in counts.items()
        if blocks and count
    ]
    waves = full + (last_blocks > 0)
    parts = {
        name: sum(n * seconds_of[name] for n, (_, seconds_of) in spent) for name in spent[0][1][1]
    }
    parts |= {
        "cluster barriers": _cluster_barriers(roles, waves),
        "memory": _COLD * once / machine.memory,
        "power": _power(work, instances, machine),
    }
    later_waves = 0.0 if roles.alone else (waves - 1) * _NEXT_BLOCK
    total = (
        sum(count * seconds for count, (seconds, _) in spent)
        + parts["cluster barriers"]
        + later_waves
    )
    total = _norm(_norm(total, parts["memory"], _JOIN), parts["power"], _CAP)
    total += _LAUNCH + roles.divisions * _DIVISION
    last = -(-last_blocks // scale.processors)
    return Estimate(total, full + last / scale.resident, scale.resident, parts)


def _norm(first: float, second: float, exponent: int) -> float:
    """The p-norm of two times, with p = `exponent`: about the larger one, and more if they are
    close."""
    return float((first**exponent + second**exponent) ** (1 / exponent))


def _wave(
    work: WorkEstimate, roles: RoleProfile, machine: GpuModel, blocks: int, side: int
) -> tuple[float, dict[str, float]]:
    """The seconds of a wave of `blocks` blocks, of which the busiest processor runs `side` at once;
    and the seconds for which each part keeps that processor busy."""
    share = work.divide_steps(roles.cluster)
    step = _step(work, roles, machine, paired=blocks > machine.processors // 2)
    longest = max(step.latency, *(side * each for each in step[1:])) + _ITERATION
    stored = side * (share.written / _STORED + roles.stores * _STORE)
    busy = {name: share.steps * side * each for name, each in step._asdict().items()}
    parts = {**busy, "latency": share.steps * step.latency, "stores": stored}
    return share.steps * longest + stored, parts


class _Step(NamedTuple):
    """Seconds of an iteration of one block, by resource."""

    latency: float
    matmuls: float
    arithmetic: float
    fragments: float
    traffic: float
    loads: float
    gathers: float


def _step(work: WorkEstimate, roles: RoleProfile, machine: GpuModel, paired: bool) -> _Step:
    """The iteration of a block. `paired` states whether both processors that share a port of the L2
    are busy."""
    steps = max(1.0, work.steps)
    reached = _THREE if roles.groups == 3 else _REACHED
    cycles = sum(n / machine.matmul_rates[bits] for bits, n in work.dots.items()) / steps / reached
    overlapped = roles.arithmetic / (_OVERLAPPED * _CLOCK)
    showing = 1.0 if roles.registers else _SHOWING.get(roles.groups, _SHOWING[3])
    lines = roles.requests * _REQUEST * (1.0 if paired else _ALONE)
    return _Step(
        _LATENCY / max(1, roles.num_stages),
        (cycles + roles.odd * _ODD) / _CLOCK + overlapped * showing,
        overlapped,
        work.operand_bytes / steps / (128 * _CLOCK),
        lines / _CLOCK,
        _loads(roles),
        roles.gathers * GATHER,
    )


def _loads(roles: RoleProfile) -> float:
    """Seconds of an iteration of threads that load operands."""
    if not roles.elements:
        return 0.0
    if roles.asynchronous:
        return _COPIED * roles.elements + _COPY * roles.loads
    plain = _THREADS + _PER_ELEMENT * roles.elements + _LOAD * roles.loads
    lacking = max(0, _NEEDED - roles.limit) if roles.unit < 4 else 0
    return plain * (_FEWER if roles.limit <= _FEW else 1.0) * (1.0 + _LACKING * lacking)


def _scale(use: ResourceUse, roles: RoleProfile, machine: GpuModel, instances: int) -> _Scale:
    size = roles.cluster * roles.together
    fit = machine.processors if size < 4 else max(size, machine.processors - _LEFT)
    resident = max(1, use.resident(machine.target))
    return _Scale(resident, fit // size * size, instances * roles.cluster)


def _cluster_barriers(roles: RoleProfile, waves: int) -> float:
    """Seconds for which blocks of clusters wait for each other."""
    together = _TOGETHER if roles.together > 1 else 0.0
    if roles.cluster == 1:
        return together
    return together + waves * (_CLUSTER_BARRIER + _EACH * roles.cluster + roles.remote / _SENT)


def _power(work: WorkEstimate, instances: int, machine: GpuModel) -> float:
    """Seconds of all matmuls at the rate that the power limit allows."""
    seconds = 0.0
    for bits, count in work.dots.items():
        rate = _SUSTAINED.get(abs(bits), machine.matmul_rates[bits] * _CLOCK * 132)
        seconds += instances * count / (rate * machine.processors / 132)
    return seconds
