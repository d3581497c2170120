"""Combining along a dimension in a defined order, whole slices at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileir.machine.tensor import Lanes, Tensor

Values = tuple[Tensor, ...]
Combine = Callable[[Values, Values], Values]


def fold(values: Values, axis: int, combine: Combine, present: Lanes | None) -> Values:
    """All elements along `axis` combined: of n, the last n // 2 are folded onto the first n // 2,
    again and again. Elements not `present` are passed over; where none is, lanes are undefined.
    """
    rows = tuple([_move_axis_first(v, axis) for v in values])
    here = None if present is None else np.moveaxis(present, axis, 0)
    while (extent := rows[0].data.shape[0]) > 1:
        half = (extent + 1) // 2
        low, high = _rows(rows, 0, extent - half), _rows(rows, half, extent)
        if here is None:
            folded = combine(low, high)
        else:
            folded, folded_lanes = _present(combine, low, high, here[: extent - half], here[half:])
            here = np.concatenate((folded_lanes, here[extent - half : half]))
        if extent % 2:
            folded = _stack(folded, _rows(rows, extent - half, half))
        rows = folded
    return tuple([_first(v, None if here is None else here[0]) for v in rows])


def sweep(
    values: Values, axis: int, combine: Combine, present: Lanes | None, *, reverse: bool
) -> Values:
    """Inclusive prefixes along `axis` by distances 1, 2, 4, ... (Hillis and Steele 1986); from
    the end with `reverse`."""
    step = -1 if reverse else 1
    rows = tuple([_flip(_move_axis_first(v, axis), step) for v in values])
    here = None if present is None else np.moveaxis(present, axis, 0)[::step]
    extent, distance = rows[0].data.shape[0], 1
    while distance < extent:
        low, high = _rows(rows, 0, extent - distance), _rows(rows, distance, extent)
        if here is None:
            folded = combine(low, high)
        else:
            folded, folded_lanes = _present(combine, low, high, here[:-distance], here[distance:])
            here = np.concatenate((here[:distance], folded_lanes))
        rows = _stack(_rows(rows, 0, distance), folded)
        distance *= 2
    return tuple([_moved_back(_flip(v, step), axis) for v in rows])


def _present(
    combine: Combine, low: Values, high: Values, in_low: Lanes, in_high: Lanes
) -> tuple[Values, Lanes]:
    """Both combined where both are present, else the one that is."""
    combined = combine(low, high)
    chosen = tuple(
        [
            _choose(in_low & in_high, c, _choose(in_low, a, b))
            for c, a, b in zip(combined, low, high, strict=True)
        ]
    )
    return chosen, in_low | in_high


def _choose(where: Lanes, a: Tensor, b: Tensor) -> Tensor:
    data = np.where(where, a.data, b.data)
    if a.undef is None and b.undef is None:
        return Tensor(data)
    in_a, in_b = (np.False_ if t.undef is None else t.undef for t in (a, b))
    return Tensor(data, np.where(where, in_a, in_b))


def _move_axis_first(value: Tensor, axis: int) -> Tensor:
    undef = value.undef
    return Tensor(
        np.moveaxis(value.data, axis, 0), None if undef is None else np.moveaxis(undef, axis, 0)
    )


def _moved_back(value: Tensor, axis: int) -> Tensor:
    undef = value.undef
    return Tensor(
        np.moveaxis(value.data, 0, axis), None if undef is None else np.moveaxis(undef, 0, axis)
    )


def _flip(value: Tensor, step: int) -> Tensor:
    undef = value.undef
    return value if step > 0 else Tensor(value.data[::-1], None if undef is None else undef[::-1])


def _rows(values: Values, start: int, stop: int) -> Values:
    return tuple(
        [
            Tensor(v.data[start:stop], None if v.undef is None else v.undef[start:stop])
            for v in values
        ]
    )


def _stack(upper: Values, lower: Values) -> Values:
    return tuple([_concatenate(a, b) for a, b in zip(upper, lower, strict=True)])


def _concatenate(a: Tensor, b: Tensor) -> Tensor:
    data = np.concatenate((a.data, b.data))
    if a.undef is None and b.undef is None:
        return Tensor(data)
    flags = [np.zeros(t.data.shape, np.bool_) if t.undef is None else t.undef for t in (a, b)]
    return Tensor(data, np.concatenate(flags))


def _first(value: Tensor, here: Lanes | None) -> Tensor:
    undef = None if value.undef is None else np.asarray(value.undef[0])
    if here is not None and not np.all(here):
        undef = ~here if undef is None else undef | ~here
    return Tensor(np.asarray(value.data[0]), undef)
