"""How long a kernel takes, estimated without running it: waves, traffic, pipeline depth.

    estimate(work, use, instances, machine_of("sm_90a")).seconds

Blocks run in waves of as many as the processors hold at once. While a processor runs `r` blocks,
a step of their loops takes the longest of

    products        r * operations / rate, less where too few warps feed the tensor cores
    fragments       r * bytes read from shared memory / 128 bytes a cycle
    traffic         r * bytes of the step / the processor's share of the L2's bandwidth
    latency         a memory access, divided by the steps that run ahead (`stages - 1`)

where blocks of a cluster share an instance they meet, and send each other sums, behind its steps;
and the whole no less than the arrays take from memory, once. Rates are published peaks
of dense arithmetic; `_LAUNCH` and the latencies are fits: products of 2048x2048xK on one H200
took 8 us and 10.3 us more per 1024 of K, of which 9.3 us are the peak rate's.

The numbers rank candidates; as times they are rough: of 22 shapes of f16 products by warpgroups
with up to 17 tile shapes each (benchmarks/products.py, one H200) the mean error is 12 %, and the
favourite takes 1.02 times as long as the best on average, 1.17 times at most.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileir import records
from tileir.backend.target import Target, target
from tileir.backend.tuning.work import Work

_LAUNCH = 5e-6
"""Seconds from the launch to the first instruction, and from the last to the end."""

_LATENCY = 0.8e-6
"""Seconds of a read from memory under load."""

_FEEDING = 4
"""Warps that keep the tensor cores of a processor busy with `mma.sync`, one per quarter."""

BY_WARP, BY_GROUP, BY_GROUPS = 0.62, 0.7, 1.0
"""Parts of the peak rate of products that `mma.sync` of warps reaches, `wgmma` of one warpgroup,
and of several."""

_MAPPED = 1.2
"""How much more of the L2's bandwidth copies by tensor maps get than those of threads."""

_MEETING, _REMOTE = 1.2e-6, 32.0
"""Seconds in which blocks of a cluster meet, where they begin and where they exchange sums, and
bytes that they send each other a cycle and processor; neither is fitted."""

_SPILL = 0.02
"""Part of the time that a word of registers beyond the limit adds per thread, and at most 4."""


@records.frozen
class Machine:
    """A GPU: `processors` of `clock` hertz; operations a cycle and processor of dense products by
    the bits of their factors (negative: without tensor cores); bytes a second from memory and
    from the L2."""

    target: Target
    processors: int
    clock: float
    products: Mapping[int, float]
    memory: float
    cache: float
    arithmetic: float = 128.0
    """Elements a cycle and processor."""


