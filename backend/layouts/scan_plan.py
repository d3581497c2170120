"""The digits along which a scan joins elements, which layouts and code generation both need.

The coordinate along the axis is a number in mixed radix whose digits are registers, lanes or
warps (`tileir.backend.codegen.emit.scan`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod
from typing import Any, cast

import attrs

from tileir.backend.layouts.reduction_plan import align_to_16
from tileir.layout import AXES, Layout
from tileir.types import Element, element_of


@attrs.frozen
class Digit:
    """One digit along the axis: `count` steps of `step`, the thread's or register's number
    divided by `weight`."""

    kind: str
    step: int
    count: int
    weight: int

    def at(self, coordinate: int) -> int:
        """The digit of a coordinate."""
        return coordinate // self.step % self.count


def scan_bytes(op: Any) -> int:
    """Shared memory of a `scan`: one value per operand, row, block and warp along the axis."""
    source: Layout = op.values[0].type.layout
    sizes = [cast(Element, element_of(v.type)).bytes for v in op.values] + [1] * carries_flags(op)
    return sum(align_to_16(count * size) for count in _positions(source, op.axis) for size in sizes)


def _positions(source: Layout, axis: int) -> Iterator[int]:
    """Values that every run of warp digits exchanges."""
    rows = prod(source.slice(axis).extents)
    digits = digits_along(source, axis)
    for start, run in runs(digits):
        if run[0].kind == "warp":
            yield rows * prod(d.count for d in digits[start:])


def digits_along(source: Layout, axis: int) -> list[Digit]:
    """The digits of the coordinate along the axis, lowest first."""
    digits = [
        Digit(kind, v[axis], 2, 1 << bit)
        for kind in AXES
        for bit, v in enumerate(source.atom(kind))
        if v[axis]
    ]
    for kind in AXES:
        digits += [
            Digit(kind, d.step[axis], d.count, d.weight)
            for d in source.digits(kind)
            if d.step[axis]
        ]
    return sorted(digits, key=lambda d: d.step)


def runs(digits: Sequence[Digit]) -> Iterator[tuple[int, list[Digit]]]:
    """Neighbouring digits of one kind, with the index of the first."""
    start = 0
    for _, run in groupby(digits, key=lambda d: d.kind):
        ordered = list(run)
        yield start, ordered
        start += len(ordered)


def carries_flags(op: Any) -> bool:
    """Whether items carry a presence flag: padding comes first in a reverse scan, and a function
    has no identity."""
    tile = op.values[0].type
    padded = tile.layout.extents[op.axis] > tile.shape[op.axis]
    return isinstance(op.combiner, str) and op.reverse and padded
