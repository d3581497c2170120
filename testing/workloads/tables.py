"""Look-up tables of the workloads."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

ABSENT = 1 << 15
"""The bit of what a table has beyond its end."""


@attrs.frozen(eq=False)
class Blocks:
    """The blocks of a block-sparse matrix. `mask` [rows, columns] states which blocks exist. Blocks
    are numbered row by row."""

    mask: np.ndarray[Any, Any]

    @property
    def count(self) -> int:
        return int(self.mask.sum())

    @property
    def places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The row and the column of every block."""
        rows, columns = np.nonzero(self.mask)
        return rows.astype(np.int32), columns.astype(np.int32)

    def by_groups(self, most: int) -> tuple[np.ndarray[Any, Any], ...]:
        """Groups of at most `most` blocks of a row, as even as possible: the row, the first and the
        last block of each group, and the column of every block."""
        rows, firsts, lasts, start = [], [], [], 0
        for row, count in enumerate(self.mask.sum(1)):
            for part in np.array_split(np.arange(start, start + count), -(-count // most) or 1):
                if len(part):
                    rows.append(row)
                    firsts.append(part[0])
                    lasts.append(part[-1])
            start += count
        return (*(np.array(x, np.int32) for x in (rows, firsts, lasts)), self.places[1])

    @property
    def by_row(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The starts of rows, and the column of every block."""
        return _starts(self.mask.sum(1)), self.places[1]

    @property
    def by_column(self) -> tuple[np.ndarray[Any, Any], ...]:
        """The starts of columns, and the block and its row of every entry."""
        columns, rows = np.nonzero(self.mask.T)
        numbers = np.cumsum(self.mask.ravel()).reshape(self.mask.shape) - 1
        blocks = numbers[rows, columns].astype(np.int32)
        return _starts(self.mask.sum(0)), blocks, rows.astype(np.int32)

    @property
    def longest(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The rows, and the columns, ordered by decreasing number of blocks: the longest ones start
        first."""
        orders = (np.argsort(-self.mask.sum(axis), kind="stable") for axis in (1, 0))
        rows, columns = (order.astype(np.int32) for order in orders)
        return rows, columns

    @property
    def most(self) -> int:
        """The number of blocks of the longest row."""
        return int(self.mask.sum(1).max(initial=0))

    def blocks_of(self, dense: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
        """The blocks of `dense`, [count, size, size]."""
        rows, columns = self.mask.shape
        cut = dense.reshape(rows, size, columns, size).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(cut[self.mask])

    def dense(self, blocks: np.ndarray[Any, Any], fill: float = 0.0) -> np.ndarray[Any, Any]:
        """The whole matrix."""
        size = blocks.shape[-1]
        rows, columns = self.mask.shape
        dense = np.full((rows, columns, size, size), fill, blocks.dtype)
        dense[self.mask] = blocks
        return dense.transpose(0, 2, 1, 3).reshape(rows * size, columns * size)


def _starts(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


@attrs.frozen(eq=False)
class Increments:
    """The offsets of the elements of a reduction from its first element, and the bits that mark
    elements out of bounds."""

    increments: np.ndarray[Any, Any]
    sides: np.ndarray[Any, Any]

    def pad_to(self, step: int) -> Increments:
        """The increments, padded to a multiple of `step`."""
        more = -len(self.sides) % step
        return Increments(
            np.pad(self.increments, (0, more)),
            np.pad(self.sides, (0, more), constant_values=ABSENT),
        )

    @staticmethod
    def of(rows: int, columns: int, image: tuple[int, int, int], *, last: bool) -> Increments:
        """The increments of a convolution of an image of (channels, height, width), in the order of
        rows and columns of the filter, then channels. With `last`, channels are neighbours in
        memory."""
        channels, height, width = image
        r, s, c = np.meshgrid(*map(np.arange, (rows, columns, channels)), indexing="ij")
        inside = (r * width + s) * channels + c if last else (c * height + r) * width + s
        sides = 1 << r | 1 << (16 + s)
        return Increments(inside.ravel().astype(np.int32), sides.ravel().astype(np.int32))


def shifts(
    rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any], height: int, width: int
) -> Increments:
    """The shifts of channels by `rows` and `columns`, each -1 to 1, in images with channels
    first."""
    channels = np.arange(len(rows))
    increments = (channels * height + rows) * width + columns
    sides = 1 << (rows + 1) | 1 << (17 + columns)
    return Increments(increments.astype(np.int32), sides.astype(np.int32))
