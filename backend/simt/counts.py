"""Counts of the memory accesses of a block's threads, per op.

    counts = Counts()
    SimtExecutor().launch(module, None, grid, arguments, counts=counts)
    counts.by_op            # op -> Tally

A global access takes one transaction per sector of 32 bytes that a warp touches, and one tag per
line of 128 bytes; the ideal number of sectors is that of the same bytes without gaps. An access to
shared memory takes wavefronts (`tileir.backend.shared_memory.bank_conflicts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.shared_memory.bank_conflicts import conflicts, wavefronts
from tileir.op import Op

Array: TypeAlias = np.ndarray[Any, Any]

SECTOR, LINE = 32, 128
"""Bytes of a transaction, and of a cache line (CUDA C++ Best Practices Guide, "Coalesced Access
to Global Memory")."""


@attrs.define
class OpCounters:
    """Counts of one op, over all warps and blocks. `instructions` by kind, per block."""

    accesses: int = 0
    sectors: int = 0
    ideal: int = 0
    lines: int = 0
    shared: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    shuffles: int = 0
    barriers: int = 0
    divergent: int = 0
    """Warps some of whose lanes skip a part that others do."""
    instructions: dict[str, int] = attrs.field(factory=dict)

    def touch_global(self, addresses: Array, size: int, active: Array) -> None:
        """Count an access of `size` bytes per active thread to global memory."""
        for where in _warps(addresses, active):
            self.accesses += 1
            sectors = np.unique(where)
            self.ideal += -(-len(sectors) * size // SECTOR)
            self.sectors += len(_units(sectors, size, SECTOR))
            self.lines += len(_units(sectors, size, LINE))

    def touch_shared(self, offsets: Array, size: int, active: Array) -> None:
        """Count an access of `size` bytes per active thread to shared memory."""
        for first in range(0, len(offsets), 32):
            lanes = range(first, min(first + 32, len(offsets)))
            at = [int(offsets[i]) if active[i] else None for i in lanes]
            if active[first : first + 32].any():
                self.shared += 1
                self.wavefronts += wavefronts(at, size)
                self.conflicts += conflicts(at, size)

    def did(self, kind: str) -> None:
        """Count one instruction of every thread."""
        self.instructions[kind] = self.instructions.get(kind, 0) + 1


@attrs.define
class Counts:
    """A tally per op, in the order in which they first ran."""

    by_op: dict[Op, OpCounters] = attrs.field(factory=dict)

    def of(self, op: Op) -> OpCounters:
        """The tally of `op`."""
        return self.by_op.setdefault(op, OpCounters())


class Counted:
    """A mixin that counts accesses and instructions; it precedes the simulator among the bases of a
    class."""

    counts: Counts
    op: Op | None
    threads: int
    active: Array

    @property
    def tally(self) -> OpCounters:
        """The counts of the op that executes."""
        assert self.op is not None
        return self.counts.of(self.op)

    def load_global(
        self, element: Any, count: int, pointer: Any, mask: Any, *positional: Any, **more: Any
    ) -> Any:
        size, active = element.bytes * count, self._active_under(mask)  # type: ignore[attr-defined]
        self.tally.touch_global(pointer.array, size, active)
        return super().load_global(element, count, pointer, mask, *positional, **more)  # type: ignore[misc]

    def store_global(
        self, element: Any, pointer: Any, values: Any, mask: Any, *positional: Any, **more: Any
    ) -> Any:
        size, active = element.bytes * len(values), self._active_under(mask)  # type: ignore[attr-defined]
        self.tally.touch_global(pointer.array, size, active)
        return super().store_global(element, pointer, values, mask, *positional, **more)  # type: ignore[misc]

    def copy_async(
        self, size: int, offset: Any, constant: int, pointer: Any, mask: Any, predicate: Any
    ) -> Any:
        doing = self._active_under(predicate)  # type: ignore[attr-defined]
        reading = doing if mask is None or isinstance(mask, str) else doing & mask.array
        self.tally.touch_global(pointer.array, size, reading)
        self.tally.touch_shared(offset.array.astype(np.int64) + constant, size, doing)
        return super().copy_async(size, offset, constant, pointer, mask, predicate)  # type: ignore[misc]

    def load_shared(self, element: Any, count: int, offset: Any) -> Any:
        self.tally.touch_shared(offset.array.astype(np.int64), element.bytes * count, self.active)
        return super().load_shared(element, count, offset)  # type: ignore[misc]

    def store_shared(self, element: Any, offset: Any, values: Any) -> Any:
        size = element.bytes * len(values)
        self.tally.touch_shared(offset.array.astype(np.int64), size, self.active)
        return super().store_shared(element, offset, values)  # type: ignore[misc]

    def store_matrix(
        self, element: Any, transposed: bool, offset: Any, constant: int, values: Any
    ) -> Any:
        addresses = 8 * len(values) * element.bytes // 4
        at = offset.array.astype(np.int64) + constant
        self.tally.did("store_matrix")
        self.tally.touch_shared(at, 16, np.arange(len(at)) % 32 < addresses)
        return super().store_matrix(element, transposed, offset, constant, values)  # type: ignore[misc]

    def shuffle_xor(self, *operands: Any) -> Any:
        self.tally.shuffles += 1
        return super().shuffle_xor(*operands)  # type: ignore[misc]

    def shuffle_index(self, *operands: Any) -> Any:
        self.tally.shuffles += 1
        return super().shuffle_index(*operands)  # type: ignore[misc]

    def transpose_matrix(self, word: Any) -> Any:
        self.tally.shuffles += 1
        return super().transpose_matrix(word)  # type: ignore[misc]

    def barrier(self) -> None:
        self.tally.barriers += 1
        super().barrier()  # type: ignore[misc]

    def when(self, condition: Any, elements: Any, body: Any, otherwise: Any = ()) -> Any:
        active = self._active_under(condition).reshape(-1, 32)  # type: ignore[attr-defined]
        self.tally.divergent += int((active.any(axis=1) & ~active.all(axis=1)).sum())
        return super().when(condition, elements, body, otherwise)  # type: ignore[misc]


def _counting(name: str) -> Callable[..., Any]:
    def method(self: Any, *operands: Any, **options: Any) -> Any:
        self.tally.did(operands[0] if name in _NAMED else name)
        return getattr(super(Counted, self), name)(*operands, **options)

    method.__name__ = name
    return method


_NAMED = ("binary", "intrinsic", "convert")
"""Methods whose first operand names the instruction."""

for _name in (*_NAMED, "negate", "compare", "select", "mma", "load_matrix", "atomic"):
    setattr(Counted, _name, _counting(_name))


def _warps(addresses: Array, active: Array) -> Iterator[Array]:
    """The active addresses of each warp that has any."""
    for first in range(0, len(addresses), 32):
        warp_addresses = addresses[first : first + 32][active[first : first + 32]]
        if len(warp_addresses):
            yield warp_addresses


def _units(addresses: Array, size: int, unit: int) -> Array:
    """The units of `unit` bytes that accesses of `size` bytes touch."""
    return np.unique(np.concatenate([addresses // unit, (addresses + size - 1) // unit]))
