"""How long a kernel takes, estimated from its algorithm, schedule and sizes alone.

    time = launch + max(memory, arithmetic) * waves rounded up / waves + latency of its steps

Memory is what the tensors hold, and what program instances read again beyond the L2; arithmetic is
that of matrix products, at a part of the peak that the tiles decide, and of elements. Too few bytes
in flight, short rows and registers beyond the limit make both slower. The numbers rank schedules;
as times they are rough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tileir import records
from tileir.frontends.decoupled.elements import RELATIONS, Kind, factors, kind_of
from tileir.frontends.decoupled.fusion import Group
from tileir.frontends.decoupled.nodes import Access, Binary, Call, Node, Reduction, Shape, Unary
from tileir.frontends.decoupled.shapes import shape_of
from tileir.frontends.decoupled.tensors import Tensor
from tileir.types import Scalar


@records.frozen
class Machine:
    """A GPU: bytes and operations per second, by type of a matrix product's factors; `in_flight`
    are the bytes a processor has to have under way to reach the bandwidth of memory."""

    processors: int = 132
    memory: float = 4.2e12
    cache: float = 7e12
    cache_bytes: float = 30e6
    elements: float = 25e12
    products: Mapping[str, float] = records.field(
        factory=lambda: {"f16": 7e14, "bf16": 7e14, "f8e4m3": 1.3e15, "f8e5m2": 1.3e15,
                         "i8": 1.3e15, "f32": 5e13, "f64": 4e13, "tf32": 3.6e14}
    )  # fmt: skip
    shared: int = 227 << 10
    registers: int = 65536
    threads: int = 2048
    in_flight: float = 24e3
    launch: float = 3e-6
    latency: float = 0.8e-6


H200 = Machine()
"""The defaults: an NVIDIA H200."""
_HEAVY = {"exp": 8, "exp2": 4, "log": 8, "tanh": 16, "erf": 24, "sin": 20, "cos": 20, "pow": 40,
          "sigmoid": 16, "rsqrt": 4, "sqrt": 8}  # fmt: skip


@records.frozen
class Use:
    """An expression that a kernel evaluates: its dimensions as the kernel calls them, the
    reductions it stands in, and for a reduction its own label."""

    node: Node
    dims: tuple[str, ...]
    inside: tuple[tuple[str, Reduction], ...]
    label: str = ""


Uses: TypeAlias = tuple[Use, ...]


def uses_of(group: Group, shapes: dict[Node, Shape]) -> Uses:
    """Everything that a kernel evaluates, with the ways in which it is reached."""
    members = {f.name: f for f in group.members}

    def visit(
        node: Node, names: Mapping[str, str], inside: tuple[tuple[str, Reduction], ...]
    ) -> Iterator[Use]:
        own = node.labels if isinstance(node, Access) else shape_of(node, shapes)
        dims = tuple(names.get(n, n) for n in own if n)
        deeper, label = inside, ""
        if isinstance(node, Reduction):
            label = names.get(node.label, node.label)
            deeper = (*inside, (label, node))
        yield Use(node, dims, inside, label)
        if isinstance(node, Access) and node.name in members:
            func = members[node.name]
            pairs = zip(func.labels, dims, strict=True)
            yield from visit(func.value, dict(pairs), inside)
        for operand in node.operands:
            yield from visit(operand, names, deeper)

    return tuple(dict.fromkeys(visit(group.root.value, {}, ())))


@records.frozen
class Estimate:
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
    machine: Machine = H200,
    uses: Uses | None = None,
) -> Estimate:
    """The time of a group's kernel; `uses` are those of `uses_of`, if they are known."""
    found = uses_of(group, {}) if uses is None else uses
    return _Model(group, sizes, tensors, scalars, machine, found).estimate()


