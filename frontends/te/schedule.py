"""Schedules: tile sizes, and the place where each stage is computed. The compiler chooses
threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tileir.builder.contraction import Index, TiledAxis
from tileir.frontends.te.errors import error
from tileir.frontends.te.expr import IterVar
from tileir.frontends.te.tensor import Operation, Tensor

_MOST = {"num_warps": 32, "stages": 32}
"""Pragmas and their largest values."""


@attrs.frozen(eq=False)
class ThreadAxis:
    """The target of `bind`."""

    tag: str


def thread_axis(tag: str = "", *, name: str = "") -> ThreadAxis:
    """Return a block axis: `te.thread_axis("blockIdx.x")`. Raises TensorExpressionError for thread
    axes."""
    result = tag if isinstance(tag, str) and tag else name
    if not str(result).startswith("blockIdx."):
        message = f"{result} is not an axis of blocks: threads in a block are the compiler's"
        raise error("TIR1504", message)
    return ThreadAxis(result)


@attrs.define(eq=False)
class TensorSchedule:
    """The schedule of one tensor. `leaves` are its axes, from the outermost loop to the
    innermost."""

    tensor: Tensor
    leaves: list[IterVar]
    parents: dict[IterVar, tuple[IterVar, ...]] = attrs.field(factory=dict[Any, Any])
    """The axes from which a part was split or fused."""
    inner: set[IterVar] = attrs.field(factory=set[Any])
    """Inner parts of splits."""
    blocks: set[IterVar] = attrs.field(factory=set[Any])
    attach: str = "auto"
    reader: Tensor | None = None
    settings: dict[str, int] = attrs.field(factory=dict[str, int])
    touched: bool = False

    @property
    def op(self) -> Operation:
        """The operation that the schedule belongs to."""
        return self.tensor.op

    # Axes -------------------------------------------------------------------------------------

    def split(
        self, parent: IterVar, factor: int | None = None, nparts: int | None = None
    ) -> tuple[IterVar, IterVar]:
        """Split an axis into an outer and an inner axis, and return both.

        The inner axis has `factor` steps, or the outer axis has `nparts` steps. Raises
        TensorExpressionError.
        """
        place = self._place(parent)
        parent = self.leaves[place]
        extent = len(parent.dom)
        count = factor if factor is not None else nparts
        if (factor is None) == (nparts is None) or not isinstance(count, int) or count < 1:
            raise error("TIR1504", "a split takes factor= or nparts=, 1 or more")
        size = factor if factor is not None else -(-extent // count)
        size = max(1, min(size or 1, max(1, extent)))
        outer = self._part(f"{parent.name}.outer", -(-extent // size), parent)
        inside = self._part(f"{parent.name}.inner", size, parent)
        self.inner.add(inside)
        self.leaves[place : place + 1] = [outer, inside]
        return outer, inside

    def tile(
        self, x: IterVar, y: IterVar, x_factor: int, y_factor: int
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two axes, and move the inner axes inside. Returns the four axes. Raises
        TensorExpressionError."""
        x_outer, x_inner = self.split(x, x_factor)
        y_outer, y_inner = self.split(y, y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    def fuse(self, *axes: IterVar) -> IterVar:
        """Fuse adjacent outer axes into one, and return it. Raises TensorExpressionError."""
        places = [self._place(axis) for axis in axes]
        axes = tuple(self.leaves[place] for place in places)
        if not places or places != list(range(places[0], places[0] + len(places))):
            raise error("TIR1504", "fused axes must be adjacent, outermost first")
        if any(axis in self.inner or axis.reduces for axis in axes):
            raise error("TIR1504", "inside of a tile nothing is fused, and no reductions are")
        extent = 1
        for axis in axes:
            extent *= len(axis.dom)
        iter_var = self._part(".".join(a.name for a in axes), extent, *axes)
        self.leaves[places[0] : places[0] + len(places)] = [iter_var]
        return iter_var

    def reorder(self, *axes: IterVar) -> None:
        """Reorder axes among the positions that they have. Raises TensorExpressionError."""
        places = [self._place(axis) for axis in axes]
        if len(set(places)) != len(axes):
            raise error("TIR1504", "an axis is reordered twice")
        moved = [self.leaves[place] for place in places]
        for place, leaf in zip(sorted(places), moved, strict=True):
            self.leaves[place] = leaf

    def bind(self, axis: IterVar, to: ThreadAxis) -> None:
        """Distribute an outer axis over blocks. Raises TensorExpressionError."""
        self._place(axis)
        if not isinstance(to, ThreadAxis):
            raise error("TIR1504", "an axis is bound to te.thread_axis(...)")
        self.parallel(axis)

    def parallel(self, axis: IterVar) -> None:
        """Distribute an outer axis over blocks. Raises TensorExpressionError."""
        axis = self.leaves[self._place(axis)]
        if axis.reduces or axis in self.inner:
            raise error("TIR1504", f"{axis.name} is in a tile, and no axis of blocks")
        self.blocks.add(axis)

    def unroll(self, axis: IterVar) -> None:
        """Unroll the loop of a reduction by 4. Raises TensorExpressionError."""
        self._place(axis)
        if axis.reduces:
            self.settings["unroll"] = 4

    def vectorize(self, axis: IterVar) -> None:
        """Do nothing, since the compiler chooses vector widths. Raises TensorExpressionError for an
        unknown axis."""
        self._place(axis)

    def pragma(self, axis: IterVar, name: str, value: int) -> None:
        """Set `num_warps` of a block, or `stages` of a pipelined loop. Raises
        TensorExpressionError."""
        self._place(axis)
        if name not in _MOST or not isinstance(value, int) or not 1 <= value <= _MOST[name]:
            pragmas = " and ".join(f"{word} of 1 to {most}" for word, most in _MOST.items())
            raise error("TIR1504", f"there is no pragma {name} = {value}: {pragmas}")
        self.settings[name] = value

    # Attachment -------------------------------------------------------------------------------

    def compute_inline(self) -> None:
        """Inline the tensor: compute its elements where they are read."""
        self.attach = "inline"

    def compute_at(self, reader: TensorSchedule, axis: IterVar) -> None:
        """Compute the elements that a tile of another stage reads in that tile. Raises
        TensorExpressionError."""
        if not isinstance(reader, TensorSchedule) or reader is self:
            raise error("TIR1504", "a stage is computed at another one: s[C].compute_at(s[D], i)")
        reader._place(axis)
        self.attach, self.reader = "at", reader.tensor

    def compute_root(self) -> None:
        """Compute the tensor in a kernel of its own, and store it in memory."""
        self.attach = "root"

    # ------------------------------------------------------------------------------------------

    def _place(self, axis: IterVar) -> int:
        """The position of an axis; the schedule states tiles from now on. Raises
        TensorExpressionError."""
        result = [n for n, leaf in enumerate(self.leaves) if leaf is axis or _same(leaf, axis)]
        if not result:
            name = axis.name if isinstance(axis, IterVar) else repr(axis)
            raise error("TIR1504", f"{name} is not an axis of {self.tensor.name} now")
        self.touched = True
        return result[0]

    def _part(self, name: str, extent: int, *parents: IterVar) -> IterVar:
        iter_var = IterVar(name, range(extent), Index(name), parents[0].reduces)
        self.parents[iter_var] = parents
        return iter_var

    # Tiles ------------------------------------------------------------------------------------

    def roots(self, axis: IterVar) -> list[IterVar]:
        """Return the axes of the operation that `axis` was made from."""
        if axis not in self.parents:
            return [axis]
        return [root for parent in self.parents[axis] for root in self.roots(parent)]

    def tile_of(self, axis: IterVar) -> int:
        """Return the number of steps of an axis of the operation in a tile: the steps inside of its
        outermost split, or 1 if it is not split."""
        parts = self._inner_parts(axis)
        return len(parts[0].dom) if parts else 1

    def _inner_parts(self, axis: IterVar) -> list[IterVar]:
        """The inner part of an axis of the operation, where it is split."""
        return [p for p, of in self.parents.items() if of[0] is axis and p in self.inner]

    def is_split(self, axis: IterVar) -> bool:
        """Return whether the schedule splits an axis of the operation."""
        return bool(self._inner_parts(axis))

    @property
    def says_tiles(self) -> bool:
        """Whether the schedule states tiles of elements."""
        return bool(self.blocks) or any(not part.reduces for part in self.inner)

    def axes(self) -> list[TiledAxis]:
        """Return the tiles of elements, in the order of their outer axes.

        Axes that were fused and then split have one tile along all of them. Raises
        TensorExpressionError.
        """
        axes: list[TiledAxis] = []
        seen: set[Index] = set()
        for leaf in self.leaves:
            if leaf in self.inner or leaf.reduces:
                continue
            base = self._base(leaf)
            axes += [x for x in self._axes_of(base) if not seen & set(x.indices)]
            seen |= {index for axis in axes for index in axis.indices}
        return axes

    def _axes_of(self, base: IterVar) -> list[TiledAxis]:
        roots, parts = self.roots(base), self._inner_parts(base)
        if len(roots) == 1 or not parts:
            return [TiledAxis(((r.index, r.dom),), self.tile_of(r)) for r in roots]
        if any(self.is_split(root) for root in roots):
            raise error("TIR1504", f"{base.name} is fused of tiles, and not split again")
        spans = tuple((root.index, root.dom) for root in roots)
        return [TiledAxis(spans, len(parts[0].dom), flat=True)]

    def _base(self, leaf: IterVar) -> IterVar:
        """The axis that a part was first split off: one of the operation, or a fused one."""
        while leaf in self.parents and len(self.parents[leaf]) == 1:
            (leaf,) = self.parents[leaf]
        return leaf

    def walk(self, over: Sequence[tuple[Index, range]]) -> TiledAxis | None:
        """Return the tiles of a reduction, or None if the schedule does not state them."""
        result = [a for a in self.op.reduce_axis if self.is_split(a)]
        if not result:
            return None
        last = result[-1].index
        spans = sorted(over, key=lambda x: x[0] is last)
        return TiledAxis(tuple(spans), self.tile_of(result[-1]))


def _same(leaf: IterVar, axis: Any) -> bool:
    """Whether two axes are of one index: that of a reduction is in its operation again."""
    return isinstance(axis, IterVar) and leaf.index is axis.index


@attrs.frozen(eq=False)
class Schedule:
    """A schedule: `s[C]` is the schedule of the tensor C. `outputs` are the results of the
    program."""

    outputs: tuple[Tensor, ...]
    stages: dict[Tensor, TensorSchedule]

    def __getitem__(self, key: Any) -> TensorSchedule:
        """The stage of a tensor, or of its operation. Raises TensorExpressionError."""
        for tensor, stage in self.stages.items():
            if key is tensor or key == tensor.op:
                return stage
        raise error("TIR1504", f"{getattr(key, 'name', key)} is not a stage of this schedule")


def create_schedule(ops: Any) -> Schedule:
    """Return a schedule for operations or tensors, and for all tensors that they depend on.

    Raises TensorExpressionError.
    """
    listed = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    stages: dict[Tensor, TensorSchedule] = {}
    outputs = tuple(_tensor(item) for item in listed)
    for tensor in outputs:
        _visit(tensor, stages)
    return Schedule(outputs, stages)


def _tensor(item: Any) -> Tensor:
    tensor = item if isinstance(item, Tensor) else getattr(item, "output", None)
    if not isinstance(tensor, Tensor) or tensor.term is None:
        raise error("TIR1504", f"{getattr(item, 'name', item)} is not computed: te.compute(...)")
    return tensor


def _visit(tensor: Tensor, stages: dict[Tensor, TensorSchedule]) -> None:
    """Visit the tensors that a tensor is computed from, then the tensor."""
    waiting: list[tuple[Tensor, bool]] = [(tensor, False)]
    while waiting:
        one, done = waiting.pop()
        if one in stages or one.term is None:
            continue
        if done:
            stages[one] = TensorSchedule(one, [*one.axis, *one.reduce_axis])
        else:
            waiting.append((one, True))
            waiting += [(before, False) for before in one.inputs]
