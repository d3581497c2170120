"""What is staged for dots: loads by descriptors, grouped by the dots that need them together."""

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
    swizzle_of,
    why_not_wgmma,
)
from tileir.backend.warp_specialize.register_operands import register_operand_inputs
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.descriptor import (
    DescriptorLoad,
    DescriptorReduce,
    DescriptorStore,
    MakeDescriptor,
)
from tileir.ops.dot import Dot
from tileir.ops.shape import ExtractSlice, Reshape, Trans
from tileir.refusal import Refusal
from tileir.types import Element, shape_of
from tileir.values import Constant, Operand, Value

LINE = 128
"""Bytes of a row of the widest panel."""


@attrs.frozen(eq=False)
class StagedAccess:
    """An access whose block passes through a buffer. `unit`: where threads read or write it, and
    not a tensor map, the bytes that the addresses of rows are multiples of; else 0. `widest`: the
    bytes of a row that a panel may have."""

    op: DescriptorLoad | DescriptorStore | DescriptorReduce
    unit: int = 0
    widest: int = LINE

    @property
    def rows(self) -> int:
        """Rows of the block: all dimensions but the last, which is contiguous."""
        return prod(self.op.block().shape[:-1])

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.op.block().shape[-1]

    @property
    def element(self) -> Element:
        return self.op.block().element

    @property
    def bytes(self) -> int:
        """Bytes of a slot."""
        return self.rows * self.columns * self.element.bytes

    @property
    def swizzle(self) -> int:
        """The widest that fits (`swizzle_of`)."""
        return swizzle_of(self.rows, gcd(self.columns * self.element.bytes, self.widest))

    @property
    def panel(self) -> int:
        """Columns of a panel; 0 where rows are whole."""
        return (16 << self.swizzle) // self.element.bytes if self.swizzle else 0


@attrs.frozen(eq=False)
class SmemOperand:
    """A factor of a dot that lies in a buffer, and whether it lies there transposed."""

    staged: StagedAccess
    transposed: bool


@attrs.frozen(eq=False)
class Ring:
    """Loads that are waited for together, by the dots that need them. Slots are given back by the
    last dot, or where block `until` begins, at its end if it has dots; those of `resident` ones
    never."""

    loads: tuple[StagedAccess, ...]
    dots: tuple[Dot, ...]
    home: str
    """The block of the loads."""
    loop: str | None = None
    """The innermost loop around it, by its header."""
    resident: bool = False
    until: str | None = None

    @property
    def early(self) -> bool:
        """Whether slots are waited for where the loads stand, before dots in loops within."""
        return self.resident or self.until is not None

    @property
    def bytes(self) -> int:
        """Bytes of one slot."""
        return sum(load.bytes for load in self.loads)

    @property
    def expected(self) -> int:
        """Bytes that tensor maps bring for one slot."""
        return sum(load.bytes for load in self.loads if not load.unit)


@attrs.frozen(eq=False)
class RingPlan:
    """All rings of a kernel, and the factors of its dots that lie in them."""

    rings: tuple[Ring, ...]
    factors: dict[tuple[Dot, str], SmemOperand]
    prologues: dict[Dot, tuple[StagedAccess, ...]] = attrs.field(
        factory=dict[Dot, "tuple[StagedAccess, ...]"]
    )
    """What first factors are made of in registers."""

    def of(self, op: Op) -> Ring | None:
        """The ring that load `op` is of."""
        return next((r for r in self.rings for load in r.loads if load.op is op), None)


