"""The cost model: an estimate of the time of a kernel from its algorithm, schedule and sizes.

    time = launch + longest of the parts * waves rounded up / waves + 0.15 * the other parts

The parts are:

- memory: the tensors, the bytes that instances load again after eviction from the cache, and more
  if accesses have short segments or too few bytes are in flight;
- arithmetic: matmuls, at a share of the peak rate that tiles determine, and elements, at one that
  the warps determine;
- latency of dependent steps;
- the start of blocks.

The estimates rank schedules; as absolute times they are rough. If a mask ends passes early, so that
instances have unequal work, `load_balance.py` computes the largest load of a multiprocessor in the
order of the grid, and `cache_reuse.py` the bytes that are loaded again.

Constants are those of one H200 (`benchmarks/results/thesis.json`, `schedules.json`). They were
fitted to these lines: geglu and dyt at 16384x16384 (`scattered`, `start` and `in_flight`); rms_norm
there and kl at 128x65536 (bytes loaded again); matmul at 4096x4096x4096 (`mapped`); mmsigmoid at
8192x8192x128 (drift of warps, and how they fill a multiprocessor); 2mm at 512 (`warp`). No constant
was fitted to the other lines: a test replays all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from tileir.frontends.decoupled.cache_reuse import MANY, reread_bytes
from tileir.frontends.decoupled.element_types import dot_operand_type
from tileir.frontends.decoupled.fusion import Group
from tileir.frontends.decoupled.nodes import Binary, Call, Node, Number, Reduction, Unary
from tileir.frontends.decoupled.tensors import Tensor
from tileir.frontends.decoupled.traffic import (
    SHARED_BYTES,
    KernelWork,
    Traffic,
    Use,
    Uses,
    is_dot,
    uses_of,
)
from tileir.types import Scalar


@attrs.frozen
class GpuRates:
    """A GPU. Bytes a second: of `memory`, of the `cache` to threads, and of copies from it by
    tensor maps (`mapped`); bytes that it holds, and that a processor's own does; operations a
    second on `elements`, and of `matmuls` by the type of their operands. `in_flight` are the bytes
    a processor has to have under way to reach the bandwidth of memory; accesses in segments shorter
    than a `page` take up to `scattered` longer, for the rows of DRAM that are opened for each.

    Seconds: from a `launch` to its first instruction and from the last to the end; the `latency` of
    a read under load; the `start` of a block, anywhere, without its threads; that of a `warp` of
    the only block of a processor."""

    processors: int = 132
    memory: float = 4.2e12
    cache: float = 7e12
    mapped: float = 10.7e12
    cache_bytes: float = 30e6
    own_cache: float = 128e3
    elements: float = 25e12
    matmuls: Mapping[str, float] = attrs.field(
        factory=lambda: {"f16": 7e14, "bf16": 7e14, "f8e4m3": 1.3e15, "f8e5m2": 1.3e15,
                         "i8": 1.3e15, "f32": 5e13, "f64": 4e13, "tf32": 3.6e14}
    )  # fmt: skip
    registers: int = 65536
    threads: int = 2048
    in_flight: float = 20e3
    page: float = 32e3
    scattered: float = 0.07
    launch: float = 4.4e-6
    latency: float = 0.8e-6
    start: float = 4.9e-10
    warp: float = 2.5e-8


H200 = GpuRates()
"""The defaults: an NVIDIA H200."""
_HEAVY = {"exp": 8, "exp2": 4, "log": 8, "tanh": 16, "erf": 24, "sin": 20, "cos": 20, "pow": 40,
          "sigmoid": 16, "rsqrt": 4, "sqrt": 8}  # fmt: skip
"""Instructions of functions, those of the special function units counted for what they take."""
_AHEAD = {1: 0.5, 2: 0.9, 3: 0.98}
"""The part of the peak rate of matmuls by how many of their steps are loaded ahead."""

_STALL = 0.5
"""The drift of alternating warpgroups if an instance has one step: 16384x16384x64 with a sigmoid
takes them 1.16 times as long as a block of both."""

_BY_WARP = 0.62
"""The part of the peak rate of matmuls that instructions of a warp reach."""


@attrs.frozen
class KernelEstimate:
    """Seconds of a kernel, and what they are made of."""

    seconds: float
    memory: float
    arithmetic: float
    instances: int


def estimate(
    group: Group,
    sizes: Mapping[str, int],
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
    machine: GpuRates = H200,
    uses: Uses | None = None,
) -> KernelEstimate:
    """The time of a group's kernel; `uses` are those of `uses_of`, if they are known."""
    result = uses_of(group, {}) if uses is None else uses
    return _Model(KernelWork(group, sizes, tensors, scalars, result), machine).estimate()


