"""Bitonic sorting networks (Batcher, "Sorting networks and their applications", 1968) along rows
whose extent is a power of two.

A row of 2^n elements is a cube of n extents of 2, one per bit of the index. The element whose index
differs in one bit is `x ^ (exclusive or of both)`: a reduction along that dimension, which is a
rename where the layout has the bit in registers, and one shuffle where it has it in lanes. Every
comparison leaves the smaller element at the lower index: a part that is to descend is complemented
meanwhile. Keys are integers, so that equal ones have the same bits.
"""

from __future__ import annotations

from typing import Any

import attrs

from tileir.builder import I16, I32, I64, Expr
from tileir.types import element_of, with_element


def sort_rows(b: Any, rows: Expr, descending: bool) -> Expr:
    """Every row of a tile of two dimensions in order."""
    keys = _keys(b, rows, complemented=descending)
    cube = _Cube(b, keys.shape[1].bit_length() - 1)
    x = cube.sort(cube.of(keys), cube.bits)
    return _elements(b, x.reshape(*rows.shape), rows, complemented=descending)


def greatest(b: Any, rows: Expr, count: int, descending: bool) -> Expr:
    """The `count` greatest elements of every row, a power of two, the greatest first; the least,
    the least first, unless `descending`.

    Parts of `count` elements are sorted, alternately up and down. The larger elements of two
    parts are the largest of both, and bitonic."""
    keys = _keys(b, rows, complemented=descending)
    cube, part = _Cube(b, keys.shape[1].bit_length() - 1), count.bit_length() - 1
    x = cube.sort(cube.of(keys), part)
    for _ in range(part, cube.bits):
        x = b.reduce(x, axis=cube.axis(part), combiner="smin")
        cube = _Cube(b, cube.bits - 1)
        x = cube.merge(x, part)
    return _elements(b, x.reshape(rows.shape[0], count), rows, complemented=descending)


@attrs.frozen(eq=False)
class _Cube:
    """Rows as cubes: dimension 0 is the row, the others the `bits` of the index, highest first."""

    b: Any
    bits: int

    def of(self, rows: Expr) -> Expr:
        """A tile of two dimensions as cubes."""
        return rows.reshape(rows.shape[0], *(2,) * self.bits)

    def axis(self, bit: int) -> int:
        """The dimension of a bit of the index."""
        return self.bits - bit

    def sort(self, x: Expr, stages: int) -> Expr:
        """Parts of 2^stages elements in order, alternately up and down."""
        for stage in range(stages):
            x = self.merge(x, stage + 1)
        return x

    def merge(self, x: Expr, stages: int) -> Expr:
        """Bitonic parts of 2^stages elements in order, alternately up and down."""
        if stages < self.bits:
            mask = self._mask(x, stages)
            return self._ascending(x ^ mask, stages) ^ mask
        return self._ascending(x, stages)

    def _ascending(self, x: Expr, stages: int) -> Expr:
        for bit in reversed(range(stages)):
            x = self._compare(x, bit)
        return x

    def _compare(self, x: Expr, bit: int) -> Expr:
        b, axis = self.b, self.axis(bit)
        combined = b.reduce(x, axis=axis, combiner="xor")
        shape = [1 if d == axis else n for d, n in enumerate(x.shape)]
        other = x ^ combined.reshape(*shape).broadcast_to(*x.shape)
        return b.select(self._index_bit(x, bit) != 0, b.smax(x, other), b.smin(x, other))

    def _index_bit(self, x: Expr, bit: int) -> Expr:
        along = [2 if d == self.axis(bit) else 1 for d in range(self.bits + 1)]
        return self.b.arange(2).reshape(*along).broadcast_to(*x.shape)

    def _mask(self, x: Expr, bit: int) -> Expr:
        """All ones where `bit` of the index is 1."""
        return -self._index_bit(x, bit).to(element_of(x.type))  # type: ignore[arg-type]


def _keys(b: Any, x: Expr, *, complemented: bool) -> Expr:
    """Integers of 32 or 64 bits in the order of the elements, NaNs last; the other order if
    `complemented`."""
    element: Any = element_of(x.type)
    if element.is_float:
        bits = b.bitcast(x, with_element(x.type, _INTEGERS[element.bits]))
        size = bits & ((1 << element.bits - 1) - 1)
        bits = b.select(x != x, size, bits)
        x = b.select(bits < 0, bits ^ ((1 << element.bits - 1) - 1), bits)
    wide = x.to(I32) if element.bits < 32 else x
    return ~wide if complemented else wide


def _elements(b: Any, keys: Expr, like: Expr, *, complemented: bool) -> Expr:
    """The elements, of the type of `like`, that have these keys."""
    element: Any = element_of(like.type)
    x = ~keys if complemented else keys
    if not element.is_float:
        return x.to(element) if element.bits < 32 else x
    x = x.to(_INTEGERS[element.bits]) if element.bits < 32 else x
    bits = b.select(x < 0, x ^ ((1 << element.bits - 1) - 1), x)
    return b.bitcast(bits, with_element(bits.type, element))


_INTEGERS = {16: I16, 32: I32, 64: I64}
