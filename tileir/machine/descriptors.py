"""Tensor descriptors as addresses and masks."""

from __future__ import annotations

import attrs
import numpy as np

from tileir.machine.tensor import Array, Tensor, dtype_of
from tileir.types import Descriptor, Tile


@attrs.frozen(eq=False)
class DescriptorValue:
    """A strided tensor at `base` (an address): extents and strides in elements."""

    base: Tensor
    extents: tuple[Tensor, ...]
    strides: tuple[Tensor, ...]
    block: Tile
    padding: str


class Descriptors:
    """The methods of a machine for `tileir.ops.descriptor`, besides loads and stores."""

    def make_descriptor(
        self, base: Tensor, dimensions: tuple[Tensor, ...], type: Descriptor, padding: str
    ) -> DescriptorValue:
        """A descriptor of pairs of extent and stride."""
        return DescriptorValue(base, dimensions[::2], dimensions[1::2], type.block, padding)

    def block(
        self, descriptor: DescriptorValue, indices: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Addresses of the block at `indices`, where they are in the tensor, and the padding."""
        axes = [
            _spread(int(i.data) + np.arange(n), axis, len(descriptor.block.shape))
            for axis, (i, n) in enumerate(zip(indices, descriptor.block.shape, strict=True))
        ]
        return _access(descriptor, axes, (descriptor.base, *indices))

    def rows(
        self, descriptor: DescriptorValue, index: Tensor, column: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same for rows `index`, from `column` on."""
        width = descriptor.block.shape[1]
        axes = [
            _spread(index.data.astype(np.int64), 0, 2),
            _spread(int(column.data) + np.arange(width), 1, 2),
        ]
        return _access(descriptor, axes, (descriptor.base, index, column))


def _spread(positions: Array, axis: int, rank: int) -> Array:
    shape = [1] * rank
    shape[axis] = -1
    return positions.reshape(shape)


def _access(
    descriptor: DescriptorValue, axes: list[Array], reads: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    offset: Array = np.int64(0)  # type: ignore[assignment]
    inside: Array = np.True_  # type: ignore[assignment]
    for position, extent, stride in zip(axes, descriptor.extents, descriptor.strides, strict=True):
        inside = inside & (position >= 0) & (position < int(extent.data))
        offset = offset + position * int(stride.data)
    size = descriptor.block.element.bytes
    address = np.where(inside, descriptor.base.data + (offset * size).astype(np.uint64), 0)
    numbers = (*reads, *descriptor.extents, *descriptor.strides)
    lost = any(t.undef is not None and t.undef.any() for t in numbers)
    flags = np.ones(inside.shape, np.bool_) if lost else None
    dtype = dtype_of(descriptor.block.element)
    padding = np.zeros(inside.shape, dtype)
    if descriptor.padding == "nan":
        padding = np.full(inside.shape, np.nan).astype(dtype)
    return Tensor(address.astype(np.uint64), flags), Tensor(inside, None), Tensor(padding)
