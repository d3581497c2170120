"""How the block of a tensor map is cut into boxes, each copied by one instruction.

A box is as wide as a panel, 16 << swizzle bytes, and has at most 256 elements along a dimension
(CUDA driver API, "Tensor Map"). The rows of a block lie one behind the other in each panel, so that
the rows of a box do, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

Shape: TypeAlias = tuple[int, ...]

_MOST = 256


def panel_of(block: Sequence[int], size: int, swizzle: int) -> int:
    """Columns of a panel for elements of `size` bytes; whole rows without a swizzle."""
    return (16 << swizzle) // size if swizzle else block[-1]


def box_of(block: Sequence[int], size: int, swizzle: int) -> Shape:
    """Extents of a box. Raises ValueError where rows without a swizzle are wider than a box, or no
    whole panels."""
    panel = panel_of(block, size, swizzle)
    if panel > _MOST or block[-1] % panel:
        raise ValueError(f"rows of {block[-1]} elements are no panels of {min(panel, _MOST)}")
    found = list(block[:-1])
    for dim in reversed(range(len(found))):
        if found[dim] > _MOST:
            found[dim] = max(n for n in range(1, _MOST + 1) if found[dim] % n == 0)
            found[:dim] = [1] * dim
    return (*found, panel)


def pieces(
    block: Sequence[int], size: int, swizzle: int, rows: int = 0
) -> Iterator[tuple[Shape, int]]:
    """The boxes of a block: the index of the first element, and the byte where the box begins of a
    slot of `rows` rows, 0 for those of the block."""
    box = box_of(block, size, swizzle)
    rows, row = rows or prod(block[:-1]), box[-1] * size
    counts = (range(0, n, step) for n, step in zip(block, box, strict=True))
    for first in product(*counts):
        number = 0
        for index, extent in zip(first[:-1], block[:-1], strict=True):
            number = number * extent + index
        yield first, first[-1] // box[-1] * rows * row + number * row
