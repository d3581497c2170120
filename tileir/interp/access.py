"""Loads and stores of the interpreter's machine.

A lane takes part where neither its mask nor its predicate is false. Its address, and the mask
itself, must be defined. Stored values must be defined unless `allow_undef` is set; memory then
records which bytes are undefined."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import attrs
import numpy as np
from numpy.typing import NDArray

from tileir.effects import Effects
from tileir.interp.clocks import InstanceClock, SyncMemory
from tileir.interp.failures import fail
from tileir.interp.memory import RAW, AccessError, Hit, Indices, Lanes, Memory
from tileir.interp.races import RaceDetector, Touch
from tileir.interp.report import AccessCounts
from tileir.machine import Tensor, dtype_of
from tileir.machine.trap import Faults
from tileir.op import Op
from tileir.types import I1, Element, Type, element_of

Raw = NDArray[Any]
Shape: TypeAlias = "tuple[int, ...]"

RELEASES = ("release", "acq_rel")
ACQUIRES = ("acquire", "acq_rel")


_OF_A_BLOCK = {Touch.ATOMIC_READ: Touch.READ, Touch.ATOMIC_WRITE: Touch.WRITE}
"""Atomic accesses of block scope are not atomic with respect to other instances (PTX ISA, "Memory
Consistency Model: Morally Strong Operations")."""


@attrs.frozen(eq=False)
class TilePart:
    """Some lanes of a tile of `shape`, by their flat numbers."""

    lanes: Indices
    shape: Shape


class AccessMixin(Faults):
    """`load` and `store`; mixed into a machine of numbers."""

    memory: Memory
    races: RaceDetector
    sync: SyncMemory
    clock_of_instance: InstanceClock | None
    accesses: AccessCounts
    allow_undef: bool
    instance: int
    version: int
    """Changes whenever memory does, in kernels that synchronise."""

    # Plain accesses ------------------------------------------------------------------------

    def load(self, pointer: Tensor, mask: Tensor | None, other: Tensor | None, op: Op) -> Tensor:
        """Load the elements that `pointer` points to in the active lanes; lanes whose mask is false
        have `other`, all others are undefined."""
        element = accessed_element(op.results[0].type)
        lanes = self._lanes(pointer, mask, op)
        volatile = getattr(op, "volatile", False)
        touch = Touch.ATOMIC_READ if volatile else Touch.READ
        raw, undef = self._gather(pointer.data, lanes, element.bytes, op, touch)
        self.accesses.loads += 1
        if volatile:
            self._synchronise(pointer, lanes, op, reads=True)
        data = raw != 0 if element is I1 else raw.view(dtype_of(element))
        if lanes is None:
            return Tensor(data, undef)
        return self._fill(data, undef, lanes, mask, other)

    def _fill(
        self,
        data: Raw,
        undef: Lanes | None,
        lanes: Lanes,
        mask: Tensor | None,
        other: Tensor | None,
    ) -> Tensor:
        """The result of a masked load: its lanes, and `other` or undefined values in the rest."""
        if other is None or mask is None:
            return Tensor(data, ~lanes if undef is None else undef | ~lanes)
        out = np.where(lanes, data, other.data)
        if undef is other.undef is self.active is None:
            return Tensor(out)
        unknown = ~lanes if undef is None else undef | ~lanes
        unknown &= mask.data
        if other.undef is not None:
            unknown |= other.undef & ~mask.data
        if self.active is not None:
            unknown |= ~self.active
        return Tensor(out, unknown if unknown.any() else None)

    def store(self, pointer: Tensor, value: Tensor, mask: Tensor | None, op: Op) -> None:
        """Write `value` in the lanes that take part."""
        lanes = self._lanes(pointer, mask, op)
        self._defined_value(value, lanes, op)
        size = value.data.dtype.itemsize
        volatile = getattr(op, "volatile", False)
        touch = Touch.ATOMIC_WRITE if volatile else Touch.WRITE
        self._scatter(pointer.data, value, lanes, size, op, touch)
        self.accesses.stores += 1
        if volatile:
            self._synchronise(pointer, lanes, op, reads=False)

    def _synchronise(
        self,
        pointer: Tensor,
        lanes: Lanes | None,
        op: Any,
        *,
        reads: bool,
        wrote: Lanes | None = None,
    ) -> None:
        """Update the vector clocks for the addresses that `lanes` of `op` read, and for those it
        `wrote` (None: all of `lanes`, if the op writes)."""
        clock = self._ordering_clock()
        if clock is None:
            return
        relaxed = not hasattr(op, "sem") or op.scope.value == "cta"
        sem = "relaxed" if relaxed else op.sem.value
        if reads:
            clock_in = pointer.data if lanes is None else pointer.data[lanes]
            self.sync.read(clock, clock_in.reshape(-1).tolist(), sem in ACQUIRES)
        if Effects.WRITE in op.effects:
            chosen = lanes if wrote is None else wrote
            out = pointer.data if chosen is None else pointer.data[chosen]
            if out.size:
                self.sync.write(clock, out.reshape(-1).tolist(), sem in RELEASES, reads)

    def _ordering_clock(self) -> InstanceClock | None:
        """The clock of the running instance, after a check of its logged accesses."""
        if self.clock_of_instance is not None:
            self.races.check(self.clock_of_instance.now)
        return self.clock_of_instance

    # Lanes and memory ----------------------------------------------------------------------

    def _lanes(self, pointer: Tensor, mask: Tensor | None, op: Op) -> Lanes | None:
        """The lanes that take part; None for all. Mask and addresses must be defined there."""
        lanes = self.active
        if mask is not None:
            if mask.undef is not None:
                self._refuse_undef(mask.undef, lanes, op, "TIR0504", "the mask is undefined")
            lanes = mask.data if lanes is None else lanes & mask.data
        if lanes is not None and np.count_nonzero(lanes) == lanes.size:
            lanes = None
        if pointer.undef is not None:
            self._refuse_undef(pointer.undef, lanes, op, "TIR0503", "the address is undefined")
        return lanes

    def _defined_value(self, value: Tensor, lanes: Lanes | None, op: Op) -> None:
        if value.undef is None or (self.allow_undef and op.mnemonic == "store"):
            return
        self._refuse_undef(value.undef, lanes, op, "TIR0505", "the value is undefined")

    def _refuse_undef(
        self, undef: Lanes, lanes: Lanes | None, op: Op, code: str, message: str
    ) -> None:
        wrong = undef if lanes is None else undef & lanes
        if wrong.any():
            raise fail(code, op, message, self, lane=int(wrong.argmax()), shape=wrong.shape)

    def _gather(
        self, addresses: Any, lanes: Lanes | None, size: int, op: Op, touch: Touch,
        part: TilePart | None = None,
    ) -> tuple[Raw, Lanes | None]:  # fmt: skip
        """Raw elements at `addresses` (zero in other lanes), and which were never written."""
        shape, picked = addresses.shape, selection(lanes)
        chosen = addresses[picked]
        if not chosen.size:
            return np.zeros(shape, RAW[size]), None
        hits = self._locate(chosen, size, op, lanes, part or shape, write=False)
        self.accesses.bytes_read += chosen.size * size
        self._log(hits, size, op, touch)
        if len(hits) == 1 and hits[0].region.undef is None:
            hit = hits[0]
            result = hit.region.view(size)[0].take(hit.index.reshape(chosen.shape))
            return (result, None) if lanes is None else (_spread(result, picked, shape), None)
        result, undef = _gather_hits(hits, chosen.size, size)
        result, undef = result.reshape(chosen.shape), undef.reshape(chosen.shape)
        if lanes is not None:
            result, undef = _spread(result, picked, shape), _spread(undef, picked, shape)
        return result, undef if undef.any() else None

    def _scatter(
        self, addresses: Any, value: Tensor, lanes: Lanes | None, size: int, op: Op, touch: Touch,
        part: TilePart | None = None,
    ) -> None:  # fmt: skip
        shape = addresses.shape
        picked = selection(lanes)
        addresses, raw = addresses[picked], value.data.view(RAW[size])[picked]
        undef = None if value.undef is None else value.undef[picked]
        if not addresses.size:
            return
        hits = self._locate(addresses, size, op, lanes, part or shape, write=True)
        self.accesses.bytes_written += addresses.size * size
        self._log(hits, size, op, touch)
        raw = raw.reshape(-1)
        for hit in hits:
            clash = self._write_hit(hit, raw, undef, size)
            if clash is not None:
                lane = clash if lanes is None else int(np.flatnonzero(lanes)[clash])
                message = "two lanes write different values to one address"
                raise fail("TIR0509", op, message, self, lane=lane, shape=shape)

    def _write_hit(self, hit: Hit, raw: Raw, undef: Lanes | None, size: int) -> int | None:
        """Write one region. Returns the first lane whose value another lane overwrote."""
        view, _ = hit.region.view(size)
        index = hit.index.reshape(-1)
        part = raw if hit.lanes is None else raw[hit.lanes]
        if self.clock_of_instance is not None and not np.array_equal(view.take(index), part):
            self.version += 1
        view[index] = part
        if undef is not None or hit.region.undef is not None:
            self._mark_undef(hit, index, undef, size)
        clash = view.take(index) != part
        if not np.count_nonzero(clash):
            return None
        return int(clash.argmax() if hit.lanes is None else hit.lanes[clash.argmax()])

    def _mark_undef(self, hit: Hit, index: Any, undef: Lanes | None, size: int) -> None:
        flags = hit.region.flags(hit.region.spoil(), size)
        if undef is None:
            flags[index] = 0
            return
        part = undef.reshape(-1) if hit.lanes is None else undef.reshape(-1)[hit.lanes]
        flags[index] = np.where(part, ~flags.dtype.type(0), flags.dtype.type(0))

    def _locate(
        self, chosen: Any, size: int, op: Op, lanes: Lanes | None, of: TilePart | Shape,
        *, write: bool,
    ) -> list[Hit]:  # fmt: skip
        try:
            return self.memory.locate(chosen, size, write=write)
        except AccessError as fault:
            lane = fault.lane if lanes is None else int(np.flatnonzero(lanes)[fault.lane])
            if isinstance(of, TilePart):
                lane, of = int(of.lanes[lane]), of.shape
            raise fail(fault.code, op, fault.message, self, lane=lane, shape=of) from None

    def _log(self, hits: list[Hit], size: int, op: Op, touch: Touch) -> None:
        races, clock = self.races, self.clock_of_instance
        if touch in _OF_A_BLOCK and getattr(getattr(op, "scope", None), "value", "") == "cta":
            touch = _OF_A_BLOCK[touch]
        entry = races.entry(op, self.instance, clock.epoch if clock else 0)
        due = False
        for hit in hits:
            due |= races.log(hit.region, hit.index, size, entry, touch)
        if due:
            races.check(clock.now if clock else None)


def accessed_element(type: Type) -> Element:
    """The element type of a loaded or stored value."""
    return cast(Element, element_of(type))


def selection(lanes: Lanes | None) -> Any:
    """An index that selects `lanes` of an array; a slice if they are the first lanes of a row."""
    if lanes is None:
        return ...
    if lanes.ndim == 1:
        count = int(np.count_nonzero(lanes))
        if np.count_nonzero(lanes[:count]) == count:
            return slice(count)
    return lanes


def _spread(raw: Raw, picked: Any, shape: tuple[int, ...]) -> Raw:
    """`raw`, the values of the `picked` lanes, at their places; zero elsewhere."""
    out = np.zeros(shape, raw.dtype)
    out[picked] = raw
    return out


def _gather_hits(hits: list[Hit], count: int, size: int) -> tuple[Raw, Lanes]:
    result, undef = np.zeros(count, RAW[size]), np.zeros(count, np.bool_)
    for hit in hits:
        index = hit.index.reshape(-1)
        lanes = slice(None) if hit.lanes is None else hit.lanes
        result[lanes] = hit.region.view(size)[0].take(index)
        if hit.region.undef is not None:
            undef[lanes] = hit.region.flags(hit.region.undef, size)[index] != 0
    return result, undef
