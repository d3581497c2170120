"""The epilogue: descriptor stores that pass through shared memory, by TMA or by threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod
from typing import TypeAlias, cast

import attrs

from tileir.analysis.uses import definitions
from tileir.backend.layouts.wgmma import ROWS
from tileir.backend.warp_specialize.rings import LINE, StagedAccess, as_rows
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.control import Return
from tileir.ops.descriptor import DescriptorReduce, DescriptorStore, MakeDescriptor
from tileir.ops.gpu import BlockBarrier, LocalLoad, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence, TensorMap, TmaStore, TmaWait
from tileir.ops.shape import Reshape
from tileir.passes.dce import dce
from tileir.types import (
    F32,
    I32,
    AddressSpace,
    Descriptor,
    Element,
    Tile,
    element_of,
    pointer,
    shape_of,
)
from tileir.values import Operand, Value, constant

_CHUNK = 16
"""Row bytes of any panel are a multiple of this."""
_SWIZZLES = {128: 3, 64: 2, 32: 1}
_STAGES = 2
"""Stages of whole panels: one is written while the other is read."""

_Write: TypeAlias = DescriptorStore | DescriptorReduce


@attrs.frozen(eq=False)
class StorePanels:
    """`count` panels of `width` columns each, from column `first` of a store on, which pass through
    the stages of `buffer`. `map` copies a box of all rows, or of the rows of one warpgroup, which
    are consecutive along `axis`. Without `map`, threads copy them."""

    first: int
    width: int
    count: int
    buffer: SharedAlloc
    map: TensorMap | None
    axis: int


@attrs.frozen(eq=False)
class StorePath:
    """The panels through which a store passes: whole panels, and the remaining columns. With
    `may_overwrite`, the store may write addresses that earlier copies wrote, and these copies must
    be complete first."""

    staged: StagedAccess
    parts: tuple[StorePanels, ...]
    may_overwrite: bool = False

    @staticmethod
    def of(staged: StagedAccess, maker: MakeDescriptor) -> StorePath:
        """The path of a store to the descriptor of `maker`."""
        return StorePath(
            staged, tuple(_store_panels(staged, maker, *group) for group in _panel_groups(staged))
        )


def can_stage(staged: StagedAccess) -> bool:
    """Whether a store can pass through shared memory: its rows are multiples of 16 bytes; a
    reduction is of f32, by tensor map, in panels."""
    if _is_reduction(staged):
        return staged.swizzle > 0 and not staged.unit and staged.element is F32
    return staged.columns * staged.element.bytes % _CHUNK == 0


def plan_stores(
    stores: Mapping[Op, tuple[StagedAccess, MakeDescriptor]], may_overwrite: Collection[Op]
) -> dict[Op, StorePath]:
    """The paths of `stores`, given with the ops that make their descriptors. Those in
    `may_overwrite` may write what earlier ones wrote. Stores with equal panels share buffers."""
    planned: dict[Op, StorePath] = {}
    first_of: dict[object, StorePath] = {}
    for op, (staged, maker) in stores.items():
        path = StorePath.of(staged, maker)
        first = first_of.setdefault(_sharing_key(staged), path)
        pairs = zip(path.parts, first.parts, strict=True)
        parts = tuple(attrs.evolve(part, buffer=other.buffer) for part, other in pairs)
        planned[op] = attrs.evolve(path, parts=parts, may_overwrite=op in may_overwrite)
    return planned


def epilogue_smem_bytes(stores: Iterable[StagedAccess]) -> int:
    """Bytes of shared memory for `stores`."""
    distinct = {_sharing_key(staged): staged for staged in stores}
    return sum(
        min(_STAGES, count) * width * staged.rows * staged.element.bytes
        for staged in distinct.values() for _, width, count in _panel_groups(staged)
    )  # fmt: skip


def _sharing_key(staged: StagedAccess) -> object:
    """The properties that are equal for stores that share buffers."""
    return staged.element, staged.rows, staged.columns, bool(staged.unit), _is_reduction(staged)


def _is_reduction(staged: StagedAccess) -> bool:
    return isinstance(staged.op, DescriptorReduce)


def _panel_groups(staged: StagedAccess) -> Iterator[tuple[int, int, int]]:
    """First column, width and number of the panels of a store. A reduction has one panel of all
    columns: it is in the main loop, and its copy overlaps the matmuls that follow."""
    if _is_reduction(staged):
        yield 0, staged.columns, 1
        return
    widest = LINE // staged.element.bytes
    count, remainder = divmod(staged.columns, widest)
    if count:
        yield 0, widest, count
    if remainder:
        yield count * widest, remainder, 1


def _store_panels(
    staged: StagedAccess, maker: MakeDescriptor, first: int, width: int, count: int
) -> StorePanels:
    kind, place = cast(Descriptor, maker.to).block, staged.op.location
    row = width * staged.element.bytes
    swizzle = staged.swizzle if _is_reduction(staged) else _SWIZZLES.get(row, 0)
    buffer = SharedAlloc(
        pointer(staged.element, AddressSpace.SHARED),
        shape=(min(_STAGES, count), staged.rows, width),
        swizzle=swizzle,
        panel=(16 << swizzle) // staged.element.bytes if swizzle else 0,
        location=place,
    )
    if staged.unit:
        return StorePanels(first, width, count, buffer, None, 0)
    extents, axis = _warpgroup_box(kind.shape[:-1])
    tensor_map = TensorMap(
        maker.base,
        Descriptor(Tile(kind.element, (*extents, width))),
        maker.dimensions,
        swizzle=swizzle,
        location=maker.location,
    )
    return StorePanels(first, width, count, buffer, tensor_map, axis)


def _warpgroup_box(extents: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The box of as many rows as one `wgmma` of a warpgroup has, and the dimension along which
    these boxes are consecutive; the whole block where there is no such box."""
    rows = prod(extents)
    if rows % ROWS:
        return extents, 0
    for axis, extent in enumerate(extents):
        outer_rows = rows // extent
        if (
            ROWS % outer_rows == 0
            and extent % (ROWS // outer_rows) == 0
            and set(extents[:axis]) <= {1}
        ):
            return (*extents[:axis], ROWS // outer_rows, *extents[axis + 1 :]), axis
    return extents, 0


def build_epilogue(function: Function, paths: Mapping[Op, StorePath]) -> Function:
    """`function` with the stores in `paths` written to shared memory panel by panel, and copied
    from there. A stage is reused when the copies from it have read it."""
    if not paths:
        return function
    role = _EpilogueBuilder(paths, definitions(function))
    return dce(function.with_blocks({n: role.block(b) for n, b in function.blocks.items()}))


@attrs.frozen(eq=False)
class _EpilogueBuilder:
    paths: Mapping[Op, StorePath]
    makers: Mapping[Value, Op]
    panel_descriptors: dict[tuple[Value, int], Value] = attrs.field(
        factory=dict[tuple[Value, int], Value]
    )
    """Descriptors of panels, by the descriptor of the store and the columns of a panel."""

    def block(self, block: Block) -> Block:
        """The block with its stores through shared memory."""
        ops: list[Op] = []
        for op in block.ops:
            if isinstance(op, (DescriptorStore, DescriptorReduce)) and op in self.paths:
                ops += self._expand_store(op, self.paths[op])
            elif isinstance(op, Return) and any(map(_uses_tma, self.paths.values())):
                ops += [TmaWait(), op]
            else:
                ops.append(op)
                ops += self._panel_descriptors(op) if isinstance(op, MakeDescriptor) else ()
        return attrs.evolve(block, ops=tuple(ops))

    def _panel_descriptors(self, maker: MakeDescriptor) -> Iterator[Op]:
        """The ops that make the descriptors of panels that threads copy."""
        for op, path in self.paths.items():
            for part in () if _uses_tma(path) else path.parts:
                key = (maker.result, part.width)
                if (
                    cast(_Write, op).descriptor is maker.result
                    and key not in self.panel_descriptors
                ):
                    block = cast(Descriptor, maker.to).block
                    kind = Descriptor(Tile(block.element, (*block.shape[:-1], part.width)))
                    panel_maker = MakeDescriptor(
                        maker.base, kind, maker.dimensions, padding=maker.padding,
                        location=maker.location,
                    )  # fmt: skip
                    self.panel_descriptors[key] = panel_maker.result
                    yield panel_maker

    def _expand_store(self, op: _Write, path: StorePath) -> list[Op]:
        ops: list[Op] = []
        value = _flat(op.value, self.makers, ops)
        for number, (pending, panels) in enumerate(_store_order(path)):
            if path.may_overwrite and number == 0:
                ops.append(TmaWait(complete=True))
            elif _uses_tma(path):
                ops.append(TmaWait(pending=pending))
            ops.append(BlockBarrier())
            for part, index in panels:
                columns = (part.first + index * part.width, part.width)
                ops.append(
                    LocalStore(value, part.buffer.result, _stage(part, index), columns=columns,
                               location=op.location)
                )  # fmt: skip
            ops += [AsyncFence(), BlockBarrier()] if _uses_tma(path) else [BlockBarrier()]
            for part, index in panels:
                ops += self._copy_panel(op, part, index)
        return ops

    def _copy_panel(self, op: _Write, part: StorePanels, index: int) -> Iterator[Op]:
        """The copy of a panel from its stage."""
        last, first = op.indices[-1], part.first + index * part.width
        if first:
            yield (moved := Add(last, constant(I32, first)))
            last = moved.result
        indices, stage, place = (*op.indices[:-1], last), _stage(part, index), op.location
        if part.map is not None:
            buffer, into, add = (
                part.buffer.result,
                part.map.result,
                isinstance(op, DescriptorReduce),
            )
            yield TmaStore(into, buffer, stage, indices, axis=part.axis, add=add, location=place)
            return
        into = self.panel_descriptors[cast(Value, op.descriptor), part.width]
        rows, block = part.buffer.shape[1:], cast(Descriptor, into.type).block
        yield (read := LocalLoad(part.buffer.result, stage, Tile(block.element, rows)))
        value: Operand = read.result
        if block.shape != rows:
            yield (shaped := Reshape(value, block))
            value = shaped.result
        yield DescriptorStore(into, value, indices, location=place)


def _uses_tma(path: StorePath) -> bool:
    return not path.staged.unit


def _stage(part: StorePanels, index: int) -> Operand:
    return constant(I32, index % part.buffer.shape[0])


def _store_order(path: StorePath) -> Iterator[tuple[int, list[tuple[StorePanels, int]]]]:
    """Groups of panels that are written before they are copied, as many as there are stages, or one
    where TMA copies and more follow; and how many of the newest copies may still be in flight."""
    panels = [(part, index) for part in path.parts for index in range(part.count)]
    stages = [(part, index % part.buffer.shape[0]) for part, index in panels]
    count = len(panels)
    alone = _uses_tma(path) and path.parts[0].count > _STAGES
    first = 0
    while first < count:
        until = first + 1
        while until < count and stages[until] not in stages[first:until] and not (
            alone and stages[until][0] is stages[first][0]
        ):  # fmt: skip
            until += 1
        yield (
            min(_since(stages, first, stage) for stage in stages[first:until]),
            panels[first:until],
        )
        first = until


def _since(
    stages: list[tuple[StorePanels, int]], first: int, stage: tuple[StorePanels, int]
) -> int:
    """The number of copies that are issued after the last copy from `stage` and before panel number
    `first`. That last copy may belong to the previous store."""
    before = [i for i in range(first) if stages[i] == stage]
    if before:
        return first - before[-1] - 1
    last = max(i for i, other in enumerate(stages) if other == stage)
    return len(stages) - 1 - last + first


def _flat(value: Operand, makers: Mapping[Value, Op], ops: list[Op]) -> Operand:
    """A tile reshaped to rows."""
    shape = as_rows(shape_of(value.type))
    if shape == shape_of(value.type):
        return value
    rows = _rows_of(value, shape, makers, ops)
    if rows is not None:
        return rows
    reshape = Reshape(value, Tile(element_of(value.type), shape))  # type: ignore[arg-type]
    ops.append(reshape)
    return reshape.result


def _rows_of(
    value: Operand, shape: tuple[int, ...], makers: Mapping[Value, Op], ops: list[Op]
) -> Operand | None:
    """The rows that were reshaped to `value`, if it is made of them by a reshape and by conversions
    of elements, which are computed on the rows. Without the two reshapes, the rows keep the layout
    of the accumulator."""
    maker = makers.get(value) if isinstance(value, Value) else None
    if isinstance(maker, Reshape):
        return maker.value if shape_of(maker.value.type) == shape else None
    if maker is None or not maker.elementwise or maker.effects is not Effects.PURE:
        return None
    if len(maker.operands) != 1 or len(maker.results) != 1:
        return None
    rows = _rows_of(maker.inputs[0], shape, makers, ops)
    if rows is None:
        return None
    kinds = maker.map_fields(
        lambda _: rows, lambda kind: Tile(cast(Element, element_of(kind)), shape)
    )
    converted = maker.with_fields(**kinds, results=(), comments=())
    ops.append(converted)
    return converted.results[0]
