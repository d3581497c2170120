"""Atomics of the interpreter's machine. One op is one access per lane; lanes with the same address
access it one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.interp.access import ACQUIRES, RELEASES, AccessMixin, TilePart, accessed_element
from tileir.interp.atomic_update import UPDATES, pick, unique_address_batches
from tileir.interp.failures import fail
from tileir.interp.memory import RAW
from tileir.interp.races import Touch
from tileir.machine import Tensor, dtype_of


class AtomicMixin(AccessMixin):
    """The atomics and fences; mixed into a machine of numbers."""

    def atomic_load(self, pointer: Tensor, mask: Tensor | None, op: Any) -> Tensor:
        """Load with the memory order `op.sem`."""
        element = accessed_element(op.results[0].type)
        lanes = self._lanes(pointer, mask, op)
        raw, undef = self._gather(pointer.data, lanes, element.bytes, op, Touch.ATOMIC_READ)
        self.accesses.atomics += 1
        self._synchronise(pointer, lanes, op, reads=True)
        data = raw.view(dtype_of(element))
        return Tensor(data, undef) if lanes is None else self._fill(data, undef, lanes, mask, None)

    def atomic_store(self, pointer: Tensor, value: Tensor, mask: Tensor | None, op: Any) -> None:
        """Store with the memory order `op.sem`."""
        lanes = self._lanes(pointer, mask, op)
        self._defined_value(value, lanes, op)
        size = value.data.dtype.itemsize
        self._scatter(pointer.data, value, lanes, size, op, Touch.ATOMIC_WRITE)
        self.accesses.atomics += 1
        self._synchronise(pointer, lanes, op, reads=False)

    def atomic_rmw(self, pointer: Tensor, value: Tensor, mask: Tensor | None, op: Any) -> Tensor:
        """Combine `value` into memory lane by lane; returns the old values."""
        kind = op.op.value

        def combine(old: Tensor, lanes: Any) -> tuple[Tensor, Any]:
            return UPDATES[kind](self, old, pick(value, lanes)), slice(None)

        return self._update(pointer, value, mask, op, combine)

    def atomic_cas(
        self, pointer: Tensor, compare: Tensor, value: Tensor, mask: Tensor | None, op: Any
    ) -> Tensor:
        """Exchange where the bits in memory equal `compare`; returns the old values."""
        if compare.undef is not None:
            self._defined_value(compare, self._lanes(pointer, mask, op), op)
        raw = RAW[value.data.dtype.itemsize]

        def combine(old: Tensor, lanes: Any) -> tuple[Tensor, Any]:
            same = old.data.view(raw) == pick(compare, lanes).data.view(raw)
            return pick(value, lanes[same]), same

        return self._update(pointer, value, mask, op, combine)

    def _update(
        self, pointer: Tensor, value: Tensor, mask: Tensor | None, op: Any, combine: Any
    ) -> Tensor:
        """Read, combine and write; lanes with the same address one after the other.

        `combine(old, lanes)` gives the new values and which of the lanes write them.
        """
        lanes = self._lanes(pointer, mask, op)
        self._defined_value(value, lanes, op)
        shape, dtype = pointer.data.shape, value.data.dtype
        flat = pointer.data.reshape(-1)
        chosen = np.arange(flat.size) if lanes is None else np.flatnonzero(lanes)
        old, wrote = np.zeros(flat.size, dtype), np.zeros(flat.size, np.bool_)
        for batch in unique_address_batches(flat[chosen]):
            part = chosen[batch]
            raw, undef = self._gather(
                flat[part], None, dtype.itemsize, op, Touch.ATOMIC_READ, TilePart(part, shape)
            )
            if undef is not None:
                raise fail("TIR0505", op, "updates memory that was never written", self)
            old[part] = before = raw.view(dtype)
            after, writes = combine(Tensor(before, None), part)
            written = TilePart(part[writes], shape)
            self._scatter(
                flat[written.lanes], after, None, dtype.itemsize, op, Touch.ATOMIC_WRITE, written
            )
            wrote[part[writes]] = True
        self.accesses.atomics += 1
        self._synchronise(pointer, lanes, op, reads=True, wrote=wrote.reshape(shape))
        return Tensor(old.reshape(shape), None if lanes is None else ~lanes)

    def fence(self, op: Any) -> None:
        """Order this instance's accesses; a barrier orders none of another instance."""
        clock = self._ordering_clock()
        if clock is not None and hasattr(op, "sem") and op.scope.value != "cta":
            clock.fence(op.sem.value in ACQUIRES, op.sem.value in RELEASES)
