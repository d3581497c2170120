"""Shared tiles in panels, as boxes of tensor maps are in them."""

from __future__ import annotations

from math import prod

import pytest

from tileir.backend.codegen.tma_boxes import box_of, boxes_of
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.types import F16, F32, I8, Scalar


def place(element: Scalar, shape: tuple[int, int], swizzle: int, panel: int) -> SharedTile:
    return SharedTile(element, shape, 1, swizzle, 0, panel)


@pytest.mark.parametrize(
    ("element", "shape", "swizzle"),
    [(F16, (64, 256), 3), (F32, (128, 32), 3), (I8, (384, 128), 3), (F16, (64, 96), 2),
     (F16, (512, 16), 1), (F16, (16, 8), 0)],
)  # fmt: skip
def test_boxes_are_placed_where_elements_are(
    element: Scalar, shape: tuple[int, int], swizzle: int
) -> None:
    size = element.bytes
    *_, panel = box_of(shape, size, swizzle)
    shared_tile = place(element, shape, swizzle, panel)
    for (row, column), offset in boxes_of(shape, size, swizzle):
        assert offset == shared_tile.along(column * size) + row * shared_tile.pitch
        assert offset % shared_tile.alignment == 0


@pytest.mark.parametrize("block", [(2, 3, 512, 64), (2, 512, 128), (512, 3, 64)])
def test_boxes_of_blocks_of_more_dimensions_follow_one_another(block: tuple[int, ...]) -> None:
    """As those of a tile that has all the rows of the block."""
    rows = prod(block[:-1])
    shared_tile = place(F16, (rows, block[-1]), 3, 64)
    result = list(boxes_of(block, 2, 3))
    for first, offset in result:
        row = sum(n * prod(block[i + 1 : -1]) for i, n in enumerate(first[:-1]))
        assert offset == shared_tile.along(first[-1] * 2) + row * shared_tile.pitch
    box = prod(box_of(block, 2, 3)) * 2
    assert sorted(offset for _, offset in result) == list(range(0, prod(block) * 2, box))


def test_panels_begin_where_the_pattern_of_rows_does() -> None:
    small = place(F16, (4, 128), 3, 64)
    assert (small.panel_bytes, small.bytes, small.alignment) == (1024, 2048, 1024)
    assert place(F16, (40, 64), 2, 32).panel_bytes == 2560
    assert place(F16, (40, 64), 2, 0).alignment == 128
