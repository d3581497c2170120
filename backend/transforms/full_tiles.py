"""Versioning: full tiles are accessed without masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import attrs

from tileir.analysis.alignment import Alignment
from tileir.analysis.uses import definitions, uses
from tileir.backend.layouts.access_widths import AccessWidths, is_access
from tileir.backend.layouts.anchors import contiguous_dim
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import And
from tileir.ops.control import CondBranch
from tileir.passes.cfg_edit import copied_block, reserve_label
from tileir.passmanager.registry import PassResult, pass_, remark
from tileir.types import Tile, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.passes.scalarize import Scalarizer

_MAX_OPS = 64
"""The most ops that are duplicated into a version with and one without masks."""


@pass_("version-full-tiles")
def version_full_tiles(function: Function, *, threads: int = 0) -> PassResult:
    """Version loads and stores whose masks prevent vector accesses.

    A mask `offsets < n` with an unknown `n` may end between any two elements, which forbids vector
    accesses. All tiles but the last one are full, though: a mask that is true in the last lane is
    true in all lanes. The ops from the first such access to the last one are duplicated: one
    version without masks for full tiles, one with masks for the partial tile. Reductions and dots
    are not duplicated.

    No version is needed where the mask is uniform over a vector (for example if `n` is a multiple
    of four), or where each of `threads` threads has one element. `threads` 0 means that the number
    of threads is not yet known.

    Two conditions make the last lane decide for all lanes:

    - The mask of the last lane can be computed by scalar ops that dominate the access.
    - Along every dimension, one side of each comparison increases by one per element or is
      constant, and the other side is constant.

    before:
        define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n) {
        entry:
          %i = make_range i32<128>
          %ns = splat i32<128> %n
          %m, _ = icmp (i1<128>, i1<128>) %i, %ns {predicate = slt}
          %xs = splat f32*<128> %x
          %p = getelementptr f32*<128> %xs, %i
          %ys = splat f32*<128> %y
          %q = getelementptr f32*<128> %ys, %i
          %v = load f32<128> %p, %m
          store %q, %v, %m
          ret
        }
    after:
        define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n) {
        entry:
          %i = make_range i32<128>
          %ns = splat i32<128> %n
          %m, _ = icmp (i1<128>, i1<128>) %i, %ns {predicate = slt}
          %xs = splat f32*<128> %x
          %p = getelementptr f32*<128> %xs, %i
          %ys = splat f32*<128> %y
          %q = getelementptr f32*<128> %ys, %i
          %whole, _ = icmp (i1, i1) 127, %n {predicate = slt}
          cond_br %whole, entry.whole, entry.part
        entry.whole:
          %v = load f32<128> %p
          store %q, %v
          br entry.rest
        entry.part:
          %v.1 = load f32<128> %p, %m
          store %q, %v.1, %m
          br entry.rest
        entry.rest:
          ret
        }
    """
    rewriter = _FullTileVersioning(function, threads)
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks.update(rewriter.block(label, block))
    if not rewriter.count:
        return PassResult(function, tuple(rewriter.remarks))
    return PassResult(
        function.with_blocks(blocks), tuple(rewriter.remarks), {"regions": rewriter.count}
    )


class _Region(NamedTuple):
    """The ops of a block with indices `start` to `stop`; the ops that compute whether the tile is
    full; and the masks that are then true in all lanes."""

    start: int
    stop: int
    condition_ops: tuple[Op, ...]
    is_full: Operand
    masks: frozenset[Operand]


class _FullTileVersioning:
    """One run over a function."""

    def __init__(self, function: Function, threads: int) -> None:
        self.function, self.threads = function, threads
        self.count, self.remarks = 0, list[Diagnostic]()
        self.widths, self.op_of = AccessWidths(function), definitions(function)
        self.labels = set(function.blocks)
        reductions = (op for op in function.ops if op.mnemonic == "reduce")
        self.reduced_shapes = {shape_of(op.inputs[0].type) for op in reductions}
        """Shapes of reduced tiles, which may be distributed over fewer threads."""

    def block(self, label: str, block: Block) -> Iterator[tuple[str, Block]]:
        """`block`, or the blocks that replace it, in order."""
        positions = {v: i for i, op in enumerate(block.ops) for v in op.results}
        parameters, next_op = block.parameters, 0
        for group in _groups(block, self._is_wider_unmasked):
            region = self._region(block, group, positions)
            if region is not None:
                self.count += 1
                head = block.ops[next_op : region.start]
                *paths, (after_label, following) = self._version(label, block, region)
                branch = CondBranch(region.is_full, *(Successor(name) for name, _ in paths))
                yield label, Block(label, parameters, (*head, *region.condition_ops, branch))
                yield from paths
                label, parameters, next_op = after_label, following.parameters, region.stop
        yield (
            label,
            attrs.evolve(block, label=label, parameters=parameters, ops=block.ops[next_op:]),
        )

    def _is_wider_unmasked(self, op: Op) -> bool:
        """Whether an access would be wider without its mask."""
        if not is_access(op) or op.mnemonic not in ("load", "store") or op.predicate is not None:
            return False
        if cast(Any, op).mask is None or cast(Any, op).volatile:
            return False
        shape = shape_of(op.inputs[0].type)
        if prod(shape) < 2 * self.threads and shape not in self.reduced_shapes:
            return False
        dim = contiguous_dim(op, self.widths)
        unmasked = op.evolve(**_without_mask(op))
        return self.widths.width(unmasked, dim) > self.widths.width(op, dim)

    def _region(
        self, block: Block, group: Sequence[int], positions: Mapping[Value, int]
    ) -> _Region | None:
        """The ops to duplicate for the accesses of `group`; None where no scalar condition shows
        that the tile is full."""
        from tileir.passes.scalarize import Scalarizer

        scalarizers: dict[Operand, Scalarizer] = {}
        conditions: dict[Operand, Operand] = {}
        versioned: list[int] = []
        for index in group:
            mask = cast(Any, block.ops[index]).mask
            scalarizer = scalarizers.setdefault(mask, Scalarizer(self.op_of))
            condition = conditions.get(mask) or self._is_full_condition(scalarizer, mask)
            is_unavailable = any(positions.get(v, -1) >= group[0] for v in scalarizer.leaves)
            if condition is None or is_unavailable:
                self._add_remark(block.ops[index])
                continue
            conditions[mask] = condition
            versioned.append(index)
        if not versioned:
            return None
        ops = [op for mask in conditions for op in scalarizers[mask].ops]
        is_full = _conjunction(list(conditions.values()), ops)
        return _Region(versioned[0], versioned[-1] + 1, tuple(ops), is_full, frozenset(conditions))

    def _add_remark(self, op: Op) -> None:
        reason = (
            "its mask may end between any two elements, and no comparison before it tells where"
        )
        self.remarks.append(remark("TIR0753", f"{op.mnemonic}: {reason}", op.location))

    def _is_full_condition(self, scalarizer: Scalarizer, mask: Operand) -> Operand | None:
        """The scalar condition under which `mask` is true in all lanes; None if its last lane does
        not decide that."""
        if not self._is_full_if_last_lane_is(mask):
            return None
        return scalarizer.at(mask, tuple(n - 1 for n in shape_of(mask.type)))

    def _is_full_if_last_lane_is(self, mask: Operand) -> bool:
        """Whether a mask that is true in its last lane is true in all lanes."""
        op = self.op_of.get(mask) if isinstance(mask, Value) else None
        if op is None or op.predicate is not None:
            return not isinstance(mask, Value) or not isinstance(mask.type, Tile)
        if op.mnemonic in ("and", "broadcast", "expand_dims", "reshape", "splat"):
            return all(self._is_full_if_last_lane_is(v) for v in op.inputs)
        if op.mnemonic != "icmp" or op.results[0] is not mask:
            return False
        return self._is_monotonic(op)

    def _is_monotonic(self, op: Op) -> bool:
        """Whether a comparison tests a nondecreasing tile against a constant upper bound."""
        left, right = op.inputs
        relation: str = cast(Any, op).predicate_.value
        if relation in ("sgt", "sge", "ugt", "uge"):
            left, right = right, left
        elif relation not in ("slt", "sle", "ult", "ule"):
            return False
        if relation[0] == "u":
            from tileir.analysis.ranges import ranges  # most bounds are signed

            bounds = ranges(self.function)
            if min(bounds.of(v)[0] for v in (left, right)) < 0:
                return False
        facts = self.widths.facts
        return _is_nondecreasing(facts.of(left), shape_of(left.type)) and _is_constant(
            facts.of(right), shape_of(right.type)
        )

    def _version(self, label: str, block: Block, region: _Region) -> list[tuple[str, Block]]:
        """The version for full tiles, the one for partial tiles, and the empty join block, whose
        parameters are the values of the region that are used after it."""
        inner = block.ops[region.start : region.stop]
        prefix = label.split(".")[0]
        names = [reserve_label(f"{prefix}.{x}", self.labels) for x in ("whole", "part", "rest")]
        readers, own = uses(self.function), set(inner)
        live_out = tuple(v for op in inner for v in op.results if set(readers.get(v, ())) - own)
        unmasked = [_without_masks(op, region.masks) for op in inner]
        is_full = copied_block(names[0], unmasked, live_out, names[2])
        part = copied_block(names[1], inner, live_out, names[2])
        return list(zip(names, (is_full, part, Block(names[2], live_out, ())), strict=True))


def _without_masks(op: Op, masks: frozenset[Operand]) -> Op:
    """`op`, without its mask if it is an access under one of `masks`."""
    unmasked = is_access(op) and getattr(op, "mask", None) in masks and op.predicate is None
    return op.evolve(**_without_mask(op)) if unmasked else op


def _without_mask(op: Op) -> dict[str, None]:
    return {"mask": None, "other": None} if hasattr(op, "other") else {"mask": None}


def _groups(block: Block, is_wider_unmasked: Any) -> Iterator[list[int]]:
    """Groups of accesses that are wider unmasked, by regions of ops that are cheap to duplicate."""
    group: list[int] = []
    for index, op in enumerate(block.ops):
        if group and (not _may_be_duplicated(op) or index - group[0] >= _MAX_OPS):
            yield group
            group = []
        if is_wider_unmasked(op):
            group.append(index)
    if group:
        yield group


def _may_be_duplicated(op: Op) -> bool:
    """Whether an op between two duplicated accesses may be duplicated."""
    if op.is_terminator:
        return False
    if op.effects & (Effects.SYNC | Effects.TRAP):
        return bool(op.elementwise)
    computes_cheaply = op.effects is Effects.PURE and (op.moves_elements or not op.inputs)
    return op.elementwise or is_access(op) or computes_cheaply


def _is_nondecreasing(facts: Alignment, shape: tuple[int, ...]) -> bool:
    """Whether elements increase by one, or are constant, along every dimension."""
    pairs = zip(facts.contiguity, facts.constancy, shape or (1,), strict=True)
    return all(run % n == 0 or same % n == 0 for run, same, n in pairs)


def _is_constant(facts: Alignment, shape: tuple[int, ...]) -> bool:
    return all(same % n == 0 for same, n in zip(facts.constancy, shape or (1,), strict=True))


def _conjunction(conditions: list[Operand], ops: list[Op]) -> Operand:
    """The conjunction of scalar conditions; its ops are appended to `ops`."""
    conjunction = conditions[0]
    for condition in conditions[1:]:
        op = And(conjunction, condition)
        ops.append(op)
        conjunction = op.result
    return conjunction
