"""Products under way in the machine of threads: what they read, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tileir.backend.codegen.async_interface import WgmmaStep
from tileir.backend.layouts.wgmma import ROWS, WgmmaInstruction
from tileir.backend.simt.happens_before import bytes_of
from tileir.backend.simt.scheduler import WgmmaGroup
from tileir.backend.simt.shadow import RaceError
from tileir.backend.simt.wgmma_operands import (
    MatrixDescriptor,
    factor_places,
    multiplied,
    numbers,
    stacked,
    sum_places,
)
from tileir.types import F16, F32

Array: TypeAlias = np.ndarray[Any, Any]


class PendingAccumulator:
    """A sum under way, number `index` of its group: nobody may read it."""

    def __init__(self, group: WgmmaGroup, index: int) -> None:
        self.group, self.index = group, index

    @property
    def array(self) -> Array:
        """Raises AssertionError."""
        raise RaceError("race: a sum is read that gpu.wgmma_wait was not asked for")


class Work:
    """A group of products: where its factors lie, and its sums."""

    def __init__(
        self,
        thread: Any,
        kind: WgmmaInstruction,
        products: Sequence[WgmmaStep],
        a: Any,
        b: Any,
        c: Any,
    ) -> None:
        self.memory, self.kind, self.products, self.c = thread.memory, kind, products, c
        self.groups, self.threads = thread.threads // 128, thread.threads
        self.b = self._described(b)
        held = isinstance(a, list)
        self.a = None if held else self._described(a)
        self.registers = [x.array.copy() for x in a] if held else []

    def _described(self, handle: Any) -> list[int]:
        """The descriptor of every warpgroup, in which its threads must agree."""
        rows = handle.array.astype(np.uint64).reshape(-1, 128)
        if (rows != rows[:, :1]).any():
            raise AssertionError("threads of a warpgroup differ in a matrix descriptor")
        return [int(row[0]) for row in rows]

    def places(self) -> Array:
        """Every byte that is read."""
        found = [
            bytes_of(at, self.kind.bits // 8)
            for group in range(self.groups)
            for product in self.products
            for at in self._factors(group, product)
        ]
        return np.unique(np.concatenate(found))

    def _factors(self, group: int, product: WgmmaStep) -> list[Array]:
        size, (left, right) = self.kind.bits // 8, self.kind.turned
        b = MatrixDescriptor.of(self.b[group] + (product.b >> 4))
        found = [b.places(self.kind.n, self.kind.k, size, turned=right)]
        if self.a is not None:
            a = MatrixDescriptor.of(self.a[group] + (product.a >> 4))
            found.append(a.places(ROWS, self.kind.k, size, turned=left))
        return found

    def finish(self) -> list[Array]:
        """Registers of sums, of all threads."""
        parts = [self._sums(group) for group in range(self.groups)]
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def _sums(self, group: int) -> list[Array]:
        kind = self.kind
        row, column = sum_places(kind.sums)
        tiles: dict[int, Array] = {}
        for product in self.products:
            if product.first:
                tiles[product.sums] = self._begun(group, product)
            left, right = self._numbers(group, product)
            tiles[product.sums] = multiplied(kind, left, right, tiles[product.sums])
        return [tiles[s][row, column][:, i] for s in sorted(tiles) for i in range(kind.sums)]

    def _begun(self, group: int, product: WgmmaStep) -> Array:
        """What the product adds to."""
        kind = self.kind
        types: dict[Any, Any] = {F32: np.float32, F16: np.float16}
        whole = np.zeros((ROWS, kind.n), types.get(kind.accumulator, np.int32))
        if self.c is not None:
            held = [_value(x) for x in self.c[product.sums : product.sums + kind.sums]]
            row, column = sum_places(kind.sums)
            whole[row, column] = stacked(held, group)
        return whole

    def _numbers(self, group: int, product: WgmmaStep) -> tuple[Array, Array]:
        """The factors, [row, k] and [column, k]."""
        kind, places = self.kind, self._factors(group, product)
        right = numbers(kind, kind.right, self._raw(places[0]))
        if self.a is not None:
            return numbers(kind, kind.left, self._raw(places[1])), right
        count = ROWS * kind.k // 128
        held = stacked(self.registers[product.a : product.a + count], group)
        row, k = factor_places(kind)
        raw = np.zeros((ROWS, kind.k), f"u{kind.bits // 8}")
        raw[row, k] = np.ascontiguousarray(held).view(raw.dtype)
        return numbers(kind, kind.left, raw), right

    def _raw(self, at: Array) -> Array:
        size = self.kind.bits // 8
        data = self.memory.shared[bytes_of(at, size)].reshape(-1, size)
        return np.ascontiguousarray(data).view(f"u{size}").reshape(at.shape)


def _value(handle: Any) -> Array:
    """A sum to add to: of a group before this one, which is done by then."""
    if isinstance(handle, PendingAccumulator):
        assert handle.group.sums is not None
        return handle.group.sums[handle.index]
    return handle.array
