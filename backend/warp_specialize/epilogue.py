"""Results written by descriptors, by way of shared memory and tensor maps, or threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod
from typing import TypeAlias, cast

import attrs

from tileir.backend.layouts.wgmma import ROWS
from tileir.backend.warp_specialize.rings import LINE, StagedAccess, as_rows
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.control import Return
from tileir.ops.descriptor import DescriptorReduce, DescriptorStore, MakeDescriptor
from tileir.ops.gpu import Barrier, LocalLoad, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence, TensorMap, TmaStore, TmaWait
from tileir.ops.shape import Reshape
from tileir.types import F32, I32, AddressSpace, Descriptor, Tile, element_of, pointer, shape_of
from tileir.values import Operand, Value, constant

_CHUNK = 16
"""Bytes that rows of any panel are multiples of."""
_SWIZZLES = {128: 3, 64: 2, 32: 1}
_SLOTS = 2
"""Slots of whole panels: one is written while the other is read."""

_Write: TypeAlias = DescriptorStore | DescriptorReduce


@attrs.frozen(eq=False)
class StorePanels:
    """`count` panels of `width` columns each, from column `first` of a store on, which pass through
    the slots of a buffer. Where `map` is there it copies them, all rows, or parts of these that
    follow each other along `axis`: warpgroups copy the rows they multiplied."""

    first: int
    width: int
    count: int
    buffer: SharedAlloc
    map: TensorMap | None
    axis: int


@attrs.frozen(eq=False)
class StorePath:
    """Where a store passes through shared memory: whole panels, and the columns that are left.
    `again`: what copies before wrote it may write again, so that these have to be complete."""

    staged: StagedAccess
    parts: tuple[StorePanels, ...]
    again: bool = False

    @staticmethod
    def of(staged: StagedAccess, maker: MakeDescriptor) -> StorePath:
        """The outlet of a store whose descriptor `maker` makes."""
        return StorePath(staged, tuple(_panels(staged, maker, *cut) for cut in _cuts(staged)))


def fits(staged: StagedAccess) -> bool:
    """Whether a store can have an outlet: rows of whole chunks, or panels where all leave at
    once."""
    if _adds(staged):
        return staged.swizzle > 0 and not staged.unit and staged.element is F32
    return staged.columns * staged.element.bytes % _CHUNK == 0


def plan_stores(
    stores: Mapping[Op, tuple[StagedAccess, MakeDescriptor]], again: Collection[Op]
) -> dict[Op, StorePath]:
    """The outlets of stores, whose descriptors are made so, of which those `again` write what
    others may have. Stores that are cut alike take turns with the same buffers: slots come round in
    one store as they do from one to the next."""
    made: dict[Op, StorePath] = {}
    first: dict[object, StorePath] = {}
    for op, (staged, maker) in stores.items():
        outlet = StorePath.of(staged, maker)
        before = first.setdefault(_cut(staged), outlet)
        pairs = zip(outlet.parts, before.parts, strict=True)
        parts = tuple(attrs.evolve(part, buffer=other.buffer) for part, other in pairs)
        made[op] = attrs.evolve(outlet, parts=parts, again=op in again)
    return made


def epilogue_smem_bytes(stores: Iterable[StagedAccess]) -> int:
    """Bytes of the buffers of stores."""
    cuts = {_cut(staged): staged for staged in stores}
    return sum(
        min(_SLOTS, count) * width * staged.rows * staged.element.bytes
        for staged in cuts.values() for _, width, count in _cuts(staged)
    )  # fmt: skip


def _cut(staged: StagedAccess) -> object:
    """What stores have in common that take turns with buffers."""
    return staged.element, staged.rows, staged.columns, bool(staged.unit), _adds(staged)


def _adds(staged: StagedAccess) -> bool:
    return isinstance(staged.op, DescriptorReduce)


def _cuts(staged: StagedAccess) -> Iterator[tuple[int, int, int]]:
    """First column, width and number of the parts of a store: panels; of what is added all
    columns, as it comes in rounds of a loop and leaves beside the products that follow."""
    if _adds(staged):
        yield 0, staged.columns, 1
        return
    widest = LINE // staged.element.bytes
    count, left = divmod(staged.columns, widest)
    if count:
        yield 0, widest, count
    if left:
        yield count * widest, left, 1


def _panels(
    staged: StagedAccess, maker: MakeDescriptor, first: int, width: int, count: int
) -> StorePanels:
    kind, place = cast(Descriptor, maker.to).block, staged.op.location
    row = width * staged.element.bytes
    swizzle = staged.swizzle if _adds(staged) else _SWIZZLES.get(row, 0)
    buffer = SharedAlloc(
        pointer(staged.element, AddressSpace.SHARED),
        shape=(min(_SLOTS, count), staged.rows, width),
        swizzle=swizzle,
        panel=(16 << swizzle) // staged.element.bytes if swizzle else 0,
        location=place,
    )
    if staged.unit:
        return StorePanels(first, width, count, buffer, None, 0)
    extents, axis = _part(kind.shape[:-1])
    made = TensorMap(
        maker.base,
        Descriptor(Tile(kind.element, (*extents, width))),
        maker.dimensions,
        swizzle=swizzle,
        location=maker.location,
    )
    return StorePanels(first, width, count, buffer, made, axis)


def _part(extents: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Extents of parts of as many rows as a warpgroup multiplies at a time, and the dimension along
    which they follow each other; the whole where there are no such parts."""
    rows = prod(extents)
    if rows % ROWS:
        return extents, 0
    for axis, extent in enumerate(extents):
        others = rows // extent
        if ROWS % others == 0 and extent % (ROWS // others) == 0 and set(extents[:axis]) <= {1}:
            return (*extents[:axis], ROWS // others, *extents[axis + 1 :]), axis
    return extents, 0


def storing(function: Function, outlets: Mapping[Op, StorePath]) -> Function:
    """`function` with the stores that have an outlet written there first, panel by panel, and
    copied from there. A slot is written again when what was copied from it has been read."""
    if not outlets:
        return function
    role = _Storing(outlets)
    return function.with_blocks({n: role.block(b) for n, b in function.blocks.items()})


@attrs.frozen(eq=False)
class _Storing:
    outlets: Mapping[Op, StorePath]
    narrow: dict[tuple[Value, int], Value] = attrs.field(factory=dict[tuple[Value, int], Value])
    """Descriptors of panels, by the descriptor of the store and the columns of a panel."""

    def block(self, block: Block) -> Block:
        """The block with its stores by way of their outlets."""
        ops: list[Op] = []
        for op in block.ops:
            if isinstance(op, (DescriptorStore, DescriptorReduce)) and op in self.outlets:
                ops += self._stored(op, self.outlets[op])
            elif isinstance(op, Return) and any(map(_mapped, self.outlets.values())):
                ops += [TmaWait(), op]
            else:
                ops.append(op)
                ops += self._narrowed(op) if isinstance(op, MakeDescriptor) else ()
        return attrs.evolve(block, ops=tuple(ops))

    def _narrowed(self, maker: MakeDescriptor) -> Iterator[Op]:
        """What makes the descriptors of panels that threads copy."""
        for op, outlet in self.outlets.items():
            for part in () if _mapped(outlet) else outlet.parts:
                key = (maker.result, part.width)
                if cast(_Write, op).descriptor is maker.result and key not in self.narrow:
                    block = cast(Descriptor, maker.to).block
                    kind = Descriptor(Tile(block.element, (*block.shape[:-1], part.width)))
                    made = MakeDescriptor(
                        maker.base, kind, maker.dimensions, padding=maker.padding,
                        location=maker.location,
                    )  # fmt: skip
                    self.narrow[key] = made.result
                    yield made

    def _stored(self, op: _Write, outlet: StorePath) -> list[Op]:
        ops: list[Op] = []
        value = _flat(op.value, ops)
        for number, (pending, panels) in enumerate(_rounds(outlet)):
            if outlet.again and number == 0:
                ops.append(TmaWait(complete=True))
            elif _mapped(outlet):
                ops.append(TmaWait(pending=pending))
            ops.append(Barrier())
            for part, index in panels:
                columns = (part.first + index * part.width, part.width)
                ops.append(
                    LocalStore(value, part.buffer.result, _slot(part, index), columns=columns,
                               location=op.location)
                )  # fmt: skip
            ops += [AsyncFence(), Barrier()] if _mapped(outlet) else [Barrier()]
            for part, index in panels:
                ops += self._copied(op, part, index)
        return ops

    def _copied(self, op: _Write, part: StorePanels, index: int) -> Iterator[Op]:
        """A panel copied from its slot."""
        last, first = op.indices[-1], part.first + index * part.width
        if first:
            yield (moved := Add(last, constant(I32, first)))
            last = moved.result
        indices, slot, place = (*op.indices[:-1], last), _slot(part, index), op.location
        if part.map is not None:
            held, into, add = part.buffer.result, part.map.result, isinstance(op, DescriptorReduce)
            yield TmaStore(into, held, slot, indices, axis=part.axis, add=add, location=place)
            return
        into = self.narrow[cast(Value, op.descriptor), part.width]
        rows, block = part.buffer.shape[1:], cast(Descriptor, into.type).block
        yield (read := LocalLoad(part.buffer.result, slot, Tile(block.element, rows)))
        value: Operand = read.result
        if block.shape != rows:
            yield (shaped := Reshape(value, block))
            value = shaped.result
        yield DescriptorStore(into, value, indices, location=place)


def _mapped(outlet: StorePath) -> bool:
    return not outlet.staged.unit


def _slot(part: StorePanels, index: int) -> Operand:
    return constant(I32, index % part.buffer.shape[0])


def _rounds(outlet: StorePath) -> Iterator[tuple[int, list[tuple[StorePanels, int]]]]:
    """The panels that are written before others are copied: as many as there are slots; one, where
    more are to come and tensor maps copy. And how many copies, the newest, may still read."""
    panels = [(part, index) for part in outlet.parts for index in range(part.count)]
    slots = [(part, index % part.buffer.shape[0]) for part, index in panels]
    count = len(panels)
    alone = _mapped(outlet) and outlet.parts[0].count > _SLOTS
    first = 0
    while first < count:
        until = first + 1
        while until < count and slots[until] not in slots[first:until] and not (
            alone and slots[until][0] is slots[first][0]
        ):  # fmt: skip
            until += 1
        yield min(_since(slots, first, slot) for slot in slots[first:until]), panels[first:until]
        first = until


def _since(slots: list[tuple[StorePanels, int]], first: int, slot: tuple[StorePanels, int]) -> int:
    """Copies between the last one from `slot` and those of the round that begins at `first`; the
    last one may be of the store before."""
    before = [i for i in range(first) if slots[i] == slot]
    if before:
        return first - before[-1] - 1
    last = max(i for i, other in enumerate(slots) if other == slot)
    return len(slots) - 1 - last + first


def _flat(value: Operand, ops: list[Op]) -> Operand:
    """A tile as rows."""
    shape = as_rows(shape_of(value.type))
    if shape == shape_of(value.type):
        return value
    made = Reshape(value, Tile(element_of(value.type), shape))  # type: ignore[arg-type]
    ops.append(made)
    return made.result
