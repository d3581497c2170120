"""Pending wgmma in the SIMT simulator: its operands and accumulators."""

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
    accumulator_places,
    multiply_accumulate,
    numbers,
    operand_places,
    stack_registers,
)
from tileir.types import F16, F32

Array: TypeAlias = np.ndarray[Any, Any]


class PendingAccumulator:
    """Accumulator number `index` of a wgmma group in flight; reading it is an error."""

    def __init__(self, group: WgmmaGroup, index: int) -> None:
        self.group, self.index = group, index

    @property
    def array(self) -> Array:
        """Raises RaceError."""
        raise RaceError("race: an accumulator is read before gpu.wgmma_wait")


class PendingWgmma:
    """A wgmma group: the placement of its operands, and its accumulators."""

    def __init__(
        self,
        thread: Any,
        kind: WgmmaInstruction,
        steps: Sequence[WgmmaStep],
        a: Any,
        b: Any,
        c: Any,
    ) -> None:
        self.memory, self.kind, self.steps, self.c = thread.memory, kind, steps, c
        self.groups, self.threads = thread.threads // 128, thread.threads
        self.b = self._uniform_descriptors(b)
        in_registers = isinstance(a, list)
        self.a = None if in_registers else self._uniform_descriptors(a)
        self.registers = [x.array.copy() for x in a] if in_registers else []

    def _uniform_descriptors(self, handle: Any) -> list[int]:
        """The descriptor of every warpgroup, which must be uniform over its threads."""
        rows = handle.array.astype(np.uint64).reshape(-1, 128)
        if (rows != rows[:, :1]).any():
            raise AssertionError("threads of a warpgroup differ in a matrix descriptor")
        return [int(row[0]) for row in rows]

    def places(self) -> Array:
        """Every byte that is read."""
        places = [
            bytes_of(at, self.kind.bits // 8)
            for group in range(self.groups)
            for step in self.steps
            for at in self._operands(group, step)
        ]
        at = np.concatenate(places)
        is_read = np.zeros(at.max() + 1, bool)
        is_read[at] = True
        return np.flatnonzero(is_read)

    def _operands(self, group: int, step: WgmmaStep) -> list[Array]:
        size, (left, right) = self.kind.bits // 8, self.kind.turned
        b = MatrixDescriptor.of(self.b[group] + (step.b >> 4))
        places = [b.places(self.kind.n, self.kind.k, size, turned=right)]
        if self.a is not None:
            a = MatrixDescriptor.of(self.a[group] + (step.a >> 4))
            places.append(a.places(ROWS, self.kind.k, size, turned=left))
        return places

    def finish(self) -> list[Array]:
        """Accumulator registers of all threads."""
        parts = [self._accumulators(group) for group in range(self.groups)]
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def _accumulators(self, group: int) -> list[Array]:
        kind = self.kind
        row, column = accumulator_places(kind.accumulator_count)
        tiles: dict[int, Array] = {}
        for step in self.steps:
            if step.first:
                tiles[step.accumulator] = self._initial_accumulator(group, step)
            left, right = self._numbers(group, step)
            tiles[step.accumulator] = multiply_accumulate(
                kind, left, right, tiles[step.accumulator]
            )
        return [register for s in sorted(tiles) for register in tiles[s][row, column].T]

    def _initial_accumulator(self, group: int, step: WgmmaStep) -> Array:
        """The initial accumulator."""
        kind = self.kind
        types: dict[Any, Any] = {F32: np.float32, F16: np.float16}
        matrix = np.zeros((ROWS, kind.n), types.get(kind.accumulator, np.int32))
        if self.c is not None:
            accumulators = [
                _value(x)
                for x in self.c[step.accumulator : step.accumulator + kind.accumulator_count]
            ]
            row, column = accumulator_places(kind.accumulator_count)
            matrix[row, column] = stack_registers(accumulators, group)
        return matrix

    def _numbers(self, group: int, step: WgmmaStep) -> tuple[Array, Array]:
        """The operands, [row, k] and [column, k]."""
        kind, places = self.kind, self._operands(group, step)
        right = numbers(kind, kind.right, self._raw(places[0]))
        if self.a is not None:
            return numbers(kind, kind.left, self._raw(places[1])), right
        count = ROWS * kind.k // 128
        registers = stack_registers(self.registers[step.a : step.a + count], group)
        row, k = operand_places(kind)
        raw = np.zeros((ROWS, kind.k), f"u{kind.bits // 8}")
        raw[row, k] = np.ascontiguousarray(registers).view(raw.dtype)
        return numbers(kind, kind.left, raw), right

    def _raw(self, at: Array) -> Array:
        size = self.kind.bits // 8
        data = self.memory.shared[bytes_of(at, size)].reshape(-1, size)
        return np.ascontiguousarray(data).view(f"u{size}").reshape(at.shape)


def _value(handle: Any) -> Array:
    """An accumulator of an earlier group, which is complete by then."""
    if isinstance(handle, PendingAccumulator):
        assert handle.group.accumulators is not None
        return handle.group.accumulators[handle.index]
    return handle.array
