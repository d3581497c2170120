"""Operands that dots read from shared memory: descriptor loads, grouped into circular buffers
("rings") by the dots that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, prod
from typing import TypeGuard, cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.backend.layouts.wgmma import (
    HALVES,
    MOST_COLUMNS,
    swizzle_of,
    why_not_wgmma,
)
from tileir.backend.tma.register_operands import register_operand_inputs
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.descriptor import (
    DescriptorLoad,
    DescriptorReduce,
    DescriptorStore,
    MakeDescriptor,
)
from tileir.ops.dot import Dot
from tileir.ops.rearrange import ExtractSlice
from tileir.ops.shape import Reshape, Trans
from tileir.refusal import Refusal
from tileir.types import Element, shape_of
from tileir.values import Constant, Operand, Value

LINE = 128
"""Bytes of a row of the widest panel."""


@attrs.frozen(eq=False)
class StagedAccess:
    """An access whose block passes through a buffer in shared memory. `unit` is 0 if a tensor map
    copies the block; if threads do, it is the alignment of its rows in bytes. `widest` is the
    maximum number of bytes in a row of a panel."""

    op: DescriptorLoad | DescriptorStore | DescriptorReduce
    unit: int = 0
    widest: int = LINE

    @property
    def rows(self) -> int:
        """The number of rows of the block: the extents of all dimensions but the last,
        multiplied."""
        return prod(self.op.block().shape[:-1])

    @property
    def columns(self) -> int:
        """The number of elements of a row."""
        return self.op.block().shape[-1]

    @property
    def element(self) -> Element:
        return self.op.block().element

    @property
    def bytes(self) -> int:
        """The bytes of a stage."""
        return self.rows * self.columns * self.element.bytes

    @property
    def swizzle(self) -> int:
        """The widest swizzle that fits (`swizzle_of`)."""
        return swizzle_of(self.rows, gcd(self.columns * self.element.bytes, self.widest))

    @property
    def panel(self) -> int:
        """The number of columns of a panel; 0 if the block is not divided into panels."""
        return (16 << self.swizzle) // self.element.bytes if self.swizzle else 0


@attrs.frozen(eq=False)
class SmemOperand:
    """An operand of a dot in shared memory; `transposed`: whether the buffer has its transpose."""

    staged: StagedAccess
    transposed: bool


@attrs.frozen(eq=False)
class Ring:
    """Loads that share the barriers of a stage, and the dots that read them.

    A stage is released after the last of `dots`, or in block `release_block` if that is not None:
    at the end of the block if it contains the loads or such dots, else at its start. Stages of a
    `resident` ring are never released.
    """

    loads: tuple[StagedAccess, ...]
    dots: tuple[Dot, ...]
    block: str
    """The block of the loads."""
    loop: str | None = None
    """The header of the innermost loop around the loads."""
    resident: bool = False
    release_block: str | None = None

    @property
    def is_outer(self) -> bool:
        """Whether the loads are outside the loops of the dots. Consumers then wait for a stage at
        the position of the loads, not at the dots."""
        return self.resident or self.release_block is not None

    @property
    def bytes(self) -> int:
        """Bytes of a stage."""
        return sum(load.bytes for load in self.loads)

    @property
    def tma_bytes(self) -> int:
        """Bytes of a stage that tensor maps copy, which its full barrier expects."""
        return sum(load.bytes for load in self.loads if not load.unit)


@attrs.frozen(eq=False)
class RingPlan:
    """The rings of a kernel, and the operands of its dots that are in them."""

    rings: tuple[Ring, ...]
    operands: dict[tuple[Dot, str], SmemOperand]
    register_inputs: dict[Dot, tuple[StagedAccess, ...]] = attrs.field(
        factory=dict[Dot, "tuple[StagedAccess, ...]"]
    )
    """The loads from which operand A is computed in registers, by dot."""

    def of(self, op: Op) -> Ring | None:
        """The ring of load `op`."""
        return next((r for r in self.rings for load in r.loads if load.op is op), None)


def plan_rings(function: Function) -> RingPlan | Refusal:
    """The rings of `function`, or a Refusal with the reason why there are none. Operand B of every
    dot is in a ring; operand A may be in one."""
    dots = [op for op in function.ops if isinstance(op, Dot)]
    if not dots:
        return Refusal("there is no dot")
    staged: dict[Op, StagedAccess] = {}
    operands: dict[tuple[Dot, str], SmemOperand] = {}
    for dot in dots:
        why = why_not_wgmma(dot)
        if why is not None:
            return attrs.evolve(why, location=dot.location)
        if shape_of(dot.c.type)[1] > MOST_COLUMNS:
            return Refusal("an instruction has fewer columns than the dot", dot.location)
        for name in ("a", "b"):
            operand = _smem_operand(function, dot, name, staged)
            if operand is not None:
                operands[dot, name] = operand
        if (dot, "b") not in operands:
            return Refusal(
                "operand B is not a block of a strided tensor (see infer-descriptors)", dot.location
            )
    register_inputs = {
        dot: tuple(
            staged.setdefault(x, stage_access(function, x))
            for x in register_operand_inputs(function, dot)
        )
        for dot in dots
        if (dot, "a") not in operands
    }
    needed = {
        dot: [
            *(operands[dot, name].staged for name in "ab" if (dot, name) in operands),
            *register_inputs.get(dot, ()),
        ]
        for dot in dots
    }
    groups = list(_group_loads(function, needed))
    if any(isinstance(g, Refusal) for g in groups):
        return next(g for g in groups if isinstance(g, Refusal))
    rings = [g for g in groups if isinstance(g, Ring)]
    return RingPlan(_merge_rings(rings, dots), operands, register_inputs)


def _smem_operand(
    function: Function, dot: Dot, name: str, staged: dict[Op, StagedAccess]
) -> SmemOperand | None:
    """Operand `name` of a dot in shared memory; None if no load stores it there in a layout that
    `wgmma` supports."""
    source = _source(function, getattr(dot, name))
    if source is None:
        return None
    op, transposed = source
    if not _is_read_by_dots_only(function, op.result):
        return None
    access = staged.setdefault(op, stage_access(function, op))
    along_k = transposed == (name == "b")
    if not access.swizzle or not (along_k or access.element in HALVES):
        return None
    extent = shape_of(dot.a.type)[1] if along_k else shape_of(dot.c.type)[name == "b"]
    if op.block().shape[-1] != extent and (along_k or name == "a"):
        return None
    return SmemOperand(access, transposed)


def stage_access(
    function: Function, op: DescriptorLoad | DescriptorStore | DescriptorReduce
) -> StagedAccess:
    """The access of `op` through a buffer. Threads make it if the kernel has no tensor map for its
    descriptor."""
    from tileir.backend.tma.host_plan import row_alignment

    maker = definitions(function).get(op.descriptor)  # type: ignore[arg-type]
    return StagedAccess(
        op, row_alignment(function, maker.base) if isinstance(maker, MakeDescriptor) else 0
    )


def _source(function: Function, value: Operand) -> tuple[DescriptorLoad, bool] | None:
    """The load of an operand, and whether the operand is its transpose."""
    op = definitions(function).get(value) if isinstance(value, Value) else None
    if isinstance(op, DescriptorLoad) and op.predicate is None:
        return op, False
    if isinstance(op, Trans) and tuple(op.order) == (1, 0):
        source = _source(function, op.value)
        return None if source is None else (source[0], not source[1])
    if isinstance(op, Reshape) and as_rows(shape_of(op.value.type)) == as_rows(shape_of(op.to)):
        return _source(function, op.value)
    return _source(function, op.value) if _first_columns(op) else None


def _first_columns(op: Op | None) -> TypeGuard[ExtractSlice]:
    """Whether `op` extracts the first columns of all rows of a tile."""
    if not isinstance(op, ExtractSlice) or op.strides is not None:
        return False
    rows = shape_of(op.value.type)[:-1] == shape_of(op.to)[:-1]
    return rows and all(isinstance(x, Constant) and not x.bits for x in op.offsets)


def columns_read(function: Function, load: DescriptorLoad) -> int:
    """The number of first columns of a block that are read."""
    return max(_columns_read(function, load.result), default=load.block().shape[-1])


def _columns_read(function: Function, value: Value) -> Iterator[int]:
    for reader in uses(function).get(value, ()):
        if isinstance(reader, Reshape):
            yield from _columns_read(function, reader.result)
        else:
            yield shape_of(reader.to if _first_columns(reader) else value.type)[-1]


def as_rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with all dimensions but the last merged into one."""
    return (prod(shape[:-1]), shape[-1]) if len(shape) > 1 else shape


