"""The bytes that program instances load again after eviction from the cache, counted for their
order."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import attrs
import numpy as np

from tileir.frontends.decoupled.grid import Level, instances, places

MANY = 1 << 14
"""Instances beyond which their order is not gone through."""

Order: TypeAlias = tuple[tuple[Level, ...], frozenset[str]]
"""The levels of a grid, and the dimensions whose last block comes first."""


@attrs.frozen
class Touched:
    """A tensor, and the number of bytes of it that an instance accesses. Instances with the same
    blocks of all its dimensions access the same bytes."""

    dims: tuple[str, ...]
    bytes: float


@lru_cache(maxsize=4096)
def reread_bytes(order: Order, tensors: tuple[Touched, ...], at_once: int, cache: float) -> float:
    """Bytes read from memory more than once, where `at_once` instances run at a time: those of
    blocks that were evicted from a cache of `cache` bytes since the wave that last read them."""
    grid, reverse = order
    number = np.arange(instances(grid))
    wave, where = number // at_once, places(grid, number, reverse)
    waves = int(wave[-1]) + 1
    bytes_of_wave, needed = np.zeros(waves), list[tuple[Touched, np.ndarray, np.ndarray]]()
    for tensor in tensors:
        block = number * 0
        for label in tensor.dims:
            own = where.get(label, number * 0)
            block = block * (int(own.max()) + 1) + own
        present = np.zeros((int(block.max()) + 1, waves), bool)
        present[block, wave] = True
        blocks, when = present.nonzero()
        bytes_of_wave += np.bincount(when, minlength=waves) * tensor.bytes
        needed.append((tensor, blocks, when))
    passed, total = np.cumsum(bytes_of_wave), 0.0
    for tensor, blocks, when in needed:
        same = blocks[1:] == blocks[:-1]
        far = passed[when[1:]] - passed[when[:-1]] > cache
        total += tensor.bytes * np.count_nonzero(same & far)
    return float(total)
