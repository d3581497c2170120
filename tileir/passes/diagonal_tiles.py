"""Laws of diagonal tiles, which the paper leaves open (MAPL 2019, section 5.1.2).

A *diagonal tile* is `select(row == column, v, z)` of rank 2, where `row` and `column` count along
the two dimensions from the same start, `v` is uniform or varies along one dimension only (so that
its diagonal is a vector), and `z` is a literal. The laws are:

- Transposition: `trans(D) = D` if D is square.
- Reduction: `reduce(D, op) = op(v, z)`, along either dimension of extent 2 or more, if `op(z, z) =
  z`. The total of a diagonal tile with zeros off the diagonal is `v + 0`.
- Scaling: `dot(D, B, C) = C + v[:, new] * B` and `dot(A, D, C) = C + A * v[new, :]` if `z = 0`.
- Elementwise ops: `op(select(m, a, Z), select(m, b, Y)) = select(m, op(a, b), op(Z, Y))` for every
  elementwise op without effects and any mask m. The total or the elementwise multiplication of
  diagonal tiles is a diagonal tile.

All laws but scaling hold bit for bit. Scaling holds for integers. For floats, 0 * infinity is NaN,
so the law is applied only where the caller promises finite tiles.
"""

from __future__ import annotations

from typing import Any, cast

import attrs

from tileir.effects import Effects
from tileir.op import Op, lookup
from tileir.ops.arith import Add, Mul, Select
from tileir.ops.cast import FPExt, SExt, ZExt
from tileir.ops.fused import Fma
from tileir.ops.shape import Broadcast, ExpandDims, Trans
from tileir.rewrite import Answer, Replace, Walk
from tileir.signature import FLOATS, INTEGERS
from tileir.types import Type, element_of, shape_of, with_element
from tileir.values import Constant, Operand, Value


@attrs.frozen
class Diagonal:
    """A diagonal tile of `shape`: its diagonal, a vector or a uniform literal, and the literal
    next to it."""

    vector: Operand
    neighbour: Constant
    shape: tuple[int, ...]


@attrs.frozen
class Diagonals:
    """The laws of diagonal tiles; `finite` promises the finite floats that scaling needs."""

    finite: bool = False

    def visit(self, op: Any, walk: Walk) -> Answer:
        if op.predicate is not None or not op.results:
            return op
        if op.mnemonic == "trans":
            return _symmetry(op, walk)
        if op.mnemonic == "reduce":
            return _fold(op, walk)
        if op.mnemonic == "dot":
            return self._scale(op, walk)
        return _same(op, walk) if op.elementwise else op

    def _scale(self, op: Any, walk: Walk) -> Answer:
        """Compute a dot with a diagonal operand as an elementwise multiplication."""
        left, right = diagonal(op.a, walk), diagonal(op.b, walk)
        if left is not None and self._vanishes(left):
            return _scale_by_diagonal(op, left, op.b, axis=1, signs=(op.lhs_signed, op.rhs_signed))
        if right is not None and self._vanishes(right):
            return _scale_by_diagonal(op, right, op.a, axis=0, signs=(op.rhs_signed, op.lhs_signed))
        return op

    def _vanishes(self, diagonal: Diagonal) -> bool:
        element = element_of(diagonal.neighbour.type)
        exact = element in INTEGERS or (self.finite and element in FLOATS)
        return exact and diagonal.neighbour.value == 0


def diagonal(operand: Operand, walk: Walk) -> Diagonal | None:
    """The diagonal tile that `operand` is, if it is recognised as one."""
    select: Any = walk.definition(operand)
    if select is None or select.mnemonic != "select" or select.predicate is not None:
        return None
    shape = shape_of(operand.type)
    if len(shape) != 2 or type(select.otherwise) is not Constant:
        return None
    if not _on_diagonal(select.condition, walk):
        return None
    vector = _vector(select.then, walk)
    return None if vector is None else Diagonal(vector, select.otherwise, shape)


def _symmetry(op: Trans, walk: Walk) -> Answer:
    """Replace the transpose of a square diagonal tile by the tile."""
    square = op.value.type is op.results[0].type and op.order == (1, 0)
    return op.value if square and diagonal(op.value, walk) is not None else op


def _fold(op: Any, walk: Walk) -> Answer:
    """Replace a reduction of a diagonal tile by an op on its diagonal."""
    from tileir.passes.fold import fold_op

    word = getattr(op.combiner, "value", None)
    result = diagonal(op.values[0], walk) if word is not None else None
    if result is None or result.shape[0] != result.shape[1] or result.shape[0] < 2:
        return op
    combine: Any = lookup(cast(str, word))
    neighbour = Constant(op.results[0].type, result.neighbour.bits)
    folded = fold_op(combine(neighbour, neighbour), walk)
    same = isinstance(folded, Replace) and folded.values == (neighbour,)
    return combine(_as(result.vector, neighbour.type), neighbour) if same else op


