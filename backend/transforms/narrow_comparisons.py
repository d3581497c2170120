"""Comparisons of 32 bits in place of 64-bit comparisons of a range of indices with a scalar.

A loss compares the columns that a loop reached with a label of 64 bits. LLVM moves what it can of
`start + column == label` before the loop: a difference of two registers for each column that a
thread owns. Of `column == label - start` the difference is one scalar.
"""

from __future__ import annotations

from typing import Any

import attrs

from tileir.analysis.ranges import Ranges, ranges
from tileir.analysis.uses import definitions
from tileir.backend.transforms.op_builder import OpBuilder
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Sub, UMin
from tileir.ops.cast import SExt, Trunc, ZExt
from tileir.ops.shape import Splat
from tileir.types import I32, I64, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value

_EQUALITIES = (IntegerPredicate.EQ, IntegerPredicate.NE)
_FEWEST = 8
"""The elements of a thread from which on their comparisons outweigh the difference."""
_BEYOND = 1 << 31
"""The least number that no index has: negative in 32 bits."""


def narrow_comparisons(function: Function, threads: int) -> Function:
    """`function`, which `threads` threads run, in which 64-bit tiles are compared for equality in
    32 bits, if they are the sum of a scalar and nonnegative numbers that were extended from 32
    bits, and are compared with a scalar. Tiles of which threads own few elements stay as they are.
    """
    least = _FEWEST * threads
    if not any(is_wide_equality(op, least) for op in function.ops):
        return function
    narrowing = _Narrowing(function, ranges(function), least)
    blocks = function.blocks.items()
    return function.with_blocks(
        {
            label: attrs.evolve(
                block, ops=tuple(new for op in block.ops for new in narrowing.apply(op, label))
            )
            for label, block in blocks
        }
    )


def is_wide_equality(op: Op, least: int) -> bool:
    """Whether `op` compares tiles of `least` or more 64-bit integers for equality."""
    if not isinstance(op, ICmp) or op.predicate is not None or op.predicate_ not in _EQUALITIES:
        return False
    kind = op.lhs.type
    return isinstance(kind, Tile) and kind.element is I64 and kind.size >= least


@attrs.frozen
class _Narrowing:
    function: Function
    bounds: Ranges
    least: int

    def apply(self, op: Any, label: str) -> list[Op]:
        """The ops in place of `op`."""
        if not is_wide_equality(op, self.least):
            return [op]
        for tile, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            scalar, terms = self._scalar_of(other), self._terms(tile)
            if scalar is not None and terms is not None and self.bounds.at(terms[1], label)[0] >= 0:
                return _compare_words(op, scalar, *terms)
        return [op]

    def _terms(self, tile: Operand) -> tuple[Operand, Operand] | None:
        """The scalar of 64 bits and the tile of 32 bits whose sum is `tile`."""
        total = self._definition(tile)
        if not isinstance(total, Add):
            return None
        for first, second in ((total.lhs, total.rhs), (total.rhs, total.lhs)):
            scalar, extension = self._scalar_of(first), self._definition(second)
            if scalar is not None and isinstance(extension, SExt | ZExt):
                value = extension.value
                return (scalar, value) if element_of(value.type) is I32 else None
        return None

    def _scalar_of(self, operand: Operand) -> Operand | None:
        """The scalar that every element of `operand` is; None if they may differ."""
        if isinstance(operand, Constant):
            return Constant(I64, operand.bits)
        splat = self._definition(operand)
        return splat.value if isinstance(splat, Splat) else None

    def _definition(self, operand: Operand) -> Any:
        op = definitions(self.function).get(operand) if isinstance(operand, Value) else None
        return op if op is not None and op.predicate is None else None


def _compare_words(op: Any, scalar: Operand, start: Operand, tile: Operand) -> list[Op]:
    """`tile` compared with `scalar` - `start`, clamped to a number that `tile` never has."""
    builder = OpBuilder(op)
    difference = builder.add(Sub(scalar, start))
    clamped = builder.add(UMin(difference, builder.literal(I64, _BEYOND)))
    sought = builder.splat(builder.add(Trunc(clamped, I32)), shape_of(tile.type))
    builder.add_final(ICmp(tile, sought, predicate_=op.predicate_))
    return builder.ops