@records.frozen
class Use:
    """What a block of a kernel takes: its warps, bytes of shared memory, words of registers that
    its busiest thread needs, and the limit that one has; `stages`: slots of its buffers;
    `fragments`: bytes that all its threads read from shared memory in one instance; `rate`: the
    part of the peak rate of tensor cores that its instructions reach; `words`: registers of all
    its threads, where they differ, and None where all have the same; `alone`: whether a processor
    runs one block, which takes instance after instance; `mapped`: whether what it reads is copied
    by tensor maps; `turns`: whether one group of warps writes while another multiplies; `cluster`:
    blocks that share an instance, each of which sends `remote` bytes to others' shared memory."""

    warps: int
    shared: int
    registers: int
    stages: int = 1
    fragments: float = 0.0
    limit: int = 255
    rate: float = BY_WARP
    words: int | None = None
    alone: bool = False
    mapped: bool = False
    turns: bool = False
    cluster: int = 1
    remote: float = 0.0

    def resident(self, machine: Target) -> int:
        """Blocks that a processor holds at once; 0 where not even one."""
        threads = self.warps * machine.lanes
        each = max(24, min(self.registers, self.limit, machine.max_registers))
        words = self.words or -(-each // 8) * 8 * threads
        fitting = min(
            machine.blocks_per_processor,
            machine.threads_per_processor // threads,
            machine.registers_per_processor // words,
            machine.shared_per_processor // (self.shared + 1024),
        )
        return min(fitting, 1) if self.alone else fitting

    @property
    def excess(self) -> int:
        """Words a thread needs beyond those it may have."""
        return max(0, self.registers - self.limit)


@records.frozen
class Estimate:
    """Seconds, and what they are made of: `waves` of `resident` blocks a processor, the parts of
    the busiest processor by name, and what a step of the loop waits for."""

    seconds: float
    waves: float
    resident: int
    parts: Mapping[str, float]

    @property
    def bound(self) -> str:
        """The largest part."""
        return max(self.parts, key=lambda name: self.parts[name])


def estimate(
    work: Work, use: Use, instances: int, machine: Machine, footprint: float | None = None
) -> Estimate:
    """The time of `instances` instances that each do `work` in blocks that take `use`;
    `footprint`: bytes of all arrays, which come from memory once at most; without it only what is
    written goes there."""
    moved = instances * (work.read + work.written)
    once = instances * work.written if footprint is None else min(moved, footprint)
    work, instances = work.shared(use.cluster), instances * use.cluster
    resident = max(1, use.resident(machine.target))
    held = machine.processors * resident
    full, rest = divmod(instances, held)
    last = -(-rest // machine.processors)
    parts = dict.fromkeys(_wave(work, use, 1, machine), 0.0)
    total = _LAUNCH
    for count, blocks in ((full, resident), (1, last)):
        if blocks == 0 or count == 0:
            continue
        wave = _wave(work, use, blocks, machine)
        total += count * max(wave.values()) + (1 if use.turns else count) * _LATENCY
        for name, seconds in wave.items():
            parts[name] += count * seconds
    if use.cluster > 1:
        meeting = _MEETING + use.remote / (_REMOTE * machine.clock)
        parts["gather"] = -(-instances // held) * meeting
        total += parts["gather"]
    parts["memory"] = once / machine.memory
    total = max(total, parts["memory"] + _LAUNCH)
    total *= 1.0 + min(4.0, _SPILL * use.excess)
    return Estimate(total, full + last / resident, resident, parts)


def _wave(work: Work, use: Use, blocks: int, machine: Machine) -> dict[str, float]:
    """Seconds that `blocks` blocks side by side keep each part of a processor busy."""
    feeding = use.rate * min(1.0, blocks * use.warps / _FEEDING)
    cycles = sum(
        count / (machine.products[bits] * (feeding if bits > 0 else 1.0))
        for bits, count in work.dots.items()
    )
    ahead = max(1, use.stages - 1) * blocks
    share = machine.cache / machine.processors * (_MAPPED if use.mapped else 1.0)
    return {
        "products": blocks * cycles / machine.clock,
        "arithmetic": blocks * work.arithmetic / (machine.arithmetic * machine.clock),
        "fragments": blocks * use.fragments / (128 * machine.clock),
        "traffic": blocks * (work.read + work.written) / share,
        "latency": blocks * work.steps * _LATENCY / ahead,
    }


def machine_of(name: str, processors: int | None = None) -> Machine:
    """The machine of target `name`, with `processors` where the device says how many it has.

    Raises `CompileError` (TIR0702)."""
    found = _MACHINES.get(name.removesuffix("a")) or _MACHINES["sm_90"]
    machine = records.evolve(found, target=target(name))
    return machine if processors is None else records.evolve(machine, processors=processors)


def _products(sixteen: float, double: float) -> dict[int, float]:
    """Operations a cycle by bits of factors, given those of 16 and of 64."""
    return {4: sixteen * 2, 8: sixteen * 2, 16: sixteen, 32: sixteen / 2, 64: double, -32: 256.0}


_MACHINES = {
    "sm_80": Machine(target("sm_80"), 108, 1.41e9, _products(2048, 128), 1.9e12, 5.0e12),
    "sm_86": Machine(target("sm_86"), 84, 1.70e9, _products(1024, 4), 0.76e12, 3.0e12),
    "sm_89": Machine(target("sm_89"), 128, 2.52e9, _products(1024, 4), 1.0e12, 5.0e12),
    "sm_90": Machine(target("sm_90"), 132, 1.755e9, _products(4096, 512), 4.2e12, 10.0e12),
    "sm_100": Machine(target("sm_100"), 148, 1.9e9, _products(8192, 256), 7.0e12, 18.0e12),
    "sm_120": Machine(target("sm_120"), 170, 2.4e9, _products(1024, 4), 1.6e12, 8.0e12),
}
"""NVIDIA's architecture whitepapers: A100, GA102, AD102, H200, B200, GB202."""
