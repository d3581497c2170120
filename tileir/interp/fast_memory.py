"""Quick steps of loads and stores with constant strides in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from tileir.interp.access import accessed_element, selection
from tileir.interp.closures import Frame, Step
from tileir.interp.machine_request import Request
from tileir.interp.races import Touch
from tileir.interp.strided_access import StridedPlace
from tileir.machine import Tensor, dtype_of
from tileir.types import I1

_TRIES = 4
"""Accesses in a row that are not strided, after which an op is no longer tried."""


@attrs.define(eq=False)
class _Lanes:
    """The lanes of the mask last seen: masks seldom change from one instance to the next."""

    mask: Any = None
    picked: Any = None
    """The index that selects these lanes from a tile; None for all."""
    count: int = 0

    def see(self, mask: Tensor) -> None:
        if mask is self.mask:
            return
        data = mask.data
        self.mask, self.count = mask, int(np.count_nonzero(data))
        self.picked = None if self.count == data.size else selection(data)


@attrs.define(eq=False)
class _FastAccess:
    """One load or store, with the patterns of its last executions."""

    op: Any
    machine: Any
    size: int
    touch: Touch
    lanes: _Lanes = attrs.field(factory=_Lanes)
    failures: int = 0

    def place(self, pointer: Tensor, mask: Tensor | None) -> StridedPlace | None:
        """The place of the access, recorded in the race detector; None if the slow path is
        required."""
        machine = self.machine
        if pointer.undef is not None or machine.clock_of_instance is not None:
            return None
        addresses = pointer.data
        if mask is not None:
            if mask.undef is not None:
                return None
            self.lanes.see(mask)
            if self.lanes.picked is not None:
                addresses = addresses[self.lanes.picked]
        if not addresses.size:
            return None
        place = machine.strides.find(addresses, self.size, write=self.touch is Touch.WRITE)
        if place is None:
            self.failures += 1
            return None
        self.failures = 0
        self._log(place)
        return place

    def _log(self, place: StridedPlace) -> None:
        races = self.machine.races
        entry = races.entry(self.op, self.machine.instance)
        if races.log(place.region, place.log(), self.size, entry, self.touch):
            races.check(None)


def quick_load(
    op: Any, request: Request, machine: Any, slots: Sequence[int], results: Sequence[int]
) -> Step | None:
    """A step for a load that is not volatile."""
    element = accessed_element(op.results[0].type)
    if op.volatile or not hasattr(machine, "strides"):
        return None
    (a, m, o), (result,), dtype, evaluate = slots, results, dtype_of(element), op.evaluate
    access, accesses = _FastAccess(op, machine, element.bytes, Touch.READ), machine.accesses
    lanes, size = access.lanes, element.bytes

    def step(frame: Frame) -> None:
        pointer, mask, other = frame[a], frame[m], frame[o]
        plain = access.failures < _TRIES and (other is None or other.undef is None)
        place = access.place(pointer, mask) if plain else None
        if place is None:
            frame[result] = evaluate(machine, pointer, mask, other)
            return
        bytes_ = place.view()
        data = bytes_ != 0 if element is I1 else bytes_.copy().view(dtype)
        accesses.loads += 1
        accesses.bytes_read += bytes_.size * size
        if mask is None or lanes.picked is None:
            frame[result] = Tensor(data)
        else:
            frame[result] = _fill_masked(data, lanes.picked, mask, other)

    return step


def _fill_masked(data: Any, picked: Any, mask: Tensor, other: Tensor | None) -> Tensor:
    if other is not None:
        out = np.array(other.data)
        out[picked] = data
        return Tensor(out)
    out = np.zeros(mask.data.shape, data.dtype)
    out[picked] = data
    return Tensor(out, ~mask.data)


def quick_store(
    op: Any, request: Request, machine: Any, slots: Sequence[int], results: Sequence[int]
) -> Step | None:
    """A step for a store that is not volatile."""
    if op.volatile or not hasattr(machine, "strides"):
        return None
    (p, v, m), evaluate = slots, op.evaluate
    size = accessed_element(op.value.type).bytes
    access, accesses = _FastAccess(op, machine, size, Touch.WRITE), machine.accesses
    lanes = access.lanes

    def step(frame: Frame) -> None:
        pointer, value, mask = frame[p], frame[v], frame[m]
        plain = access.failures < _TRIES and value.undef is None
        place = access.place(pointer, mask) if plain else None
        if place is None:
            evaluate(machine, pointer, value, mask)
            return
        target, data = place.view(), value.data.view(_raw(size))
        target[...] = data if mask is None or lanes.picked is None else data[lanes.picked]
        accesses.stores += 1
        accesses.bytes_written += target.size * size

    return step


def _raw(size: int) -> Any:
    return np.dtype(f"u{size}")