def plan_rings(function: Function) -> RingPlan | Refusal:
    """The rings of `function`, every dot of which takes B, and A or not, from one; else why it
    has none."""
    dots = [op for op in function.ops if isinstance(op, Dot)]
    if not dots:
        return Refusal("there is no dot")
    staged: dict[Op, StagedAccess] = {}
    factors: dict[tuple[Dot, str], SmemOperand] = {}
    for dot in dots:
        why = why_not_wgmma(dot)
        if why is not None:
            return attrs.evolve(why, location=dot.location)
        for name in ("a", "b"):
            found = _factor(function, dot, name, staged)
            if found is not None:
                factors[dot, name] = found
        if (dot, "b") not in factors:
            return Refusal(
                "operand B is not a block of a strided tensor (see infer-descriptors)", dot.location
            )
    prologues = {
        dot: tuple(
            staged.setdefault(x, stage_access(function, x))
            for x in register_operand_inputs(function, dot)
        )
        for dot in dots
        if (dot, "a") not in factors
    }
    needed = {
        dot: [
            *(factors[dot, name].staged for name in "ab" if (dot, name) in factors),
            *prologues.get(dot, ()),
        ]
        for dot in dots
    }
    groups = list(_grouped(function, needed))
    if any(isinstance(g, Refusal) for g in groups):
        return next(g for g in groups if isinstance(g, Refusal))
    found = [g for g in groups if isinstance(g, Ring)]
    return RingPlan(_together(found, dots), factors, prologues)


def _factor(
    function: Function, dot: Dot, name: str, staged: dict[Op, StagedAccess]
) -> SmemOperand | None:
    """The factor as it lies in a buffer; None where it does not, or not as the product needs it."""
    found = _source(function, getattr(dot, name))
    if found is None:
        return None
    op, transposed = found
    if not _only_dots(function, op.result):
        return None
    made = staged.setdefault(op, stage_access(function, op))
    along_k = transposed == (name == "b")
    if not made.swizzle or not (along_k or made.element in HALVES):
        return None
    asked = shape_of(dot.a.type)[1] if along_k else shape_of(dot.c.type)[name == "b"]
    if op.block().shape[-1] != asked and (along_k or name == "a"):
        return None
    return SmemOperand(made, transposed)


def stage_access(
    function: Function, op: DescriptorLoad | DescriptorStore | DescriptorReduce
) -> StagedAccess:
    """The access, by threads or a tensor map as the kernel says."""
    from tileir.backend.tma.host_plan import row_alignment

    maker = definitions(function).get(op.descriptor)  # type: ignore[arg-type]
    return StagedAccess(
        op, row_alignment(function, maker.base) if isinstance(maker, MakeDescriptor) else 0
    )


def _source(function: Function, value: Operand) -> tuple[DescriptorLoad, bool] | None:
    """The load that a factor comes from, and whether it was transposed on the way."""
    op = definitions(function).get(value) if isinstance(value, Value) else None
    if isinstance(op, DescriptorLoad) and op.predicate is None:
        return op, False
    if isinstance(op, Trans) and tuple(op.order) == (1, 0):
        found = _source(function, op.value)
        return None if found is None else (found[0], not found[1])
    if isinstance(op, Reshape) and as_rows(shape_of(op.value.type)) == as_rows(shape_of(op.to)):
        return _source(function, op.value)
    return _source(function, op.value) if _first_columns(op) else None


def _first_columns(op: Op | None) -> TypeGuard[ExtractSlice]:
    """Whether `op` is all rows of a tile, of its first columns."""
    if not isinstance(op, ExtractSlice) or op.strides is not None:
        return False
    rows = shape_of(op.value.type)[:-1] == shape_of(op.to)[:-1]
    return rows and all(isinstance(x, Constant) and not x.bits for x in op.offsets)


def columns_read(function: Function, load: DescriptorLoad) -> int:
    """The first columns of a block that anything reads."""
    return max(_columns_read(function, load.result), default=load.block().shape[-1])


def _columns_read(function: Function, value: Value) -> Iterator[int]:
    for reader in uses(function).get(value, ()):
        if isinstance(reader, Reshape):
            yield from _columns_read(function, reader.result)
        else:
            yield shape_of(reader.to if _first_columns(reader) else value.type)[-1]


def as_rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    """All dimensions but the last as one."""
    return (prod(shape[:-1]), shape[-1]) if len(shape) > 1 else shape


