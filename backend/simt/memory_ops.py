"""Memory accesses of the SIMT simulator: global, atomic, shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tileir.backend.codegen.thread_operands import AccessAttributes, AtomicOrder
from tileir.types import Element

Array: TypeAlias = np.ndarray[Any, Any]

_VOLATILE = AtomicOrder("relaxed", "sys")
"""The memory order of a volatile access with respect to other instances."""


class MemoryOps:
    """Loads, stores, atomics and fences; mixed into the SIMT simulator. A handle has its numbers,
    one per thread, as `array`."""

    threads: int
    active: Array
    memory: Any
    as_handle: Any
    dtype: Any
    atomic_result: Any
    handle: Any
    has_diverged = False
    """Whether lanes may have left a loop in different iterations since `reconverge`."""

    def _active_under(self, mask: Any) -> Array:
        return self.active if mask is None or isinstance(mask, str) else self.active & mask.array

    def load_global(
        self, element: Element, count: int, pointer: Any, mask: Any, other: Any,
        access: AccessAttributes, space: int = 1,
    ) -> list[Any]:  # fmt: skip
        active, size, values = self._active_under(mask), element.bytes, list[Any]()
        self._in_order(access, active)
        self.memory.check_aligned(pointer.array, size * count, active)
        for i in range(count):
            at, kind = pointer.array + i * size, self.dtype(element)
            raw = self.memory.load(at, kind, active, volatile=access.volatile)
            default = np.zeros(1, raw.dtype) if other is None else other[i].array
            values.append(self.as_handle(np.where(active, raw, default), element))
            if access.volatile:
                self.memory.synchronise_instances(_VOLATILE, at[active], at[:0])
        return values

    def store_global(
        self, element: Element, pointer: Any, values: Sequence[Any], mask: Any,
        access: AccessAttributes, space: int = 1,
    ) -> None:  # fmt: skip
        active, size = self._active_under(mask), element.bytes
        self._in_order(access, active)
        self.memory.check_aligned(pointer.array, size * len(values), active)
        for i, value in enumerate(values):
            at = pointer.array + i * size
            self.memory.store(at, value.array, active, volatile=access.volatile)
            if access.volatile:
                self.memory.synchronise_instances(_VOLATILE, at[:0], at[active])

    def atomic(
        self, name: str, element: Element, pointer: Any, value: Any, order: AtomicOrder
    ) -> Any:
        self._order_access(order)
        old = np.zeros(self.threads, self.dtype(element))
        for t in np.flatnonzero(self.active).tolist():
            old[t] = self._one(pointer, t, old.dtype, order)
            new = self.atomic_result(name, element, old[t : t + 1], value.array[t : t + 1])
            self._set(pointer, t, new, order)
        at = pointer.array[self.active]
        self.memory.synchronise_instances(order, at, at)
        self.memory.acquire(order.semantics, self.active)
        self.has_diverged = True  # whether a loop of compare-and-swap replaces an op or not
        return self.handle(old)

    def reconverge(self) -> None:
        self.has_diverged = False

    def add_vector(
        self, element: Element, pointer: Any, values: Sequence[Any], order: AtomicOrder
    ) -> list[Any]:
        self.memory.check_aligned(pointer.array, element.bytes * len(values), self.active)
        places = [self.handle(pointer.array + i * element.bytes) for i in range(len(values))]
        return [
            self.atomic("fadd", element, place, value, order)
            for place, value in zip(places, values, strict=True)
        ]

    def compare_exchange(
        self, element: Element, pointer: Any, expected: Any, desired: Any, order: AtomicOrder
    ) -> Any:
        self._order_access(order)
        old = np.zeros(self.threads, self.dtype(element))
        changed = np.zeros(self.threads, bool)
        for t in np.flatnonzero(self.active).tolist():
            old[t] = self._one(pointer, t, old.dtype, order)
            if old[t].tobytes() == expected.array[t].tobytes():
                self._set(pointer, t, desired.array[t : t + 1], order)
                changed[t] = True
        at = pointer.array
        self.memory.synchronise_instances(order, at[self.active & ~changed], at[:0])
        self.memory.synchronise_instances(order, at[changed], at[changed])
        self.memory.acquire(order.semantics, self.active)
        return self.handle(old)

    def load_atomic(self, element: Element, pointer: Any, order: AtomicOrder) -> Any:
        self.memory.order_others(order.semantics)
        kind, at = self.dtype(element), pointer.array
        values = self.memory.load(at, kind, self.active, atomic=True, scope=order.scope)
        self.memory.synchronise_instances(order, at[self.active], at[:0])
        self.memory.acquire(order.semantics, self.active)
        return self.handle(values)

    def store_atomic(self, element: Element, pointer: Any, value: Any, order: AtomicOrder) -> None:
        self._order_access(order)
        at = pointer.array
        self.memory.store(at, value.array, self.active, atomic=True, scope=order.scope)
        self.memory.synchronise_instances(order, at[:0], at[self.active])

    def fence(self, order: AtomicOrder) -> None:
        self.memory.order_others(order.semantics)
        self.memory.fence()
        self.memory.fence_instances(order)

    def fence_accesses(self, order: AtomicOrder) -> None:
        """Do nothing: accesses of the simulator have the memory order of their op."""

    def _order_access(self, order: AtomicOrder) -> None:
        """Record the order that an atomic access establishes between instances."""
        self.memory.check_released(order.semantics, self.active)
        self.memory.order_others(order.semantics)

    def _in_order(self, access: AccessAttributes, active: Array) -> None:
        """Record that a volatile access comes after all earlier ones."""
        if access.volatile:
            self.memory.check_released("acq_rel", active)
            self.memory.order_others("acq_rel")

    def _one(self, pointer: Any, thread: int, kind: Any, order: AtomicOrder) -> Any:
        """The value that `thread` reads at its address, atomically."""
        active = np.arange(self.threads) == thread
        value = self.memory.load(
            pointer.array, kind, active, atomic=True, scope=order.scope, to_change=True
        )
        return value[thread]

    def _set(self, pointer: Any, thread: int, value: Array, order: AtomicOrder) -> None:
        """Write the number in `value` by `thread`, atomically."""
        active = np.arange(self.threads) == thread
        values = np.broadcast_to(value, (self.threads,))
        self.memory.store(pointer.array, values, active, atomic=True, scope=order.scope)

    def load_shared(self, element: Element, count: int, offset: Any) -> list[Any]:
        size = element.bytes
        self.memory.check_aligned(offset.array, size * count, self.active)
        at, whole = offset.array.astype(np.int64), np.dtype(f"V{size * count}")
        read = self.memory.load_shared(at, whole, self.active)
        parts = read.view(self.dtype(element)).reshape(-1, count)
        return [self.as_handle(part, element) for part in np.ascontiguousarray(parts.T)]

    def store_shared(self, element: Element, offset: Any, values: Sequence[Any]) -> None:
        size = element.bytes
        self.memory.check_aligned(offset.array, size * len(values), self.active)
        parts = np.stack([value.array for value in values], axis=-1)
        whole = np.ascontiguousarray(parts).view(f"V{size * len(values)}")[:, 0]
        self.memory.store_shared(offset.array.astype(np.int64), whole, self.active)

    def add_shared(self, offset: Any, value: Any) -> None:
        self.memory.add_shared(offset.array.astype(np.int64), value.array, self.active)
