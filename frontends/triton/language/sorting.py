"""Sorting of tensors: by a bitonic network for extents that are powers of two, else by the standard
library's sorting network."""

from __future__ import annotations

from typing import Any

from tileir.builder import I1, I8, I32, Expr
from tileir.frontends.triton.dtypes import DType
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language import network
from tileir.frontends.triton.language.builtin import (
    CompileScope,
    axis_of,
    builtin,
    method,
    static,
    static_integer,
)
from tileir.frontends.triton.tensor import Tensor, describe
from tileir.types import element_of, tile


@method
def sort(s: CompileScope, x: Tensor, dim: Any = None, descending: Any = False) -> Tensor:
    """`x` in order along `dim`, the last, of any extent; NaNs are greater than numbers."""
    rows = _KeyRows(s, x, dim)
    down = bool(static(descending, "descending"))
    if _power_of_two(rows.extent):
        return rows.back(network.sort_rows(s.b, rows.keys, down))
    return rows.back(s.b.library("sort", rows.keys, down))


@method
def topk(s: CompileScope, x: Tensor, k: Any, dim: Any = None, descending: Any = True) -> Tensor:
    """The `k` greatest along `dim`, the last, the greatest first; else the least."""
    rows, count = _KeyRows(s, x, dim), static_integer(k, "k")
    if not 0 < count <= rows.extent:
        raise KernelError(f"topk of {count} along {rows.extent} elements")
    down = bool(static(descending, "descending"))
    if _power_of_two(count) and _power_of_two(rows.extent):
        return rows.back(network.greatest(s.b, rows.keys, count, down))
    elements: Any = (element_of(rows.keys.type), I32)
    kinds = [tile(e, (rows.keys.shape[0], count)) for e in elements]
    return rows.back(s.b.library("topk", rows.keys, down, results=kinds)[0])


def _power_of_two(n: int) -> bool:
    return not n & (n - 1)


class _KeyRows:
    """A tensor as rows of keys, signed integers or floats in the order of its elements."""

    def __init__(self, s: CompileScope, x: Any, dim: Any) -> None:
        if not isinstance(x, Tensor) or not isinstance(x.dtype, DType) or not x.shape:
            raise KernelError(f"sort needs tensors of numbers, not {describe(x)}")
        self.s, self.dtype, rank = s, x.dtype, len(x.shape)
        axis = rank - 1 if static(dim, "dim") is None else axis_of(x, dim)
        self.order = [*(d for d in range(rank) if d != axis), axis]
        moved = x.expr.permute(*self.order)
        self.outer, self.extent = moved.shape[:-1], x.shape[axis]
        self.keys = self._flip_sign_bit(moved.reshape(-1, self.extent), I8)

    def back(self, rows: Expr) -> Tensor:
        """Rows of keys as a tensor like the original one."""
        result = self._flip_sign_bit(rows, I1).reshape(*self.outer, rows.shape[-1])
        inverse = [self.order.index(d) for d in range(len(self.order))]
        return Tensor(result.permute(*inverse), self.dtype)

    def _flip_sign_bit(self, x: Expr, boolean: Any) -> Expr:
        """Unsigned integers as signed ones in the same order, and back; `boolean` for int1."""
        if self.dtype.is_bool():
            return x.to(boolean)
        if self.dtype.is_floating() or self.dtype.signed:
            return x
        return x ^ (-1 << self.dtype.primitive_bitwidth - 1)


@builtin
def bitonic_merge(s: CompileScope, x: Tensor, dim: Any = None, descending: Any = False) -> Tensor:
    """A bitonic sequence along `dim` in order."""
    return sort.apply(s, x, dim, descending)
