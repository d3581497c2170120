"""Addresses of rows whose stride is only known when a kernel runs.

`row * n + column` with `0 <= column < n` is another address for another row or another column:
masks keep the columns of every access within `n`. The address forms of barrier placement know no
multiple of a value. For them the stride is replaced by 0: two addresses that are equal with stride
`n` have the same row and the same column, so they are equal with any stride. With 0, columns that
move from iteration to iteration pass those of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

import attrs

from tileir.analysis.loops import loops
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Overflow
from tileir.ops.cast import SExt
from tileir.ops.shape import Broadcast, ExpandDims, Reshape, Splat
from tileir.types import Tile, element_of
from tileir.values import Constant, Operand, Value

_SAME_NUMBER = (Splat, Broadcast, Reshape, ExpandDims, SExt)
"""Ops that place a number elsewhere, or widen it."""

_NO_SIGNED_WRAP = frozenset({Overflow.NSW, Overflow.BOTH})

_PLACES = (Reshape, ExpandDims)

_Term: TypeAlias = "tuple[Value, tuple[tuple[int, ...], ...]]"
"""A number, and the shapes that its tile is given, which tell its dimension."""

Accesses: TypeAlias = Mapping["Value | None", "list[tuple[Op, Operand]]"]
"""The memory accesses and their pointers, by the parameter that the pointers are derived from
(None: unknown)."""


@attrs.frozen
class _RowAccess:
    """The form of an access: multiples of a row and `stride` are added to a column below it, and to
    numbers that never change."""

    element: Any
    stride: Value | int
    constant: frozenset[Value]
    multiples: frozenset[Op] = attrs.field(eq=False)


def with_constant_strides(function: Function, accesses: Accesses) -> Function:
    """`function`, for address forms alone: with 0 in place of the stride in rows of
    parameters that are accessed in no other way, where every pointer is derived from one."""
    if None in accesses:
        return function
    search = _RowSearch(function)
    multiples, excluded = set[Op](), set[Op]()
    for group in accesses.values():
        rows = [search.rows_of(op, pointer) for op, pointer in group]
        used = {op for _, pointer in group for op in search.multiples(pointer)}
        first = rows[0]
        if first is not None and all(r == first for r in rows):
            multiples |= {op for r in rows if r is not None for op in r.multiples}
        else:
            excluded |= used
    if excluded & multiples or not multiples:
        return function
    replaced = {op: _multiplied_by_0(op) for op in multiples}
    return function.with_blocks(
        {
            label: attrs.evolve(block, ops=tuple([replaced.get(op, op) for op in block.ops]))
            for label, block in function.blocks.items()
        }
    )


def _multiplied_by_0(op: Any) -> Op:
    return op.evolve(rhs=Constant(op.rhs.type, 0))


class _RowSearch:
    def __init__(self, function: Function) -> None:
        self.function, self.defined = function, definitions(function)
        around = loops(function)
        in_loops = {label for loop in around.by_header.values() for label in loop.order}
        self.constant = {p.value for p in function.parameters} | {
            value
            for label, block in function.blocks.items()
            if label not in in_loops
            for op in block.ops
            for value in op.results
        }

    def rows_of(self, op: Any, pointer: Operand) -> _RowAccess | None:
        """The rows that an access through `pointer` is to; None where it is none of the form."""
        mask = getattr(op, "mask", None)
        if not isinstance(pointer.type, Tile) or mask is None:
            return None
        terms = self._terms((pointer, ()))
        if terms is None:
            return None
        for column, bound in self._bounds(mask):
            stride, column_terms = self.everywhere(bound), self._terms(column)
            if stride is None or column_terms is None:
                continue
            if isinstance(stride, Value) and stride not in self.constant:
                continue
            rows = [t for t in terms if self._is_multiple(t[0], stride)]
            base_terms = _without(terms, [*rows, *column_terms])
            if len(rows) != 1 or base_terms is None or ranges(self.function).of(column[0])[0] < 0:
                continue
            if all(v in self.constant and not isinstance(v.type, Tile) for v, _ in base_terms):
                constant = frozenset(v for v, _ in base_terms)
                if len(constant) == len(base_terms):
                    multiple = self.defined[rows[0][0]]
                    kind = element_of(pointer.type)
                    return _RowAccess(kind, stride, constant, frozenset({multiple}))
        return None

    def multiples(self, pointer: Operand) -> Iterator[Op]:
        """The multiples of two values that an address depends on."""
        pending, seen = [pointer], set[Operand]()
        while pending:
            value = pending.pop()
            if value in seen or not isinstance(value, Value):
                continue
            seen.add(value)
            op = self.defined.get(value)
            if op is not None:
                if op.mnemonic == "mul":
                    yield op
                pending += op.operands

    def everywhere(self, operand: Operand) -> Value | int | None:
        """The scalar or the number that `operand` holds in every element."""
        value, _ = self._source((operand, ()))
        if isinstance(value, Constant):
            return int(value.value)
        return value if isinstance(value, Value) and not isinstance(value.type, Tile) else None

    def _source(self, term: tuple[Operand, Any]) -> tuple[Operand, Any]:
        """The number that an operand holds, and where: literals and scalars are everywhere."""
        operand, places = term
        while isinstance(operand, Value):
            op: Any = self.defined.get(operand)
            if op is None or not isinstance(op, _SAME_NUMBER):
                break
            if isinstance(op, _PLACES):
                places = (*places, cast(Tile, op.results[0].type).shape)
            operand = op.inputs[0]
        is_tile = isinstance(operand, Value) and isinstance(operand.type, Tile)
        return operand, places if is_tile else ()

    def _terms(self, term: tuple[Operand, Any]) -> list[_Term] | None:
        """The summands of an operand; None if there is a literal."""
        terms, pending = list[_Term](), [term]
        while pending:
            value, places = self._source(pending.pop())
            if not isinstance(value, Value):
                return None
            op: Any = self.defined.get(value)
            if op is not None and op.mnemonic == "getelementptr":
                pending += [(op.pointer, places), (op.index, places)]
            elif op is not None and op.mnemonic == "add" and op.overflow in _NO_SIGNED_WRAP:
                pending += [(op.lhs, places), (op.rhs, places)]
            else:
                terms.append((value, places))
        return terms

    def _is_multiple(self, value: Value, stride: Value | int) -> bool:
        op: Any = self.defined.get(value)
        if op is None or op.mnemonic != "mul" or op.overflow not in _NO_SIGNED_WRAP:
            return False
        return stride in (self.everywhere(op.lhs), self.everywhere(op.rhs))

    def _bounds(self, mask: Operand) -> Iterator[tuple[_Term, Operand]]:
        """The comparisons that hold where `mask` does: what is less than what."""
        pending: list[tuple[Operand, Any]] = [(mask, ())]
        while pending:
            value, places = self._source(pending.pop())
            op: Any = self.defined.get(value) if isinstance(value, Value) else None
            if op is None:
                continue
            if op.mnemonic == "and":
                pending += [(x, places) for x in op.inputs]
            elif op.mnemonic == "icmp" and value is op.results[0] and op.predicate_.value == "slt":
                lhs, places = self._source((op.lhs, places))
                if isinstance(lhs, Value):
                    yield (lhs, places), op.rhs


def _without(terms: list[_Term], part: list[_Term]) -> list[_Term] | None:
    """`terms` less those of `part`, each once; None where one is missing."""
    pending = list(terms)
    for term in part:
        if term not in pending:
            return None
        pending.remove(term)
    return pending
