"""A kernel under construction: what its labels, tensors and values are."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs

from tileir.builder import I64, Builder, Expr
from tileir.frontends.decoupled.element_types import Kind, kind_of
from tileir.frontends.decoupled.fusion import Group
from tileir.frontends.decoupled.model import Func
from tileir.frontends.decoupled.nodes import Access, Node, Reduction, Shape
from tileir.frontends.decoupled.ranges import DimensionWalk, Range, at_once
from tileir.frontends.decoupled.shapes import free, shape_of
from tileir.frontends.decoupled.tensors import Tensor
from tileir.frontends.decoupled.values import TileValue
from tileir.types import Scalar

Env: TypeAlias = Mapping[str, Range]
"""The current position or positions along each label."""
_FAR = 1 << 31


@attrs.define(eq=False)
class KernelState:
    """The state of making one kernel. `stored` are fused Funcs that pass through memory."""

    b: Builder
    group: Group
    sizes: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    scalars: Mapping[str, Scalar]
    shapes: dict[Node, Shape]
    stored: frozenset[str] = frozenset()
    pointers: dict[str, Expr] = attrs.field(factory=dict[str, Expr])
    numbers: dict[str, Expr] = attrs.field(factory=dict[str, Expr])
    outer: dict[str, Range] = attrs.field(factory=dict[str, Range])
    """Positions of the blocks that are counted, whatever is fused."""
    chunk_labels: dict[str, tuple[str, ...]] = attrs.field(factory=dict[str, "tuple[str, ...]"])
    """Labels in front of those of a stored Func: which blocks its memory belongs to."""
    last: bool = False
    """Whether what is read now is read for the last time: for what is written."""
    _read: set[str] = attrs.field(factory=set[str])
    _tiles: list[dict[Any, TileValue]] = attrs.field(factory=lambda: [dict[Any, TileValue]()])
    _wholes: dict[int, Range] = attrs.field(factory=dict[int, Range])
    _free: dict[Node, tuple[str, ...]] = attrs.field(factory=dict[Node, "tuple[str, ...]"])

    # What the schedule says -------------------------------------------------------------------

    @property
    def stages(self) -> int | None:
        """Steps of a loop in flight."""
        return self.group.root.schedule.num_stages

    @property
    def fast(self) -> bool:
        """Whether functions are computed by approximate instructions."""
        return self.group.root.schedule.math == "approx"

    def tensor(self, label: str) -> int:
        """The tensor size of a label: the kernel's own, else that of a Func fused into it."""
        for func in (self.group.root, *self.group.members):
            if label in func.schedule.tensors:
                return func.schedule.tensors[label]
        return 1

    def block(self, label: str) -> int:
        """The block size of a label of the root."""
        size = self.sizes[label]
        return min(self.group.root.schedule.blocks.get(label, size), size)

    def online(self, label: str) -> bool:
        """Whether the reductions over a label are formed in one pass."""
        return label in self.group.root.schedule.online

    def eviction(self, name: str) -> str:
        """The eviction priority of a tensor for an access at this point. A tensor that stays in the
        cache is released by its last access."""
        schedule, is_reread = self.group.root.schedule, self.last and name in self._read
        self._read.add(name)
        if name in schedule.evict_first or (name in schedule.evict_last and is_reread):
            return "first"
        return "last" if name in schedule.evict_last else "normal"

    def inlined_func(self, name: str) -> Func | None:
        """The fused Func whose values are computed where they are needed."""
        if name in self.stored:
            return None
        return next((f for f in self.group.members if f.name == name), None)

    # Facts about expressions ------------------------------------------------------------------

    def free(self, node: Node) -> tuple[str, ...]:
        """Labels that the value of `node` depends on."""
        if node not in self._free:
            self._free[node] = free(node)
        return self._free[node]

    def shape(self, node: Node) -> Shape:
        """The shape of `node`."""
        return shape_of(node, self.shapes)

    def kind(self, node: Node) -> Kind:
        """The type of `node`."""
        element_of_tensor = {name: t.element for name, t in self.tensors.items()}
        fused = {f.name: f.value for f in self.group.members if f.name not in self.stored}
        return kind_of(node, {**element_of_tensor, **self.scalars}, fused)

    # Values at hand ---------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Generator[None]:
        """A scope: values computed inside are dropped at its end."""
        self._tiles.append({})
        try:
            yield
        finally:
            self._tiles.pop()

    def key(self, node: Node, env: Env) -> Any:
        """The key under which the value of `node` is cached."""
        return node, tuple(env[label] for label in self.free(node))

    def recall(self, key: Any) -> TileValue | None:
        """A value computed before."""
        return next((tiles[key] for tiles in reversed(self._tiles) if key in tiles), None)

    def remember(self, key: Any, value: TileValue) -> None:
        """Keep a value until the innermost scope ends."""
        self._tiles[-1][key] = value

    # Positions --------------------------------------------------------------------------------

    def walk(self, label: str, env: Env, node: Reduction | None = None) -> DimensionWalk:
        """The iteration over a label: all of it, or the part that a block reduces."""
        size, block, start = self.sizes[label], self.sizes[label], 0
        if node is not None and node.part:
            block, start = node.part.size, env[node.part.label].index * node.part.size
        return DimensionWalk(size, min(block, size), self.tensor(label), start)

    def full_range(self, label: str) -> Range:
        """All positions of a label at once; the same wherever it is asked for, and for labels of
        one size."""
        size = self.sizes[label]
        if size not in self._wholes:
            self._wholes[size] = at_once(self.b, DimensionWalk(size, size, 0))
        return self._wholes[size]

    def is_whole(self, label: str) -> bool:
        """Whether a label, not cut into blocks, is worked on at once."""
        return DimensionWalk(self.sizes[label], self.sizes[label], self.tensor(label)).whole

    def prepare(self) -> None:
        """Compute, where everything sees them, the positions of labels that are worked on whole."""
        for label in self.group.labels:
            if label in self.sizes and self.is_whole(label):
                self.full_range(label)

    # Memory -----------------------------------------------------------------------------------

    def offsets(self, name: str, ranges: list[Range], order: list[int]) -> Expr | int:
        """Elements from the start of a tensor to its places; axes in the order of the dimensions
        that `order` lists."""
        tensor = self.tensors[name]
        far = tensor.reach >= _FAR
        total: Expr | int = 0
        for i, (place, stride) in enumerate(zip(ranges, tensor.strides, strict=True)):
            index = place.index
            if far and isinstance(index, Expr):
                index = index.to(I64)
            term = index * stride if stride != 1 else index
            if isinstance(term, Expr) and place.extent:
                term = term.reshape(*_broadcast_dims(order.index(i), len(order), place.extent))
            total = term if isinstance(total, int) and total == 0 else total + term
        return total

    def mask(self, ranges: list[Range], order: list[int]) -> Expr | None:
        """The mask of the positions within bounds; None if all are."""
        expr: Expr | None = None
        for at, i in enumerate(order):
            mask = ranges[i].mask
            if mask is not None:
                mask = mask.reshape(*_broadcast_dims(at, len(order), ranges[i].extent))
                expr = mask if expr is None else expr & mask
        return expr

    def load(self, name: str, labels: tuple[str, ...], env: Env) -> TileValue:
        """A tensor at the positions of its labels. A tensor that is transposed in memory is loaded
        along its contiguous dimension, and then transposed."""
        ranges = [env[label] for label in labels]
        tiled = [i for i, r in enumerate(ranges) if r.extent]
        strides = self.tensors[name].strides
        order = sorted(tiled, key=lambda i: -abs(strides[i]) if strides[i] else 0)
        place, mask = self.pointers[name] + self.offsets(name, ranges, order), None
        mask = self.mask(ranges, order)
        expr = place.load(mask, None if mask is None else 0, eviction=self.eviction(name))
        if order != tiled:
            expr = expr.permute(*(order.index(i) for i in tiled))
        axes = tuple(labels[i] for i in tiled)
        return TileValue(expr, axes, frozenset(axes))


def _broadcast_dims(at: int, rank: int, extent: int) -> tuple[int, ...]:
    """A shape with `extent` at one place."""
    return tuple(extent if i == at else 1 for i in range(rank))


def reads_member(kernel: KernelState, node: Node) -> Func | None:
    """The inlined Func that `node` reads."""
    return kernel.inlined_func(node.name) if isinstance(node, Access) else None


def inner_env(node: Access, labels: tuple[str, ...], env: Env) -> dict[str, Range]:
    """Positions of the labels that a fused Func is defined with, as far as they are known."""
    pairs = zip(labels, node.labels, strict=True)
    return {inner: env[outer] for inner, outer in pairs if outer in env}
