"""Moving elements about: the part of a machine that does not compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.machine.tensor import Array, Lanes, Tensor, dtype_of, either
from tileir.machine.trap import Faults
from tileir.op import Op
from tileir.types import Type, shape_of

Shape = tuple[int, ...]


def rearrange(tensor: Tensor, move: Callable[[Array], Array]) -> Tensor:
    """`move` applied to data and undefined lanes alike."""
    undef = tensor.undef
    return Tensor(move(tensor.data), None if undef is None else move(undef))


def spread(data: Array, shape: Shape) -> Array:
    """`np.broadcast_to` at a fraction of its price, for scalars and for arrays of `shape`'s rank
    that are stored in memory row by row."""
    if not data.ndim:
        return np.ndarray(shape, data.dtype, np.asarray(data), 0, (0,) * len(shape))
    if data.ndim != len(shape) or not data.flags.c_contiguous:
        return np.broadcast_to(data, shape)
    strides = [0 if n == 1 else s for n, s in zip(data.shape, data.strides, strict=True)]
    return np.ndarray(shape, data.dtype, data, 0, strides)


def lanes_of(tensor: Tensor) -> Lanes:
    """Undefined lanes as an array, where there are none too."""
    if tensor.undef is None:
        return np.broadcast_to(np.False_, tensor.data.shape)
    return tensor.undef


class Shapes(Faults):
    """The methods of a machine for `tileir.ops.shape`."""

    def make_range(self, start: int, type: Type) -> Tensor:
        """`start`, `start + 1`, ... of `type`."""
        (extent,) = shape_of(type)
        return Tensor(np.arange(start, start + extent, dtype=dtype_of(type)))

    def broadcast(self, value: Tensor, shape: Shape) -> Tensor:
        """Extents of 1 and missing leading dimensions repeated."""
        return rearrange(value, lambda x: spread(x, shape))

    def reshape(self, value: Tensor, shape: Shape) -> Tensor:
        """The same elements in row-major order."""
        return rearrange(value, lambda x: x.reshape(shape))

    def transpose(self, value: Tensor, order: Shape) -> Tensor:
        """Dimension d of the result is `order[d]`."""
        return rearrange(value, lambda x: x.transpose(order))

    def join(self, low: Tensor, high: Tensor) -> Tensor:
        """Side by side in a new last dimension."""
        data = np.stack((low.data, high.data), -1)
        if low.undef is None and high.undef is None:
            return Tensor(data)
        return Tensor(data, np.stack((lanes_of(low), lanes_of(high)), -1))

    def split(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The two halves of the last dimension."""
        low = rearrange(value, lambda x: np.asarray(x[..., 0]))
        return low, rearrange(value, lambda x: np.asarray(x[..., 1]))

    def concatenate(self, low: Tensor, high: Tensor, axis: int) -> Tensor:
        """One after the other along `axis`."""
        data = np.concatenate((low.data, high.data), axis)
        if low.undef is None and high.undef is None:
            return Tensor(data)
        return Tensor(data, np.concatenate((lanes_of(low), lanes_of(high)), axis))

    def gather(self, source: Tensor, index: Tensor, axis: int, op: Op) -> Tensor:
        """Elements of `source` at `index` along `axis`. Traps on an index outside."""
        extent = source.data.shape[axis]
        where = index.data.astype(np.int64)
        outside = (where < 0) | (where >= extent)
        if outside.any():
            self.trap("TIR0552", f"index outside 0 to {extent - 1}", outside, op, index)
            where = np.where(outside, 0, where)
        result = rearrange(source, lambda x: np.take_along_axis(x, where, axis))
        return Tensor(result.data, either(result, index))

    def extract_slice(
        self,
        value: Tensor,
        offsets: tuple[Tensor, ...],
        strides: Shape | None,
        shape: Shape,
        op: Op,
    ) -> Tensor:
        """The part of `shape` at `offsets`. Traps where it leaves the tile."""
        part = self._part(value.data.shape, offsets, strides, shape, op)
        if part is None:
            data = np.zeros(shape, value.data.dtype)
            return Tensor(data, np.ones(shape, np.bool_))
        return rearrange(value, lambda x: x[part])

    def insert_slice(
        self,
        value: Tensor,
        small: Tensor,
        offsets: tuple[Tensor, ...],
        strides: Shape | None,
        op: Op,
    ) -> Tensor:
        """`value` with the part at `offsets` replaced. Traps where it leaves the tile."""
        part = self._part(value.data.shape, offsets, strides, small.data.shape, op)
        if part is None:
            return Tensor(value.data, np.ones(value.data.shape, np.bool_))
        data = _insert(value.data, part, small.data)
        if value.undef is None and small.undef is None:
            return Tensor(data)
        return Tensor(data, _insert(lanes_of(value), part, lanes_of(small)))

    def _part(
        self,
        source: Shape,
        offsets: tuple[Tensor, ...],
        strides: Shape | None,
        shape: Shape,
        op: Op,
    ) -> tuple[slice, ...] | None:
        """The slice, or None where an offset is undefined or every lane is off."""
        lost = either(*offsets)
        if lost is not None and lost.any():
            return None
        part: list[slice] = []
        for extent, offset, length, stride in zip(
            source, offsets, shape, strides or (1,) * len(shape), strict=True
        ):
            first = int(offset.data)
            last = first + (length - 1) * stride
            if first < 0 or last >= extent:
                if self.active is not None and not self.active.any():
                    return None
                message = f"elements {first} to {last} of a dimension of {extent}"
                raise self.fault("TIR0553", message, op)
            part.append(slice(first, last + 1, stride))
        return tuple(part)

    def psi(self, arms: tuple[Tensor, ...]) -> Tensor:
        """The value whose predicate holds, the last of several, undefined where none does."""
        shape = arms[1].data.shape
        data, undef = arms[1].data, np.ones(shape, np.bool_)
        for predicate, value in zip(arms[::2], arms[1::2], strict=True):
            active = predicate.data
            data = np.where(active, value.data, data)
            undef = np.where(active, lanes_of(value), undef)
            if predicate.undef is not None:
                undef = undef | predicate.undef
        return Tensor(data, undef if undef.any() else None)

    def select(self, condition: Tensor, then: Tensor, otherwise: Tensor) -> Tensor:
        """`then` where `condition` holds."""
        selected = condition.data
        data = np.where(selected, then.data, otherwise.data)
        undef: Any = condition.undef
        if then.undef is not None or otherwise.undef is not None:
            chosen = np.where(selected, lanes_of(then), lanes_of(otherwise))
            undef = chosen if undef is None else chosen | undef
        return Tensor(data, undef)


def _insert(big: Array, part: tuple[slice, ...], small: Array) -> Array:
    copy = np.array(big)
    copy[part] = small
    return copy
