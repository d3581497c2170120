"""Atomic updates: new values, and lanes that share an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.interp.memory import Addresses, Indices
from tileir.machine import Tensor

Update = Callable[[Any, Tensor, Tensor], Tensor]


def pick(value: Tensor, lanes: Any) -> Tensor:
    """The elements of `value` in `lanes`, flat positions."""
    return Tensor(value.data.reshape(-1)[lanes], None)


def unique_address_batches(addresses: Addresses) -> list[Indices]:
    """Positions in `addresses`, split so that no address occurs twice in one part; the first
    occurrences come first."""
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    if new.all():
        return [np.arange(len(addresses))] if len(addresses) else []
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(ordered)))
    rank = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return [np.sort(order[rank == batch]) for batch in range(int(rank.max()) + 1)]


def _kernel(name: str) -> Update:
    def update(machine: Any, old: Tensor, value: Tensor) -> Tensor:
        return machine.elementwise(name, old, value)

    return update


def _exchange(machine: Any, old: Tensor, value: Tensor) -> Tensor:
    return value


def _increment(machine: Any, old: Tensor, value: Tensor) -> Tensor:
    below = old.data.view(np.uint32) < value.data.view(np.uint32)
    return Tensor(np.where(below, old.data + np.int32(1), np.int32(0)))


def _decrement(machine: Any, old: Tensor, value: Tensor) -> Tensor:
    above = old.data.view(np.uint32) > value.data.view(np.uint32)
    return Tensor(np.where(above | (old.data == 0), value.data, old.data - np.int32(1)))


UPDATES: dict[str, Update] = {
    **{name: _kernel(name) for name in ("and", "or", "xor", "add", "fadd")},
    **{name: _kernel(name) for name in ("smax", "smin", "umax", "umin")},
    "fmax": _kernel("fmaxnum"),
    "fmin": _kernel("fminnum"),
    "xchg": _exchange,
    "inc": _increment,
    "dec": _decrement,
}
"""The new value of each kind of update, given machine, old value and operand."""