def _is_read_by_dots_only(function: Function, value: Value) -> bool:
    """Whether only dots read `value`, directly, reshaped or transposed."""
    return all(
        (isinstance(r, Dot) and value is not r.c)
        or (isinstance(r, (Trans, Reshape)) and _is_read_by_dots_only(function, r.result))
        or (_first_columns(r) and _is_read_by_dots_only(function, r.result))
        for r in uses(function).get(value, ())
    )


def _group_loads(
    function: Function, needed: Mapping[Dot, list[StagedAccess]]
) -> Iterator[Ring | Refusal]:
    """A ring for the loads of a dot in its own block, and a ring for each load outside its loop."""
    place, inner = defining_blocks(function), loops(function).innermost
    seen: set[StagedAccess] = set()
    for dot, loads in needed.items():
        same_block: list[StagedAccess] = []
        for staged in loads:
            if staged in seen:
                continue
            seen.add(staged)
            label = place[staged.op.result]
            if label == place[dot.result] and label in inner:
                same_block.append(staged)
            else:
                yield _outer_ring(function, staged, _dots_of(needed, [staged]))
        if same_block:
            dots = _dots_of(needed, same_block)
            if any(place[d.result] != place[dot.result] for d in dots):
                yield Refusal("a load is read by dots of several blocks", same_block[0].op.location)
            yield Ring(tuple(same_block), dots, place[dot.result], inner[place[dot.result]])


