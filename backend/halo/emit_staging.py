"""Emission of the copy of a footprint to shared memory, and of the windows that read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from operator import mul
from typing import cast

import attrs

from tileir.analysis.polynomial import Lane, Polynomial, Symbol
from tileir.backend.halo.footprint import Footprint, Window
from tileir.backend.halo.footprint_copy import FootprintPart
from tileir.backend.halo.footprint_masks import Condition, needs_select
from tileir.backend.shared_memory.bank_conflicts import BANKS, WORD, wavefronts
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter
from tileir.errors import Location
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Select
from tileir.ops.gpu import BlockBarrier, LocalGather, LocalStore, SharedAlloc
from tileir.ops.memory import Load
from tileir.ops.shape import GetElementPtr
from tileir.types import I32, I64, AddressSpace, Element, Pointer, element_of, tile
from tileir.values import Constant, Operand, Undef, Value, constant

_LANES = 32


@attrs.define
class HaloStaging:
    """The ops that copy a footprint into a shared buffer whose rows have `padded_width` columns.
    With `is_repeated` the copy may run more than once: a barrier before it then waits for all
    reads of the earlier copy."""

    function: Function
    footprint: Footprint
    base: Operand
    conditions: Sequence[Condition]
    padded_width: int
    is_repeated: bool
    ops: list[Op] = attrs.field(factory=list)
    allocation: SharedAlloc = attrs.field(init=False)
    """The buffer that the copy fills. It is not in `ops`, since it belongs before all loops."""

    def __attrs_post_init__(self) -> None:
        element = cast(Element, element_of(self.sample.results[0].type))
        type_, shape = (
            Pointer(element, AddressSpace.SHARED),
            (1, self.footprint.height, self.padded_width),
        )
        self.allocation = SharedAlloc(type_, shape=shape, location=self.location)

    @property
    def buffer(self) -> Value:
        return self.allocation.results[0]

    @property
    def sample(self) -> Load:
        """A load whose cache options the copy uses."""
        return self.footprint.windows[0].read.op

    @property
    def location(self) -> Location | None:
        return self.sample.location

    def emit(self) -> list[Op]:
        """The ops of the copy, with the barriers around it."""
        emitter = PolynomialEmitter(self.function, I64, self.ops)
        start = self._append(GetElementPtr(self.base, emitter.emit(self.footprint.origin)))
        parts = [
            FootprintPart(emitter, self.footprint, start, *at)
            for at in parts_of(self.footprint.width)
        ]
        chunks = [(part.first, self._load(part)) for part in parts]
        if self.is_repeated:
            self.ops.append(BlockBarrier(location=self.location))
        for first, value in chunks:
            self.ops.append(self._store(first, value))
        self.ops.append(BlockBarrier(location=self.location))
        return self.ops

    def _load(self, part: FootprintPart) -> Value:
        pointer, mask, fill = part.pointer(), part.mask(self.conditions), self.fill()
        other = None if fill is None or mask is None else constant_like(fill, part.shape)
        load = Load(
            pointer,
            mask,
            other,
            cache=self.sample.cache,
            eviction=self.sample.eviction,
            location=self.location,
        )
        return self._append(load)

    def _store(self, first: int, value: Value) -> Op:
        return LocalStore(
            value, self.buffer, constant(I32, 0), offsets=(0, first), location=self.location
        )

    def _append(self, op: Op) -> Value:
        self.ops.append(op)
        return op.results[0]

    def fill(self) -> Constant | None:
        """The literal of lanes that the mask excludes, if a window has one."""
        fill_values = [w.read.op.other for w in self.footprint.windows]
        return next((x for x in fill_values if isinstance(x, Constant)), None)


def parts_of(width: int) -> Iterator[tuple[int, int]]:
    """First columns and widths of the parts of a row of `width` elements, so that few lanes of a
    warp are idle: a power of two or a multiple of 32 columns, and the rest of the halo."""
    covered = width // _LANES * _LANES or 1 << (width.bit_length() - 1)
    padded = -(-width // _LANES) * _LANES if width > _LANES else 1 << (width - 1).bit_length()
    if 4 * (padded - width) <= width:
        covered = width
    yield 0, covered
    if covered < width:
        yield covered, width - covered


def padded_width(footprint: Footprint, element: Element) -> int:
    """The columns of a row of the buffer, padded so that the reads of a warp have the fewest bank
    conflicts."""
    first, size = footprint.windows[0], element.bytes
    lanes = list(islice(product(*map(range, first.read.shape)), _LANES))
    steps = [[first.lane(d)[axis] for d in range(len(first.read.shape))] for axis in (0, 1)]
    positions = [[sum(map(mul, place, step)) for step in steps] for place in lanes]

    def cost(width: int) -> int:
        pitch = SharedTile(element, (footprint.height, width), 1, 0).pitch
        return wavefronts([row * pitch + column * size for row, column in positions], size)

    widths = range(footprint.width, footprint.width + BANKS * WORD // size)
    return min(widths, key=cost)


def constant_like(literal: Constant, shape: tuple[int, ...]) -> Constant:
    """`literal` as a tile of `shape`."""
    return Constant(tile(cast(Element, element_of(literal.type)), shape), literal.bits)


def window_ops(
    function: Function, window: Window, buffer: Value, conditions: Sequence[Condition],
    fill: Constant | None,
) -> list[Op]:  # fmt: skip
    """The ops that replace the load of a window and define its result."""
    op, ops = window.read.op, list[Op]()
    row, column = (_start(function, window, axis, ops) for axis in (0, 1))
    rank = len(window.read.shape)
    rows, columns = (tuple(window.lane(dim)[axis] for dim in range(rank)) for axis in (0, 1))
    read: Op = LocalGather(
        buffer, constant(I32, 0), row, column, op.results[0].type, rows=rows, columns=columns,
        location=op.location,
    )  # fmt: skip
    fill_matches = (
        isinstance(op.other, Constant) and fill is not None and op.other.bits == fill.bits
    )
    if (
        op.other is None
        or isinstance(op.other, Undef)
        or (fill_matches and not needs_select(conditions))
    ):
        return [*ops, attrs.evolve(read, results=op.results)]
    assert op.mask is not None
    select = Select(op.mask, read.results[0], op.other, location=op.location)
    return [*ops, read, attrs.evolve(select, results=op.results)]


def _start(function: Function, window: Window, axis: int, ops: list[Op]) -> Operand:
    """The row (column, if `axis` is 1) of element 0 of the window in this iteration, as an i32."""
    moving: dict[tuple[Symbol, ...], int] = {
        (symbol,): step[axis]
        for symbol, step in window.steps.items()
        if step[axis] and not isinstance(symbol, Lane)
    }
    first = {(): window.first[axis]} if window.first[axis] else {}
    return PolynomialEmitter(function, I32, ops).emit(Polynomial({**moving, **first}))
