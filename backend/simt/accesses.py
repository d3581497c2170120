"""Accesses of memory by the machine of threads: global, atomic, shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tileir.backend.lower.thread import Access, Order
from tileir.types import I1, Element

Array: TypeAlias = np.ndarray[Any, Any]


class Accesses:
    """Loads, stores, atomics and fences; mixed into the machine of threads. A handle has its
    numbers, one per thread, as `array`."""

    threads: int
    active: Array
    memory: Any
    made: Any
    dtype: Any
    combined: Any
    handle: Any

    def _held(self, mask: Any) -> Array:
        return self.active if mask is None or isinstance(mask, str) else self.active & mask.array

    def load_global(
        self, element: Element, count: int, pointer: Any, mask: Any, other: Any,
        access: Access, space: int = 1,
    ) -> list[Any]:  # fmt: skip
        held, size, found = self._held(mask), element.bytes, list[Any]()
        self._in_order(access, held)
        self.memory.check_aligned(pointer.array, size * count, held)
        for i in range(count):
            at, kind = pointer.array + i * size, self.dtype(element)
            raw = self.memory.load(at, kind, held)
            rest = np.zeros(1, raw.dtype) if other is None else other[i].array
            found.append(self.made(np.where(held, raw, rest), element))
        return found

    def store_global(
        self, element: Element, pointer: Any, values: Sequence[Any], mask: Any,
        access: Access, space: int = 1,
    ) -> None:  # fmt: skip
        held, size = self._held(mask), element.bytes
        self._in_order(access, held)
        self.memory.check_aligned(pointer.array, size * len(values), held)
        for i, value in enumerate(values):
            at = pointer.array + i * size
            self.memory.store(at, value.array, held)

    def atomic(self, name: str, element: Element, pointer: Any, value: Any, order: Order) -> Any:
        self._ordered(order)
        old = np.zeros(self.threads, self.dtype(element))
        for t in np.flatnonzero(self.active).tolist():
            old[t] = self._one(pointer, t, old.dtype)
            new = self.combined(name, element, old[t : t + 1], value.array[t : t + 1])
            self._set(pointer, t, new)
        return self.handle(old)

    def add_vector(
        self, element: Element, pointer: Any, values: Sequence[Any], order: Order
    ) -> list[Any]:
        self.memory.check_aligned(pointer.array, element.bytes * len(values), self.active)
        places = [self.handle(pointer.array + i * element.bytes) for i in range(len(values))]
        return [
            self.atomic("fadd", element, place, value, order)
            for place, value in zip(places, values, strict=True)
        ]

    def compare_exchange(
        self, element: Element, pointer: Any, expected: Any, desired: Any, order: Order
    ) -> Any:
        self._ordered(order)
        old = np.zeros(self.threads, self.dtype(element))
        for t in np.flatnonzero(self.active).tolist():
            old[t] = self._one(pointer, t, old.dtype)
            if old[t].tobytes() == expected.array[t].tobytes():
                self._set(pointer, t, desired.array[t : t + 1])
        return self.handle(old)

    def load_atomic(self, element: Element, pointer: Any, order: Order) -> Any:
        self.memory.order_others(order.semantics)
        kind = self.dtype(element)
        return self.handle(self.memory.load(pointer.array, kind, self.active, atomic=True))

    def store_atomic(self, element: Element, pointer: Any, value: Any, order: Order) -> None:
        self._ordered(order)
        self.memory.store(pointer.array, value.array, self.active, atomic=True)

    def fence(self, order: Order) -> None:
        self.memory.order_others(order.semantics)
        self.memory.fence()

    def fence_accesses(self, order: Order) -> None:
        """Nothing: accesses here order memory as their op says."""

    def _ordered(self, order: Order) -> None:
        """An atomic access comes after what others did, where it is to."""
        self.memory.check_released(order.semantics, self.active)
        self.memory.order_others(order.semantics)

    def _in_order(self, access: Access, held: Array) -> None:
        """A volatile access comes after all others before it."""
        if access.volatile:
            self.memory.check_released("acq_rel", held)
            self.memory.order_others("acq_rel")

    def _one(self, pointer: Any, thread: int, kind: Any) -> Any:
        """What `thread` finds, atomically."""
        held = np.arange(self.threads) == thread
        return self.memory.load(pointer.array, kind, held, atomic=True)[thread]

    def _set(self, pointer: Any, thread: int, value: Array) -> None:
        """`thread` writes the number in `value`, atomically."""
        held = np.arange(self.threads) == thread
        values = np.broadcast_to(value, (self.threads,))
        self.memory.store(pointer.array, values, held, atomic=True)

    def load_shared(self, element: Element, count: int, offset: Any) -> list[Any]:
        size = element.bytes
        self.memory.check_aligned(offset.array, size * count, self.active)
        at = [offset.array.astype(np.int64) + i * size for i in range(count)]
        kind = self.dtype(element)
        return [
            self.made(self.memory.load_shared(a, kind, self.active, element is I1), element)
            for a in at
        ]

    def store_shared(self, element: Element, offset: Any, values: Sequence[Any]) -> None:
        size = element.bytes
        self.memory.check_aligned(offset.array, size * len(values), self.active)
        for i, value in enumerate(values):
            at = offset.array.astype(np.int64) + i * size
            self.memory.store_shared(at, value.array, self.active)

    def add_shared(self, offset: Any, value: Any) -> None:
        self.memory.add_shared(offset.array.astype(np.int64), value.array, self.active)