def _merge_rings(rings: list[Ring], dots: list[Dot]) -> tuple[Ring, ...]:
    """`rings`, in which rings of one block with nested or equal lifetimes are merged, so that a
    single wait covers both."""
    number = {dot: i for i, dot in enumerate(dots)}
    merged: list[Ring] = []
    for ring in sorted(rings, key=lambda r: (number[r.dots[0]], -number[r.dots[-1]])):
        for i, other in enumerate(merged):
            lifetimes = [(r.block, r.release_block, r.resident) for r in (other, ring)]
            is_contained = ring.is_outer or number[other.dots[-1]] >= number[ring.dots[-1]]
            if lifetimes[0] == lifetimes[1] and is_contained:
                merged_dots = tuple(sorted({*other.dots, *ring.dots}, key=number.__getitem__))
                merged[i] = attrs.evolve(other, loads=(*other.loads, *ring.loads), dots=merged_dots)
                break
        else:
            merged.append(ring)
    return tuple(merged)


def _outer_ring(function: Function, staged: StagedAccess, dots: tuple[Dot, ...]) -> Ring | Refusal:
    """The ring of a load whose dots are in inner loops, or which is in no loop."""
    place, nest = defining_blocks(function), loops(function)
    label = place[staged.op.result]
    loop = nest.around(label)
    if loop is None:
        return Ring((staged,), dots, label, resident=True)
    if loop.latch is None or any(place[dot.result] not in loop.blocks for dot in dots):
        return Refusal("a dot is outside the loop that loads its operand", staged.op.location)
    if not dominance(function).dominates(label, loop.latch):
        return Refusal(
            "an operand is not loaded in every iteration of its loop", staged.op.location
        )
    released = _find_release_block(function, loop, {label, *(place[dot.result] for dot in dots)})
    return Ring((staged,), dots, label, loop.header, release_block=released or loop.latch)


def _find_release_block(function: Function, loop: Loop, labels: set[str]) -> str | None:
    """The first block of an iteration of `loop` that is executed once per iteration, after all of
    the blocks `labels`; None where there is none."""
    graph, tree, inner = cfg(function), dominance(function), loops(function).innermost
    is_after: dict[str, bool] = {}
    for label in reversed(loop.order):
        after = (n for n in graph.successors[label] if n in loop.blocks and n != loop.header)
        is_after[label] = label not in labels and all(is_after.get(n, False) for n in after)
    candidates = (n for n in loop.order if is_after[n] and inner[n] == loop.header)
    return next((n for n in candidates if tree.dominates(n, cast(str, loop.latch))), None)


def _dots_of(
    needed: Mapping[Dot, list[StagedAccess]], loads: list[StagedAccess]
) -> tuple[Dot, ...]:
    return tuple(dot for dot, some in needed.items() if any(x in loads for x in some))