@attrs.define
class _Model:
    work: KernelWork
    machine: GpuRates
    at_once: float = 1.0
    """Blocks that a processor has at once."""

    def estimate(self) -> KernelEstimate:
        """The time, put together."""
        work, machine, threads = self.work, self.machine, self.work.warps * 32
        moved, instances = work.traffic(), work.instances
        registers = 24 + work.live() / threads
        staged = moved.step * (work.schedule.num_stages or 3) + moved.kept if work.matmuls else 0
        if staged > SHARED_BYTES or registers > 1000:
            return KernelEstimate(math.inf, math.inf, math.inf, instances)
        resident = self._resident(registers, staged)
        waves = instances / (machine.processors * resident)
        self.at_once = max(1.0, min(resident, instances / machine.processors))
        busy = min(1.0, instances / machine.processors)
        memory = self._memory(moved, waves, busy)
        arithmetic = self._arithmetic() / busy * (1 + max(0.0, registers - 200) / 40)
        iterations = max(1.0, waves) if work.limit else math.ceil(waves)
        latency = work.steps() * iterations * machine.latency / work.stages()
        parts = memory, arithmetic, latency, self._start()
        longest = max(parts)
        seconds = longest * self._tail(waves, resident) + 0.15 * (sum(parts) - longest)
        seconds *= self._unevenness(registers * threads)
        if work.matmuls:
            seconds *= 1.25 if moved.kept > 0.75 * SHARED_BYTES else 1.0
        else:  # nothing overlaps with the first loads, nor with the last stores
            seconds += 0.1 * sum(moved.requested.values()) * min(1.0, 1 / waves) / machine.memory
        return KernelEstimate(machine.launch + seconds, memory, arithmetic, instances)

    def _tail(self, waves: float, resident: int) -> float:
        """The additional time of the last blocks.

        If instances have unequal work, their load is counted. Otherwise the blocks of the last wave
        have the more memory bandwidth and power each, the fewer they are.
        """
        if self.work.limit:
            return self.work.unevenness(self.machine.processors * resident)
        return 1 + (math.ceil(waves) / waves - 1) * 0.5 if waves > 1 else 1.0

    def _resident(self, registers: float, staged: float) -> int:
        """Blocks of a processor. Those with roles have as many warps that load as a warpgroup has,
        and where there are two of these, registers that they take from each other."""
        work, machine, threads = self.work, self.machine, self.work.warps * 32
        if work.alone:
            return 1
        if work.roles:
            threads, registers = threads + 128, 168 if work.warps > 4 else registers
        by_registers = machine.registers / (min(registers, 255) * threads)
        by_shared = SHARED_BYTES / staged if staged else 32
        return max(1, int(min(by_registers, by_shared, machine.threads / threads, 32)))

    def _start(self) -> float:
        """Seconds in which blocks start."""
        work, machine = self.work, self.machine
        if work.matmuls and (work.alone or work.instances <= machine.processors):
            return machine.warp * (work.schedule.num_warps or 4)
        return work.instances * machine.start * (1 + work.warps / 12)

    # Memory ---------------------------------------------------------------------------------------

    def _memory(self, moved: Traffic, waves: float, busy: float) -> float:
        """Seconds of the memory, or of the cache where that takes longer."""
        machine = self.machine
        missed = self._missed_bytes(moved, min(1.0, 1 / waves))
        cached = 0.0
        for name, required in moved.requested.items():
            footprint = moved.footprint[name]
            cached += (
                required
                if footprint > machine.own_cache
                else min(required, footprint * machine.processors)
            )
        short = max(0.0, 1 - self.work.contiguous_bytes() / machine.page)
        reach = self._reach(moved.step + moved.kept) * busy
        near = machine.mapped if self.work.matmuls else machine.cache
        far = missed * (1 + machine.scattered * short) / machine.memory / reach
        return max(far * self._mixing(), cached / near / busy) + self._write_back(moved)

    def _write_back(self, moved: Traffic) -> float:
        """Seconds in which lines of the cache are written back for others that take their place,
        which those that go first do not."""
        staying = sum(moved.footprint.values())
        staying -= sum(moved.footprint.get(name, 0.0) for name in self.work.schedule.evict_first)
        return 0.45 * min(staying, self.machine.cache_bytes) / self.machine.memory

    def _mixing(self) -> float:
        """The slowdown of memory for long rows that are read and written wave by wave, if neither
        the lines that are read stay longer nor all leave at once: lines that were written then
        leave late, between reads."""
        work, schedule = self.work, self.work.schedule
        row = math.prod(work.sizes[n] for n in work.group.root.labels[1:])
        rows = work.group.reductions and not work.matmuls and row * 4 >= self.machine.page
        return 1.03 if rows and not schedule.evict_first | schedule.evict_last else 1.0

    def _missed_bytes(self, moved: Traffic, wave: float) -> float:
        """Bytes from memory: every tensor once, and what is read again that the cache no longer
        holds. It keeps small tensors; program instances of matmuls share what they read with
        their neighbours, others read their own again: of a tensor `wave`, a part of one,
        alternating with the result."""
        total, cache = sum(moved.footprint.values()), self.machine.cache_bytes
        if total < cache:
            return total
        if self.work.limit and self.work.instances <= MANY:
            at_once = max(1, round(self.machine.processors * self.at_once))
            touched = tuple(moved.touched.values())
            return total + reread_bytes(self.work.order, touched, at_once, cache)
        grouped = any(level.inner for level in self.work.schedule.order)
        for name, footprint in moved.footprint.items():
            reloaded = max(0.0, moved.requested[name] - footprint)
            if reloaded and footprint >= cache / 4:
                lost = max(0.0, 1 - cache / (footprint * wave))
                total += reloaded * ((0.08 if grouped else 0.2) if self.work.matmuls else lost)
        return total

    def _reach(self, footprint: float) -> float:
        """The part of memory's bandwidth that the bytes under way suffice for. A block that is
        alone has none under way while it reduces and writes."""
        if self.work.matmuls:
            return 1.0
        machine, threads = self.machine, self.work.warps * 32
        under_way = min(footprint, threads * 64.0) * self.at_once**2 / (self.at_once + 0.4)
        return min(1.0, max(under_way, 256.0) / machine.in_flight)

    def _unevenness(self, registers: float) -> float:
        """The slowdown of threads with few elements, whose loads are narrow, or with many, which
        wait for them without other work; and of rows that are needed again after a reduction and
        exceed the registers of a multiprocessor."""
        work = self.work
        if work.matmuls:
            return 1.0
        each, most = work.live() / (work.warps * 32), 40 if work.group.reductions else 12
        far = max(0.0, math.log2(max(each, 0.1) / most), math.log2(4 / max(each, 0.1)))
        written = math.prod(work.block(n) for n in work.group.root.labels)
        reductions = work.group.reductions and written * 3 >= work.live()
        beyond = max(0.0, registers / self.machine.registers - 1) if reductions else 0.0
        return (1 + 0.01 * far) * (1 + 0.3 * min(1.0, beyond))

    # Arithmetic -----------------------------------------------------------------------------------

    def _arithmetic(self) -> float:
        """Seconds that all processors need to compute."""
        work, matmuls, elements = self.work, 0.0, 0.0
        rate = self.machine.elements * self._filled_share()
        for use, count in work.amounts():
            if is_dot(use.node):
                matmuls += 2 * count * work.depth(use)[0] / self._matmul_rate(use)
            else:
                elements += count * _weight(use.node) / rate
        return matmuls + elements - 0.4 * self._drift() * min(matmuls, elements)

    def _filled_share(self) -> float:
        """The part of the rate of elementwise work that the warps of a kernel with matmuls reach:
        each hides the latencies of others."""
        groups = 2 if self.work.schedule.persistent == "pingpong" else self.at_once
        warps = min(16.0, self.work.warps * groups)
        return warps / (warps + 5.3) / 0.6 if self.work.matmuls else 1.0

    def _drift(self) -> float:
        """The drift of warpgroups, by which one multiplies while another one writes.

        Warpgroups of a block drift apart as far as operands of later instances are loaded: from 0,
        for those of one instance, to 1. Alternating warpgroups delay each other if they alternate
        at every step.
        """
        depths = [self.work.depth(u) for u in self.work.once() if is_dot(u.node)]
        if self.work.schedule.persistent == "pingpong":
            stall = len(depths) == 1 and depths[0][0] <= depths[0][1]
            return _STALL if stall else 1.0
        if self.at_once >= 2:
            return 1.0
        if len(depths) != 1 or self.work.warps < 8:
            return 0.0
        ((span, step),) = depths
        ahead = (self.work.stages() - 1) * step / span
        return min(1.0, max(0.0, ahead - 1) / 1.5)

    def _matmul_rate(self, use: Use) -> float:
        """Operations a second of a matmul."""
        work, node = self.work, use.node
        assert isinstance(node, Reduction)
        m, n = (work.tensor(x, use) for x in use.dims[-2:])
        span, k = work.depth(use)
        left, right = (work.kind(v) for v in node.values)
        are_scalars = isinstance(left, Scalar) and isinstance(right, Scalar)
        kind = dot_operand_type(left, right) if are_scalars else None  # type: ignore[arg-type]
        if kind is None or min(m, n, k) < 8:
            return self.machine.elements / 4
        name = str(kind)
        if name == "f32" and work.schedule.precision == "tf32":
            name = "tf32"
        depth = min(1.0, k * kind.bits / 8 / 128) ** 0.5
        feed = min(1.0, m * n / (m + n) / 64)
        per_warp = min(1.0, 1.5 * m * n / (work.warps * 2048))
        ahead = _AHEAD.get(work.stages(), 1.0)
        if use.inside and k < span:
            ahead *= 0.6  # a loop in a loop: only one of them runs ahead
        feed *= 1.0 if work.roles else _BY_WARP
        return self.machine.matmuls[name] * feed * depth * per_warp * ahead


def _weight(node: Node) -> float:
    """Instructions for an element."""
    if isinstance(node, Call) and node.name == "pow" and isinstance(node.arguments[1], Number):
        return 2.0  # multiplications, of small whole powers
    if isinstance(node, Call):
        return _HEAVY.get(node.name, 1)
    if isinstance(node, Binary):
        return 8 if node.op in "/%" else 1
    return 1 if isinstance(node, (Unary, Reduction)) else 0.5
