"""The tables that programs look things up in."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np


@attrs.frozen(eq=False)
class Blocks:
    """Which blocks of a matrix are there: `mask` [rows, columns] of blocks. Blocks are numbered row
    by row."""

    mask: np.ndarray[Any, Any]

    @property
    def count(self) -> int:
        return int(self.mask.sum())

    @property
    def places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Row and column of every block."""
        rows, columns = np.nonzero(self.mask)
        return rows.astype(np.int32), columns.astype(np.int32)

    @property
    def by_row(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Where rows start, and the column of every block."""
        return _starts(self.mask.sum(1)), self.places[1]

    @property
    def by_column(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Where columns start, and of every entry the block and its row."""
        columns, rows = np.nonzero(self.mask.T)
        numbers = np.cumsum(self.mask.ravel()).reshape(self.mask.shape) - 1
        blocks = numbers[rows, columns].astype(np.int32)
        return _starts(self.mask.sum(0)), blocks, rows.astype(np.int32)

    @property
    def most(self) -> int:
        """Blocks of the longest row."""
        return int(self.mask.sum(1).max(initial=0))

    def taken(self, dense: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
        """The blocks of `dense`, [count, size, size]."""
        rows, columns = self.mask.shape
        cut = dense.reshape(rows, size, columns, size).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(cut[self.mask])

    def dense(self, blocks: np.ndarray[Any, Any], fill: float = 0.0) -> np.ndarray[Any, Any]:
        """The whole matrix."""
        size = blocks.shape[-1]
        rows, columns = self.mask.shape
        whole = np.full((rows, columns, size, size), fill, blocks.dtype)
        whole[self.mask] = blocks
        return whole.transpose(0, 2, 1, 3).reshape(rows * size, columns * size)


def _starts(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