def _only_dots(function: Function, value: Value) -> bool:
    """Whether dots alone read `value`, as it is, reshaped or transposed."""
    return all(
        (isinstance(r, Dot) and value is not r.c)
        or (isinstance(r, (Trans, Reshape)) and _only_dots(function, r.result))
        or (_first_columns(r) and _only_dots(function, r.result))
        for r in uses(function).get(value, ())
    )


def _grouped(
    function: Function, needed: Mapping[Dot, list[StagedAccess]]
) -> Iterator[Ring | Refusal]:
    """Loads of one block that feed one dot, together; a load for dots of loops within by itself."""
    place, inner = defining_blocks(function), loops(function).innermost
    seen: set[StagedAccess] = set()
    for dot, loads in needed.items():
        near: list[StagedAccess] = []
        for staged in loads:
            if staged in seen:
                continue
            seen.add(staged)
            home = place[staged.op.result]
            if home == place[dot.result] and home in inner:
                near.append(staged)
            else:
                yield _held(function, staged, _fed(needed, [staged]))
        if near:
            fed = _fed(needed, near)
            if any(place[d.result] != place[dot.result] for d in fed):
                yield Refusal("a block is multiplied in several places", near[0].op.location)
            yield Ring(tuple(near), fed, place[dot.result], inner[place[dot.result]])


def _together(rings: list[Ring], dots: list[Dot]) -> tuple[Ring, ...]:
    """`rings`, each that is needed after another of its block and not for longer as part of that
    one, and those that are held for the same loops as one: one wait is for both."""
    number = {dot: i for i, dot in enumerate(dots)}
    found: list[Ring] = []
    for ring in sorted(rings, key=lambda r: (number[r.dots[0]], -number[r.dots[-1]])):
        for i, other in enumerate(found):
            alike = [(r.home, r.until, r.resident) for r in (other, ring)]
            long = ring.early or number[other.dots[-1]] >= number[ring.dots[-1]]
            if alike[0] == alike[1] and long:
                fed = tuple(sorted({*other.dots, *ring.dots}, key=number.__getitem__))
                found[i] = attrs.evolve(other, loads=(*other.loads, *ring.loads), dots=fed)
                break
        else:
            found.append(ring)
    return tuple(found)


def _held(function: Function, staged: StagedAccess, fed: tuple[Dot, ...]) -> Ring | Refusal:
    """The ring of a load whose dots are in loops within its own, or in no loop."""
    place, nest = defining_blocks(function), loops(function)
    home = place[staged.op.result]
    loop = nest.around(home)
    if loop is None:
        return Ring((staged,), fed, home, resident=True)
    if loop.latch is None or any(place[dot.result] not in loop.blocks for dot in fed):
        return Refusal("a block is multiplied outside the loop that reads it", staged.op.location)
    if not dominance(function).dominates(home, loop.latch):
        return Refusal("a block is not read in every iteration of its loop", staged.op.location)
    until = _behind(function, loop, {home, *(place[dot.result] for dot in fed)})
    return Ring((staged,), fed, home, loop.header, until=until or loop.latch)


def _behind(function: Function, loop: Loop, places: set[str]) -> str | None:
    """The first block of a round of `loop` that every round comes to behind all blocks `places`,
    outside loops within; None where there is none."""
    graph, tree, inner = cfg(function), dominance(function), loops(function).innermost
    late: dict[str, bool] = {}
    for label in reversed(loop.order):
        after = (n for n in graph.successors[label] if n in loop.blocks and n != loop.header)
        late[label] = label not in places and all(late.get(n, False) for n in after)
    passed = (n for n in loop.order if late[n] and inner[n] == loop.header)
    return next((n for n in passed if tree.dominates(n, cast(str, loop.latch))), None)


def _fed(needed: Mapping[Dot, list[StagedAccess]], loads: list[StagedAccess]) -> tuple[Dot, ...]:
    return tuple(dot for dot, some in needed.items() if any(x in loads for x in some))
