"""Writing the copy of a union into shared memory, and the windows that read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from operator import mul
from typing import cast

import attrs

from tileir.analysis.polynomial import Lane, Polynomial, Symbol
from tileir.backend.codegen.emit.shared_tile import SharedTile
from tileir.backend.halo.footprint import Footprint, Window
from tileir.backend.halo.footprint_copy import FootprintPart
from tileir.backend.halo.footprint_masks import Condition, needs_select
from tileir.backend.shared_memory.bank_conflicts import BANKS, WORD, wavefronts
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter
from tileir.errors import Location
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.compare import Select
from tileir.ops.gpu import Barrier, LocalGather, LocalStore, SharedAlloc
from tileir.ops.memory import Load
from tileir.ops.shape import GetElementPtr
from tileir.types import I32, I64, AddressSpace, Element, Pointer, element_of, tile
from tileir.values import Constant, Operand, Undef, Value, constant

_LANES = 32


@attrs.define
class Staging:
    """The ops that copy a union into a slot of shared memory of `room` columns. `again`: the copy
    may run more than once, so that what was read before has to be read by all."""

    function: Function
    union: Footprint
    base: Operand
    asked: Sequence[Condition]
    room: int
    again: bool
    ops: list[Op] = attrs.field(factory=list)
    allot: SharedAlloc = attrs.field(init=False)
    """The slot, which the copy fills: an op of its own, for before all loops."""

    def __attrs_post_init__(self) -> None:
        element = cast(Element, element_of(self.sample.results[0].type))
        place, slot = Pointer(element, AddressSpace.SHARED), (1, self.union.height, self.room)
        self.allot = SharedAlloc(place, shape=slot, location=self.location)

    @property
    def buffer(self) -> Value:
        return self.allot.results[0]

    @property
    def sample(self) -> Load:
        """A load that the copy takes its options from."""
        return self.union.windows[0].read.op

    @property
    def location(self) -> Location | None:
        return self.sample.location

    def write(self) -> list[Op]:
        """The copy, with the barriers around it."""
        numbers = PolynomialEmitter(self.function, I64, self.ops)
        start = self._made(GetElementPtr(self.base, numbers.write(self.union.origin)))
        parts = [
            FootprintPart(numbers, self.union, start, *at) for at in parts_of(self.union.width)
        ]
        loaded = [(part.first, self._load(part)) for part in parts]
        if self.again:
            self.ops.append(Barrier(location=self.location))
        for first, value in loaded:
            self.ops.append(self._store(first, value))
        self.ops.append(Barrier(location=self.location))
        return self.ops

    def _load(self, part: FootprintPart) -> Value:
        pointer, mask, fill = part.pointer(), part.mask(self.asked), self.fill()
        other = None if fill is None or mask is None else constant_like(fill, part.shape)
        copied = Load(
            pointer,
            mask,
            other,
            cache=self.sample.cache,
            eviction=self.sample.eviction,
            location=self.location,
        )
        return self._made(copied)

    def _store(self, first: int, value: Value) -> Op:
        return LocalStore(
            value, self.buffer, constant(I32, 0), offsets=(0, first), location=self.location
        )

    def _made(self, op: Op) -> Value:
        self.ops.append(op)
        return op.results[0]

    def fill(self) -> Constant | None:
        """What windows hold where their masks are false, as far as they say one literal."""
        others = [w.read.op.other for w in self.union.windows]
        return next((x for x in others if isinstance(x, Constant)), None)


def parts_of(width: int) -> Iterator[tuple[int, int]]:
    """First columns and widths of parts that leave few lanes of a warp without an element: what
    is a power of two, or a multiple of a warp, wide, and the halo that is left."""
    whole = width // _LANES * _LANES or 1 << (width.bit_length() - 1)
    padded = -(-width // _LANES) * _LANES if width > _LANES else 1 << (width - 1).bit_length()
    if 4 * (padded - width) <= width:
        whole = width
    yield 0, whole
    if whole < width:
        yield whole, width - whole


def room(union: Footprint, element: Element) -> int:
    """Columns of a slot in which lanes that read neighbours, row after row of their tile, meet in
    as few banks as they can."""
    first, size = union.windows[0], element.bytes
    places = list(islice(product(*map(range, first.read.shape)), _LANES))
    steps = [[first.lane(d)[axis] for d in range(len(first.read.shape))] for axis in (0, 1)]
    at = [[sum(map(mul, place, step)) for step in steps] for place in places]

    def cost(width: int) -> int:
        pitch = SharedTile(element, (union.height, width), 1, 0).pitch
        return wavefronts([row * pitch + column * size for row, column in at], size)

    widths = range(union.width, union.width + BANKS * WORD // size)
    return min(widths, key=cost)


def constant_like(found: Constant, shape: tuple[int, ...]) -> Constant:
    """The literal at another shape."""
    return Constant(tile(cast(Element, element_of(found.type)), shape), found.bits)


def window_ops(
    function: Function, window: Window, buffer: Value, asked: Sequence[Condition],
    fill: Constant | None,
) -> list[Op]:  # fmt: skip
    """The ops that take the place of a window's load and define its result."""
    op, ops = window.read.op, list[Op]()
    row, column = (_start(function, window, axis, ops) for axis in (0, 1))
    rank = len(window.read.shape)
    rows, columns = (tuple(window.lane(dim)[axis] for dim in range(rank)) for axis in (0, 1))
    read: Op = LocalGather(
        buffer, constant(I32, 0), row, column, op.results[0].type, rows=rows, columns=columns,
        location=op.location,
    )  # fmt: skip
    held = isinstance(op.other, Constant) and fill is not None and op.other.bits == fill.bits
    if op.other is None or isinstance(op.other, Undef) or (held and not needs_select(asked)):
        return [*ops, attrs.evolve(read, results=op.results)]
    assert op.mask is not None
    chosen = Select(op.mask, read.results[0], op.other, location=op.location)
    return [*ops, read, attrs.evolve(chosen, results=op.results)]


def _start(function: Function, window: Window, axis: int, ops: list[Op]) -> Operand:
    """The row, or column, at which the window begins in this round."""
    moving: dict[tuple[Symbol, ...], int] = {
        (symbol,): step[axis]
        for symbol, step in window.steps.items()
        if step[axis] and not isinstance(symbol, Lane)
    }
    first = {(): window.first[axis]} if window.first[axis] else {}
    return PolynomialEmitter(function, I32, ops).write(Polynomial({**moving, **first}))
