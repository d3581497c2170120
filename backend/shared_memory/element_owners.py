"""The elements that each thread of a block owns, as arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

from tileir.layout import Layout

LANES = 32
"""Threads of a warp."""


@cache
def element_owners(layout: Layout, shape: tuple[int, ...], first: bool) -> Any:
    """The coordinates of elements and the threads that own them: arrays [n, dimension] and [n].
    With `first`, only the first owner of each element is listed."""
    import numpy as np

    threads = np.arange(LANES * layout.size("warp"))
    index = {"lane": threads % LANES, "warp": threads // LANES}
    is_owner = np.ones(len(threads), bool)
    at = np.zeros((len(threads), layout.rank), np.int64)
    for axis, number in index.items():
        for bit, vector in enumerate(layout.atom(axis)):
            at ^= (number >> bit & 1)[:, None] * np.array(vector, np.int64)
        is_owner &= (number & layout.free_bits(axis)) == 0
    # Repetitions move by multiples of the atom's extents, so their bits are disjoint from the
    # atom's.
    coordinates = at[:, None, :] ^ np.array(layout.registers, np.int64)
    for axis, number in index.items():
        for digit in layout.digits(axis):
            k = number // digit.weight % digit.count
            coordinates += (k[:, None] * np.array(digit.step, np.int64))[:, None, :]
            is_owner &= (k == 0) | bool(any(digit.step))
    inside = (coordinates < np.array(shape)).all(axis=-1) & (is_owner[:, None] | (not first))
    owners = np.broadcast_to(threads[:, None], inside.shape)
    return coordinates[inside], owners[inside]
