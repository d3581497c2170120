"""The same access with its lanes along another dimension: the alternatives that layout assignment
chooses between (MAPL 2019, Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from tileir.layout import Layout, Vector
from tileir.layout_tilings import blocked_layout
from tileir.op import Op
from tileir.tools.view.tracing import WARP, TracedAccess
from tileir.types import Pointer, Tile

_SAMPLE = 256
"""The number of addresses that determine the affine function; all others are compared with it."""


@attrs.frozen
class AffineAddresses:
    """Addresses that are `base` plus the sum of each coordinate times its stride, in bytes."""

    base: int
    strides: Vector

    def at(self, coordinate: Vector) -> int:
        """The address of an element."""
        return self.base + sum(x * n for x, n in zip(coordinate, self.strides, strict=True))


@attrs.frozen
class TransposedAccesses:
    """The accesses of the first warp if its lanes were along dimension `dim`."""

    dim: int
    addresses: tuple[int | None, ...]
    size: int


def transposed_accesses(op: Op, accesses: Sequence[TracedAccess]) -> TransposedAccesses | None:
    """The accesses of `op`, whose tile has several rows and columns, with lanes along another
    dimension; None if the addresses are not an affine function of the coordinates."""
    tile = op.inputs[0].type
    if not isinstance(tile, Tile) or not isinstance(tile.element, Pointer):
        return None
    wide = [d for d, n in enumerate(tile.shape) if n > 1]
    result = affine(tile.layout, accesses, tile.element.pointee.bytes) if len(wide) > 1 else None
    if result is None:
        return None
    along = _along(tile.layout)
    dim = next(d for d in reversed(wide) if d != along)
    order = (dim, *(d for d in reversed(range(len(tile.shape))) if d != dim))
    row_layout = blocked_layout(tile.shape, order, 1, tile.layout.size("warp"))
    coordinates = [row_layout.coordinate(0, lane) for lane in range(WARP)]
    inside = [all(x < n for x, n in zip(at, tile.shape, strict=True)) for at in coordinates]
    addresses = [result.at(a) if i else None for a, i in zip(coordinates, inside, strict=True)]
    return TransposedAccesses(dim, tuple(addresses), tile.element.pointee.bytes)


def _along(layout: Layout) -> int | None:
    """The dimension along which neighbouring lanes, or the registers of a thread, own
    neighbours."""
    steps = [layout.coordinate(0, 1), layout.coordinate(1 if layout.size("register") > 1 else 0)]
    near = [v for v in steps if sum(v) == 1]
    return near[0].index(1) if near else None


def affine(layout: Layout, accesses: Sequence[TracedAccess], size: int) -> AffineAddresses | None:
    """The affine function that yields the address of every accessed element of `size` bytes; None
    if there is none. Each access has the next registers of `layout`."""
    registers = layout.size("register")
    wide = accesses[0].size // size
    if wide * len(accesses) != registers or any(a.size != wide * size for a in accesses):
        return None
    rows = [
        (layout.coordinate(i * wide, thread % WARP, thread // WARP), int(access.addresses[thread]))
        for i, access in enumerate(accesses)
        for thread in range(len(access.addresses))
    ]
    step = max(1, len(rows) // _SAMPLE)
    columns = np.array([(1, *at) for at, _ in rows[::step]], float)
    required = np.array([address for _, address in rows[::step]], float)
    solved = np.linalg.lstsq(columns, required, rcond=None)[0]
    base, *strides = (round(float(x)) for x in solved)
    result = AffineAddresses(base, tuple(strides))
    return result if all(result.at(at) == address for at, address in rows) else None