def _scale_by_diagonal(
    op: Any, diagonal: Diagonal, other: Operand, *, axis: int, signs: Any
) -> Answer:
    """C + v * other, with `v` repeated along dimension `axis`."""
    ops: list[Op] = []
    type = op.c.type
    if diagonal.shape[0] != diagonal.shape[1] or len(shape_of(type)) != 2:
        return op
    vector = diagonal.vector
    if isinstance(vector, Constant):
        scale: Operand = Constant(
            with_element(type, cast(Any, element_of(vector.type))), vector.bits
        )
    else:
        column = _emit(ops, ExpandDims(vector, axis=axis))
        scale = _emit(
            ops, Broadcast(column, with_element(type, cast(Any, element_of(vector.type))))
        )
    wide = [_widen(v, type, signed, ops) for v, signed in zip((scale, other), signs, strict=True)]
    if any(v is None for v in wide):
        return op
    left, right = cast("list[Operand]", wide)
    if element_of(type) in INTEGERS:
        product = _emit(ops, Mul(left, right))
        return [*ops, Add(product, op.c)]
    return [*ops, Fma(left, right, op.c)]


def _widen(operand: Operand, type: Type, signed: bool, ops: list[Op]) -> Operand | None:
    """`operand` in the element of the accumulator `type`."""
    element = element_of(operand.type)
    if operand.type is type:
        return operand
    if element in INTEGERS and element_of(type) in INTEGERS:
        return _emit(ops, (SExt if signed else ZExt)(operand, type))
    return _emit(ops, FPExt(operand, type)) if element in FLOATS else None


def _same(op: Op, walk: Walk) -> Answer:
    """Merge two selects with one mask under an elementwise op."""
    from tileir.passes.fold import fold_op

    inputs = op.inputs
    if len(inputs) != 2 or op.effects is not Effects.PURE or len(op.results) != 1:
        return op
    selects: list[Any] = [walk.definition(v) for v in inputs]
    if any(s is None or s.mnemonic != "select" or s.predicate is not None for s in selects):
        return op
    first, second = selects
    literal = type(first.otherwise) is type(second.otherwise) is Constant
    if first.condition is not second.condition or not literal or first is second:
        return op
    names = [f.name for f in op.schema[:2]]
    inner = op.evolve(**dict(zip(names, (first.then, second.then), strict=True)), results=())
    outer_values = dict(zip(names, (first.otherwise, second.otherwise), strict=True))
    outer = fold_op(op.evolve(**outer_values, results=()), walk)
    if not isinstance(outer, Replace) or op.mnemonic == "select":
        return op
    return [inner, Select(first.condition, inner.results[0], outer.values[0])]


def _on_diagonal(mask: Operand, walk: Walk) -> bool:
    """Whether `mask` holds exactly where the two indices are equal."""
    compare: Any = walk.definition(mask)
    if compare is None or compare.mnemonic != "icmp" or compare.predicate is not None:
        return False
    word = compare.predicate_.value
    if (word, compare.results.index(mask)) not in (("eq", 0), ("ne", 1)):
        return False
    first, second = _counting(compare.lhs, walk), _counting(compare.rhs, walk)
    if first is None or second is None:
        return False
    return {first[0], second[0]} == {0, 1} and first[1] == second[1]


def _counting(operand: Operand, walk: Walk) -> tuple[int, int] | None:
    """(axis, start) where `operand` is an index that counts along `axis` only."""
    spread = _spread(operand, walk)
    if spread is None:
        return None
    axis, vector = spread
    counter: Any = walk.definition(vector)
    if counter is None or counter.mnemonic != "make_range":
        return None
    return axis, counter.start


def _spread(operand: Operand, walk: Walk) -> tuple[int, Value] | None:
    """(axis, vector) where `operand` of rank 2 repeats a vector that varies along `axis`."""
    op: Any = walk.definition(operand)
    if op is not None and op.mnemonic == "broadcast":
        op = walk.definition(op.value)
    if op is None or op.mnemonic not in ("expand_dims", "reshape"):
        return None
    source, shape = op.value, shape_of(op.results[0].type)
    if len(shape_of(source.type)) != 1 or len(shape) != 2 or 1 not in shape:
        return None
    return (0 if shape[1] == 1 else 1), source


def _vector(operand: Operand, walk: Walk) -> Operand | None:
    """The diagonal of a tile that is uniform or varies along one dimension."""
    if type(operand) is Constant:
        return operand
    spread = _spread(operand, walk)
    return None if spread is None else spread[1]


def _as(vector: Operand, type: Type) -> Operand:
    return Constant(type, vector.bits) if isinstance(vector, Constant) else vector


def _emit(ops: list[Op], op: Op) -> Value:
    ops.append(op)
    return op.results[0]
