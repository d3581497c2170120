"""The boxes of the block of a tensor map. One instruction copies one box.

A box is as wide as a panel, 16 << swizzle bytes, and has at most 256 elements along a dimension
(CUDA driver API, "Tensor Map"). Within a panel, the rows of a block are contiguous, and so are the
rows of a box.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

Shape: TypeAlias = tuple[int, ...]

_MOST = 256


def panel_of(block: Sequence[int], size: int, swizzle: int) -> int:
    """The number of columns of a panel for elements of `size` bytes; without a swizzle, all
    columns."""
    return (16 << swizzle) // size if swizzle else block[-1]


def box_of(block: Sequence[int], size: int, swizzle: int) -> Shape:
    """The extents of a box. Raises ValueError if rows without a swizzle are wider than a box, or if
    rows with one are not a whole number of panels."""
    panel = panel_of(block, size, swizzle)
    if panel > _MOST or block[-1] % panel:
        raise ValueError(f"rows of {block[-1]} elements are not panels of {min(panel, _MOST)}")
    extents = list(block[:-1])
    for dim in reversed(range(len(extents))):
        if extents[dim] > _MOST:
            extents[dim] = max(n for n in range(1, _MOST + 1) if extents[dim] % n == 0)
            extents[:dim] = [1] * dim
    return (*extents, panel)


def boxes_of(
    block: Sequence[int], size: int, swizzle: int, rows: int = 0
) -> Iterator[tuple[Shape, int]]:
    """Yield the boxes of a block: the index of the first element, and the first byte of the box
    within a stage of `rows` rows (0: the rows of the block)."""
    box = box_of(block, size, swizzle)
    rows, row = rows or prod(block[:-1]), box[-1] * size
    counts = (range(0, n, step) for n, step in zip(block, box, strict=True))
    for first in product(*counts):
        number = 0
        for index, extent in zip(first[:-1], block[:-1], strict=True):
            number = number * extent + index
        yield first, first[-1] // box[-1] * rows * row + number * row
