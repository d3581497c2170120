"""Matrix instructions of the SIMT simulator: fragments are gathered warp by warp, multiplied, and
scattered again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from tileir.backend.layouts.mma import MmaInstruction, Vectors
from tileir.types import F32, I8, I32, Element

Array: TypeAlias = np.ndarray[Any, Any]


class Matrices:
    """`load_matrix`, `store_matrix`, `mma` and `round_tf32`; mixed into the SIMT simulator."""

    threads: int
    active: Array
    memory: Any
    as_handle: Any
    dtype: Any

    def load_matrix(
        self, element: Element, count: int, transposed: bool, offset: Any, constant: int
    ) -> list[Any]:
        self._whole_warps()
        lane = np.arange(self.threads) % 32
        naming = self.active & (lane < 8 * count)
        at = offset.array.astype(np.int64) + constant
        self.memory.check_aligned(at, 16, naming)
        read = self.memory.load_shared(at, np.dtype("V16"), naming)
        raw = read.view(np.uint8).reshape(-1, 4, 8, 16)
        handles: list[Any] = []
        size = element.bytes
        for matrix in range(count):
            rows = raw[:, matrix]
            if transposed:
                halves = np.ascontiguousarray(rows).view(np.uint16)
                rows = np.ascontiguousarray(halves.transpose(0, 2, 1)).view(np.uint8)
            words = np.ascontiguousarray(rows).reshape(-1, 4)
            kind = self.dtype(element)
            if kind == np.bool_:
                kind = np.dtype(np.uint8)
            values = np.ascontiguousarray(words).view(kind)
            handles += [self.as_handle(values[:, i], element) for i in range(4 // size)]
        return handles

    def store_matrix(
        self, element: Element, transposed: bool, offset: Any, constant: int,
        values: Sequence[Any],
    ) -> None:  # fmt: skip
        self._whole_warps()
        stacked = np.stack([np.ascontiguousarray(v.array) for v in values], axis=-1)
        words = stacked.view(np.uint8).reshape(self.threads // 32, 8, 4, -1, 4)
        count = words.shape[3]
        rows = np.zeros((self.threads // 32, 4, 8, 16), np.uint8)
        for matrix in range(count):
            part = np.ascontiguousarray(words[:, :, :, matrix]).reshape(-1, 8, 16)
            if transposed:
                halves = np.ascontiguousarray(part.view(np.uint16).transpose(0, 2, 1))
                part = halves.view(np.uint8)
            rows[:, matrix] = part
        naming = self.active & (np.arange(self.threads) % 32 < 8 * count)
        at = offset.array.astype(np.int64) + constant
        self.memory.check_aligned(at, 16, naming)
        self.memory.store_shared(at, rows.reshape(self.threads, 16).view("V16")[:, 0], naming)

    def transpose_matrix(self, word: Any) -> Any:
        self._whole_warps()
        rows = np.ascontiguousarray(word.array).view(np.uint16).reshape(-1, 8, 8)
        columns = np.ascontiguousarray(rows.transpose(0, 2, 1))
        return self.as_handle(columns.reshape(-1).view(word.array.dtype), I32)

    def mma(
        self, kind: MmaInstruction, a: Sequence[Any], b: Sequence[Any], c: Sequence[Any],
        signed: tuple[bool, bool],
    ) -> list[Any]:  # fmt: skip
        self._whole_warps()
        left = _gather_matrices(a, kind.a(), (kind.m, kind.k))
        right = _gather_matrices(b, kind.b(), (kind.k, kind.n))
        total = _gather_matrices(c, kind.c(), (kind.m, kind.n))
        if kind.accumulator is I32:
            x, y = (_integers(v, s) for v, s in zip((left, right), signed, strict=True))
            summed = (x @ y + total.astype(np.int64)).astype(np.int32)
        else:
            x, y = (_operands(kind, v) for v in (left, right))
            with np.errstate(invalid="ignore", over="ignore"):
                summed = (x @ y + total.astype(np.float64)).astype(total.dtype)
        return [self.as_handle(v, kind.accumulator) for v in _scatter_matrices(summed, kind.c())]

    def round_tf32(self, a: Any) -> Any:
        bits = a.array.view(np.uint32)
        rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
        return self.as_handle(np.where(np.isfinite(a.array), rounded, a.array), F32)

    def _whole_warps(self) -> None:
        active = self.active.reshape(-1, 32)
        if not (active.all(axis=1) | ~active.any(axis=1)).all():
            raise AssertionError("an instruction of the whole warp that some lanes skip")


@cache
def _places(vectors: tuple[Vectors, Vectors]) -> tuple[Array, Array]:
    """Row and column of every register of every lane: two arrays [register, lane]."""
    registers, lanes = vectors
    rows = np.zeros((1 << len(registers), 32), np.int64)
    columns = np.zeros_like(rows)
    for bits, index in (
        (registers, np.arange(1 << len(registers))[:, None]),
        (lanes, np.arange(32)),
    ):
        for bit, (row, column) in enumerate(bits):
            rows = rows ^ (index >> bit & 1) * row
            columns = columns ^ (index >> bit & 1) * column
    return rows, columns


def _gather_matrices(
    fragment: Sequence[Any], vectors: tuple[Vectors, Vectors], shape: tuple[int, int]
) -> Array:
    """The matrices of all warps: [warp, row, column]."""
    rows, columns = _places(vectors)
    values = np.stack([x.array for x in fragment]).reshape(len(fragment), -1, 32)
    matrices = np.zeros((values.shape[1], *shape), values.dtype)
    for register in range(len(fragment)):
        matrices[:, rows[register], columns[register]] = values[register]
    return matrices


def _scatter_matrices(matrices: Array, vectors: tuple[Vectors, Vectors]) -> list[Array]:
    rows, columns = _places(vectors)
    return [matrices[:, rows[r], columns[r]].reshape(-1) for r in range(len(rows))]


def _integers(values: Array, signed: bool) -> Array:
    return values.view(np.int8 if signed else np.uint8).astype(np.int64)


def _operands(kind: MmaInstruction, values: Array) -> Array:
    """The operands as the instruction sees them: tf32 drops the low bits of f32."""
    if kind.kind == "tf32":
        values = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    assert kind.operand is not I8
    return values.astype(np.float64)
