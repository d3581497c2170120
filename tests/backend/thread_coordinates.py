"""The coordinates that threads hold, of all threads at once."""

from __future__ import annotations

import numpy as np

from tileir.layout import Layout


def coordinates(it: Layout, register: int) -> list[tuple[int, ...]]:
    """The coordinate of every thread's register."""
    threads = np.arange(32 * it.size("warp"))[:, None]
    indices = {"register": np.array([[register]]), "lane": threads % 32, "warp": threads // 32}
    low = high = np.zeros((len(threads), it.rank), np.int64)
    for axis, index in indices.items():
        for bit, vector in enumerate(it.atom(axis)):
            low = low ^ (index >> bit & 1) * np.array(vector, np.int64)
        for digit in it.digits(axis):
            high = high + index // digit.weight % digit.count * np.array(digit.step, np.int64)
    return list(map(tuple, (low + high).tolist()))
