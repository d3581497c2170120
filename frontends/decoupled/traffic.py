"""The work of a kernel under its schedule: tiles, repetitions, bytes, live values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import attrs

from tileir.frontends.decoupled import grid
from tileir.frontends.decoupled.cache_reuse import Order, Touched
from tileir.frontends.decoupled.element_types import RELATIONS, Kind, kind_of
from tileir.frontends.decoupled.fusion import Group
from tileir.frontends.decoupled.load_balance import Limit, limit_of, most, steps_per_instance
from tileir.frontends.decoupled.nodes import Access, Binary, Node, Reduction, Shape
from tileir.frontends.decoupled.schedule import Schedule
from tileir.frontends.decoupled.shapes import shape_of
from tileir.frontends.decoupled.tensors import Tensor
from tileir.types import Scalar

T = TypeVar("T")
SHARED_BYTES = 227 << 10
"""Bytes of shared memory of a block."""
_ACCUMULATOR_WORDS = 160
"""Words of accumulators that a thread of a matmul holds at most."""
_NOTHING = Touched((), 0.0)


@attrs.frozen
class Use:
    """An expression that a kernel evaluates: its dimensions as the kernel calls them, the
    reductions it stands in, and for a reduction its own label."""

    node: Node
    dims: tuple[str, ...]
    inside: tuple[tuple[str, Reduction], ...]
    label: str = ""


@attrs.define
class Uses:
    """All uses of a kernel, and the results computed for the tiles of a schedule. Schedules that
    differ only in warps or orders share these results."""

    all: tuple[Use, ...]
    cache: dict[Any, dict[str, Any]] = attrs.field(factory=dict)


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

    return Uses(tuple(dict.fromkeys(visit(group.root.value, {}, ()))))


@attrs.frozen
class Traffic:
    """Bytes that a kernel moves.

    `footprint` are the bytes of tensors by name, `requested` those that program instances load and
    store. `step` are the bytes of one step of an instance, `kept` those that stay for all of its
    steps. `touched` has the part of each tensor that an instance accesses.
    """

    footprint: Mapping[str, float]
    requested: Mapping[str, float]
    step: float
    kept: float
    touched: Mapping[str, Touched]


@attrs.define
class KernelWork:
    """A kernel with its sizes."""

    group: Group
    sizes: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    scalars: Mapping[str, Scalar]
    uses: Uses
    levels: tuple[grid.Level, ...] = attrs.field(init=False)
    """The levels of its launch grid."""
    instances: int = attrs.field(init=False)
    """Program instances."""
    matmuls: bool = attrs.field(init=False)
    """Whether it multiplies matrices."""
    warps: int = attrs.field(init=False)
    """Warps that compute an instance."""
    limit: Limit | None = attrs.field(init=False)
    """The limit of its passes, by which instances have unequal work."""
    share: float = attrs.field(init=False)
    """The part of the steps over the label of `limit` that instances take on average."""
    _steps: tuple[int, ...] = attrs.field(init=False)
    _blocks: dict[str, int] = attrs.field(init=False)
    _stated: dict[str, int] = attrs.field(init=False)
    _cache: dict[str, Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        blocks = self.group.root.schedule.blocks
        self._blocks = {n: min(blocks.get(n, size), size) for n, size in self.sizes.items()}
        self._stated = {}
        for func in self.group.funcs:
            self._stated.update(func.schedule.tensors)
        self.levels = grid.levels(self.schedule, self.sizes)
        self.instances = grid.instances(self.levels)
        self.matmuls = any(is_dot(u.node) for u in self.uses.all)
        self.warps = self._warps()
        self.limit, self.share = limit_of(self.group, self.sizes), 1.0
        if self.limit:
            tensors = {n: self.stated_size(n) for n in (self.limit.row, self.limit.label)}
            self._steps, full = steps_per_instance(self.limit, self._blocks, tensors, self.sizes)
            self.share = sum(self._steps) / (len(self._steps) * full)
        sizes, blocks, stated = (tuple(x.items()) for x in (self.sizes, self._blocks, self._stated))
        key = self.group.root.name, sizes, blocks, stated, self.schedule.online, self.limit
        self._cache = self.uses.cache.setdefault(key, {})

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """A cached value that depends on tiles only."""
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    # Sizes of labels under the schedule -------------------------------------------------------

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
        size = self.stated_size(label)
        span = self.span(label, use)
        return min(size or span, span)

    def stated_size(self, label: str) -> int:
        """The tensor size that the schedule states for a label, 0 for all of it."""
        size = self._stated.get(label, 1)
        return 0 if 1 < self.sizes[label] <= size else size

    def once(self) -> tuple[Use, ...]:
        """Uses, without those that share their values with others: expressions under loops over
        one label that are not one loop are evaluated in each."""
        return self._once("once", lambda: tuple(self._found_once()))

    def _found_once(self) -> Iterator[Use]:
        seen: set[object] = set()
        for use in self.uses.all:
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
        """A key that identifies a loop; None if there is none."""
        if self.stated_size(label) in (0, self.sizes[label]):
            return None
        return label if label in self.group.root.schedule.online else reduction

    def amounts(self) -> tuple[tuple[Use, float], ...]:
        """Uses with how many values all instances form of each."""
        return self._once("amounts", lambda: tuple((u, self._amount(u)) for u in self.once()))

    def _amount(self, use: Use) -> float:
        count = math.prod(self.span(n, use) for n in use.dims)
        count *= self.repeats(use) * self.instances
        return count * (self.share if self.is_limited(use) else 1.0)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the kernel."""
        return self.group.root.schedule

    @property
    def roles(self) -> bool:
        """Whether the kernel is warp-specialized: warpgroups multiply at least 64 rows each, and
        producer warps load."""
        labels = self.group.root.labels
        return (
            self.matmuls and self.schedule.roles == "on"
            and len(labels) > 1 and self.block(labels[-2]) >= 64
        )  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether the kernel is persistent: a block has all shared memory of a multiprocessor and
        loops over program instances."""
        return self.roles and self.schedule.persistent != "off"

    def _warps(self) -> int:
        """The number of warps: two warpgroups if the accumulators exceed the registers of one and
        there are enough rows."""
        num_warps = self.schedule.num_warps or 4
        if not self.roles:
            return num_warps
        rows, columns = (self.block(n) for n in self.group.root.labels[-2:])
        needed = min(8, 4 * -(-rows * columns // (128 * _ACCUMULATOR_WORDS)))
        return min(max(num_warps, needed), rows // 16)

    def repeats(self, use: Use) -> int:
        """The number of times that a program instance evaluates a use: once more for every step of
        a loop around it that its outermost reduction depends on, and it does not."""
        if not use.inside:
            return 1
        outer = next(u for u in self.uses.all if u.node == use.inside[0][1])
        mine = {*use.dims, *(n for n, _ in use.inside)}
        around = (n for n in self.group.root.labels if n in outer.dims and n not in mine)
        return math.prod(-(-self.block(n) // self.tensor(n, outer)) for n in around)

    # Instances with unequal work
    # -------------------------------------------------------------------

    def is_limited(self, use: Use) -> bool:
        """Whether an instance forms a part of a use, up to where its passes end."""
        return self.limit is not None and self.limit.label in (*use.dims, use.label)

    def unevenness(self, workers: int) -> float:
        """The most that any of `workers`, the processors or all resident blocks, has to do, in
        terms of the mean."""
        if self.limit is None:
            return 1.0
        return most(self.order, self.limit.row, self._steps, workers, self.alone)

    @property
    def order(self) -> Order:
        """The order of instances."""
        return self.levels, self.schedule.reverse

    # Bytes and values ---------------------------------------------------------------------------

    def traffic(self) -> Traffic:
        """The bytes that are moved between memory, caches and instances."""
        return self._once("traffic", self._compute_traffic)

    def _compute_traffic(self) -> Traffic:
        written = float(self.tensors[self.group.root.name].bytes)
        footprint, requested = ({self.group.root.name: written} for _ in range(2))
        step = resident = 0.0
        labels = self.group.root.labels
        touched = {self.group.root.name: Touched(labels, written / self.instances)}
        fused = {f.name for f in self.group.members}
        for use in self.once():
            if not isinstance(use.node, Access) or use.node.name in fused:
                continue
            name, tensor = use.node.name, self.tensors[use.node.name]
            tiles = tuple(self.tensor(n, use) for n in use.dims)
            size, waste = tensor.element.bits / 8, self._waste(tensor, tiles)
            span = math.prod(self.span(n, use) for n in use.dims)
            required = span * self.repeats(use) * size * waste
            required *= self.share if self.is_limited(use) else 1.0
            requested[name] = requested.get(name, 0.0) + required * self.instances
            own = tuple(n for n in use.dims if self.span(n, use) < self.sizes[n])
            touched[name] = Touched(own, max(required, touched.get(name, _NOTHING).bytes))
            footprint[name] = max(footprint.get(name, 0.0), tensor.bytes * waste)
            moving = any(n < self.span(d, use) for n, d in zip(tiles, use.dims, strict=True))
            if moving or not use.inside:
                step += math.prod(tiles) * size
            else:
                resident += math.prod(tiles) * size
        return Traffic(footprint, requested, step, resident, touched)

    def contiguous_bytes(self) -> float:
        """Bytes in a row of the largest tensor that neighbouring instances access."""
        accessed = [(self.tensors[self.group.root.name],
                     {n: self.block(n) for n in self.group.root.labels})]  # fmt: skip
        for use in self.once():
            if isinstance(use.node, Access) and use.node.name in self.tensors:
                spans = {n: self.span(n, use) for n in use.dims}
                accessed.append((self.tensors[use.node.name], spans))
        tensor, spans = max(accessed, key=lambda pair: pair[0].bytes)
        result, levels = tensor.element.bits / 8, list(self.levels)
        for label in sorted(spans, key=lambda n: tensor.strides[list(spans).index(n)]):
            covered = spans[label]
            while covered < self.sizes[label] and levels and levels[-1].of == label:
                covered *= levels.pop().count
            result *= min(covered, self.sizes[label])
            if covered < self.sizes[label]:
                break
        return result

    def _waste(self, tensor: Tensor, tiles: tuple[int, ...]) -> float:
        """Bytes moved for a byte that is needed: rows are read in segments of 32 bytes at least."""
        rows = [n for n, s in zip(tiles, tensor.strides, strict=True) if s == 1]
        run = max(rows, default=1) * max(1, tensor.element.bits // 8)
        return max(1.0, 32 / run)

    def kind(self, node: Node) -> Kind:
        """The type of an expression."""
        element_of_tensor = {n: t.element for n, t in self.tensors.items()}
        fused = {f.name: f.value for f in self.group.members}
        return kind_of(node, {**element_of_tensor, **self.scalars}, fused)

    def live(self) -> float:
        """The words of the largest tiles that are live at the same time in an instance."""
        return self._once("live", self._live_words)

    def _live_words(self) -> float:
        bytes_by_dims: dict[tuple[str, ...], float] = {}
        staged = {v for u in self.uses.all if is_dot(u.node) for v in u.node.operands}
        for use in self.uses.all:
            compared = isinstance(use.node, Binary) and use.node.op in RELATIONS
            if not compared and not (isinstance(use.node, Access) and use.node in staged):
                size = math.prod(self.tensor(n, use) for n in use.dims)
                bytes_by_dims[use.dims] = max(bytes_by_dims.get(use.dims, 0), size)
        largest = sorted(bytes_by_dims.values(), reverse=True)
        smaller = sum(largest[1:3]) * (1.0 if self.matmuls else 0.5)
        return largest[0] * 1.1 + smaller if largest else 1

    def depth(self, use: Use) -> tuple[int, int]:
        """Positions that a reduction goes through, and those at a time."""
        assert isinstance(use.node, Reduction)
        span = use.node.part.size if use.node.part else self.sizes[use.label]
        return span, min(self.stated_size(use.label) or span, span)

    def stages(self) -> int:
        """Steps of a matmul that are loaded ahead: with roles, as many as shared memory of
        `SHARED_BYTES` holds together with the result, or without it if only one fits."""
        num_stages = (self.schedule.num_stages or 3) if self.matmuls else 1
        if not self.roles or sum(is_dot(u.node) for u in self.once()) != 1:
            return num_stages
        moved, result = self.traffic(), self.tensors[self.group.root.name]
        written = math.prod(self.block(n) for n in self.group.root.labels)
        stages = int(
            (SHARED_BYTES - written * result.element.bits // 8) / (moved.step + moved.kept)
        )
        return min(8, stages if stages > 1 else int(SHARED_BYTES / (moved.step + moved.kept)))

    def steps(self) -> float:
        """The number of dependent steps of an instance."""
        outer = 1
        for label in self.group.root.labels:
            block = self.block(label)
            outer *= -(-block // min(self.stated_size(label) or block, block))
        inner = 0.0
        for use in self.once():
            if isinstance(use.node, Reduction):
                span, step = self.depth(use)
                share = self.share if self.is_limited(use) else 1.0
                inner += -(-span // step) * share * (self.repeats(use) if use.inside else 1)
        return outer + inner * (outer if self.matmuls else 1)


def is_dot(node: Node) -> bool:
    """Whether an expression is a matmul."""
    return isinstance(node, Reduction) and node.op == "rdot"