@records.define
class _Model:
    group: Group
    sizes: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    scalars: Mapping[str, Scalar]
    machine: Machine
    uses: Uses
    _blocks: dict[str, int] = records.field(init=False)
    _stated: dict[str, int] = records.field(init=False)
    _distinct: tuple[Use, ...] = records.field(init=False)

    def __post_init__(self) -> None:
        blocks = self.group.root.schedule.blocks
        self._blocks = {n: min(blocks.get(n, size), size) for n, size in self.sizes.items()}
        self._stated = {}
        for func in self.group.funcs:
            self._stated.update(func.schedule.tensors)
        self._distinct = tuple(self._found_once())

    # What the schedule makes of a label -------------------------------------------------------

    def block(self, label: str) -> int:
        """Positions of a label in a program instance."""
        return self._blocks[label]

    def span(self, label: str, use: Use) -> int:
        """Positions that a program instance goes through: a reduction all of them."""
        for inner, reduction in use.inside:
            if inner == label:
                return reduction.part.size if reduction.part else self.sizes[label]
        return self.block(label)

    def tensor(self, label: str, use: Use) -> int:
        """Positions at a time."""
        size = self.stated(label)
        span = self.span(label, use)
        return min(size or span, span)

    def stated(self, label: str) -> int:
        """The tensor size that is said of a label, 0 for all of it."""
        size = self._stated.get(label, 1)
        return 0 if 1 < self.sizes[label] <= size else size

    def once(self) -> tuple[Use, ...]:
        """Uses, without those that share their values with others: expressions under loops over
        one label that are not one loop are evaluated in each."""
        return self._distinct

    def _found_once(self) -> Iterator[Use]:
        seen: set[object] = set()
        for use in self.uses:
            loops = tuple(dict.fromkeys(filter(None, (self._loop(*r) for r in use.inside))))
            tiles: tuple[object, ...] = tuple((n, self.tensor(n, use)) for n in use.dims)
            if isinstance(use.node, Access):
                tiles = tuple((self.span(n, use), self.tensor(n, use)) for n in use.dims)
            name = use.node.name if isinstance(use.node, Access) else use.node
            key = name, tiles, loops
            if key not in seen:
                seen.add(key)
                yield use

    def _loop(self, label: str, reduction: Reduction) -> object:
        """What tells a loop apart from others; None where there is none."""
        if self.stated(label) in (0, self.sizes[label]):
            return None
        return label if label in self.group.root.schedule.online else reduction

    @property
    def instances(self) -> int:
        """Program instances."""
        blocks = self.group.root.schedule.blocks
        return math.prod(-(-self.sizes[n] // self.block(n)) for n in blocks)

    @property
    def warps(self) -> int:
        """Warps of an instance."""
        return self.group.root.schedule.num_warps or 4

    def repeats(self, use: Use) -> int:
        """How often a program instance evaluates a use: once more for every step of a loop
        around it that its outermost reduction depends on, and it does not."""
        if not use.inside:
            return 1
        outer = next(u for u in self.uses if u.node == use.inside[0][1])
        mine = {*use.dims, *(n for n, _ in use.inside)}
        around = (n for n in self.group.root.labels if n in outer.dims and n not in mine)
        return math.prod(-(-self.block(n) // self.tensor(n, outer)) for n in around)

    # Costs ----------------------------------------------------------------------------------------

    def traffic(self) -> tuple[float, float, float, float]:
        """Bytes that have to come from memory, bytes that program instances ask the cache for,
        the bytes of one step of an instance, and those that stay for all of its steps."""
        compulsory, asked, step, kept = float(self._written()), float(self._written()), 0.0, 0.0
        seen: set[str] = set()
        fused = {f.name for f in self.group.members}
        for use in self.once():
            if not isinstance(use.node, Access) or use.node.name in fused:
                continue
            tensor = self.tensors[use.node.name]
            tiles = tuple(self.tensor(n, use) for n in use.dims)
            size, waste = tensor.element.bits / 8, self._waste(tensor, tiles)
            span = math.prod(self.span(n, use) for n in use.dims)
            asked += span * self.repeats(use) * size * waste * self.instances
            moving = any(n < self.span(d, use) for n, d in zip(tiles, use.dims, strict=True))
            step += math.prod(tiles) * size if moving or not use.inside else 0
            kept += 0 if moving or not use.inside else math.prod(tiles) * size
            if use.node.name not in seen:
                compulsory += tensor.bytes * waste
                seen.add(use.node.name)
        return compulsory, asked, step, kept

    def _written(self) -> int:
        return self.tensors[self.group.root.name].bytes

    def _waste(self, tensor: Tensor, tiles: tuple[int, ...]) -> float:
        """Bytes moved for a byte that is needed: rows are read in pieces of 32 bytes at least."""
        rows = [n for n, s in zip(tiles, tensor.strides, strict=True) if s == 1]
        run = max(rows, default=1) * max(1, tensor.element.bits // 8)
        return max(1.0, 32 / run)

    def arithmetic(self) -> float:
        """Seconds that all processors need to compute."""
        seconds = 0.0
        for use in self.once():
            count = math.prod(self.span(n, use) for n in use.dims)
            count *= self.repeats(use) * self.instances
            if isinstance(use.node, Reduction) and use.node.op == "rdot":
                part = use.node.part
                inner = part.size if part else self.sizes[use.label]
                seconds += 2 * count * inner / self._product_rate(use.node, use)
            else:
                seconds += count * _weight(use.node) / self.machine.elements
        return seconds

    def _product_rate(self, node: Reduction, use: Use) -> float:
        m, n = (self.tensor(x, use) for x in use.dims[-2:])
        span = node.part.size if node.part else self.sizes[use.label]
        k = min(self.stated(use.label) or span, span)
        left, right = (self._kind(v) for v in node.values)
        known = isinstance(left, Scalar) and isinstance(right, Scalar)
        kind = factors(left, right) if known else None  # type: ignore[arg-type]
        if kind is None or min(m, n, k) < 8:
            return self.machine.elements / 4
        name = str(kind)
        if name == "f32" and self.group.root.schedule.precision == "tf32":
            name = "tf32"
        depth = min(1.0, k * kind.bits / 8 / 128) ** 0.5
        feed = min(1.0, m * n / (m + n) / 64)
        grouped = 1.0 if m >= 64 and self.warps in (4, 8) else 0.6
        per_warp = min(1.0, 1.5 * m * n / (self.warps * 2048))
        stages = {1: 0.5, 2: 0.85, 3: 0.95}.get(self.group.root.schedule.num_stages or 3, 1.0)
        if use.inside and k < span:
            stages *= 0.6  # a loop in a loop: only one of them runs ahead
        return self.machine.products[name] * feed * depth * grouped * per_warp * stages

    def _kind(self, node: Node) -> Kind:
        known = {n: t.element for n, t in self.tensors.items()}
        fused = {f.name: f.value for f in self.group.members}
        return kind_of(node, {**known, **self.scalars}, fused)

    def live(self) -> float:
        """Words that an instance holds at a time: its largest tiles."""
        held: dict[tuple[str, ...], float] = {}
        staged = {v for u in self.uses if _is_dot(u.node) for v in u.node.operands}
        for use in self.uses:
            compared = isinstance(use.node, Binary) and use.node.op in RELATIONS
            if not compared and not (isinstance(use.node, Access) and use.node in staged):
                size = math.prod(self.tensor(n, use) for n in use.dims)
                held[use.dims] = max(held.get(use.dims, 0), size)
        largest = sorted(held.values(), reverse=True)
        others = sum(largest[1:3]) * (1.0 if self._has_products() else 0.5)
        return largest[0] * 1.1 + others if largest else 1

    def estimate(self) -> Estimate:
        """The time, put together."""
        machine = self.machine
        compulsory, asked, step, kept = self.traffic()
        threads = self.warps * 32
        registers = 24 + self.live() / threads
        staged = step * self._stages() + kept if self._has_products() else 0.0
        if staged > machine.shared or registers > 1000:
            return Estimate(math.inf, math.inf, math.inf, self.instances)
        resident = self._resident(registers, threads, staged)
        waves = self.instances / (machine.processors * resident)
        busy = min(1.0, self.instances / machine.processors)
        at_once = max(1.0, min(resident, self.instances / machine.processors))
        overlap = 1.0 if self._has_products() else at_once / (at_once + 0.4)
        in_flight = min((step + kept) * at_once * self._stages(), threads * at_once * 64.0)
        reach = min(1.0, max(in_flight, 256.0) / machine.in_flight) * busy * overlap
        beyond = self._missing(compulsory, asked * min(1.0, 1 / waves))
        missed = compulsory + max(0.0, asked - compulsory) * beyond
        memory = max(missed / machine.memory / reach, asked / machine.cache / max(busy, 0.05))
        arithmetic = self.arithmetic() / busy * (1 + max(0.0, registers - 200) / 40)
        latency = self._steps() * math.ceil(waves) * machine.latency / self._stages()
        tail = math.ceil(waves) / waves if waves > 1 else 1.0
        longest = max(memory, arithmetic, latency)
        seconds = longest * (1 + (tail - 1) * 0.5)
        seconds += 0.15 * (memory + arithmetic + latency - longest)
        seconds *= self._unevenness() * (1.25 if kept > 0.75 * machine.shared else 1.0)
        start = self.instances * 4e-10 * (1 + threads / 512)
        return Estimate(machine.launch + seconds + start, memory, arithmetic, self.instances)

    def _unevenness(self) -> float:
        """What it costs when a thread has few elements, so that loads are narrow, or many, so that
        it waits for them with nothing else to do."""
        if self._has_products():
            return 1.0
        each, most = self.live() / (self.warps * 32), 40 if self.group.reductions else 12
        return 1 + 0.1 * max(0.0, math.log2(max(each, 0.1) / most), math.log2(4 / max(each, 0.1)))

    def _missing(self, compulsory: float, at_once: float) -> float:
        """The part of what is read again that the cache no longer holds. Program instances of
        products share what they read with their neighbours, others read their own again."""
        if compulsory < self.machine.cache_bytes:
            return 0.0
        if self._has_products():
            return 0.08 if self._grouped() else 0.2
        return max(0.0, 1 - self.machine.cache_bytes / at_once)

    def _resident(self, registers: float, threads: int, staged: float) -> int:
        machine = self.machine
        by_registers = machine.registers / (min(registers, 255) * threads)
        by_shared = machine.shared / staged if staged else 32
        return max(1, int(min(by_registers, by_shared, machine.threads / threads, 32)))

    def _stages(self) -> int:
        return (self.group.root.schedule.num_stages or 3) if self._has_products() else 1

    def _has_products(self) -> bool:
        return any(_is_dot(u.node) for u in self.uses)

    def _grouped(self) -> bool:
        return any(level.inner for level in self.group.root.schedule.order)

    def _steps(self) -> int:
        """Steps of an instance that follow each other."""
        outer = 1
        for label in self.group.root.labels:
            block = self.block(label)
            outer *= -(-block // min(self.stated(label) or block, block))
        inner = 0
        for use in self.once():
            if isinstance(use.node, Reduction):
                span = use.node.part.size if use.node.part else self.sizes[use.label]
                steps = -(-span // min(self.stated(use.label) or span, span))
                inner += steps * (self.repeats(use) if use.inside else 1)
        return outer + inner * (outer if self._has_products() else 1)


def _is_dot(node: Node) -> bool:
    return isinstance(node, Reduction) and node.op == "rdot"


def _weight(node: Node) -> float:
    """Instructions for an element."""
    if isinstance(node, Call):
        return _HEAVY.get(node.name, 1)
    if isinstance(node, Binary):
        return 8 if node.op in "/%" else 1
    return 1 if isinstance(node, (Unary, Reduction)) else 0.5
