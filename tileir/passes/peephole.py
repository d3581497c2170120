"""Tile-level peephole optimisation (MAPL 2019, section 5.1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from tileir.analysis.dominance import dominance
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.field import FieldKind
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.ops.rearrange import Unsplat
from tileir.ops.shape import Reshape, Trans
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Replace, Walk, rewrite
from tileir.types import I1, Element, Tile, Type, element_of, shape_of, with_element
from tileir.values import Constant, Operand, Value


@pass_("peephole")
def peephole(function: Function, *, finite: bool = False) -> Function:
    """Simplify chains of ops on whole tiles.

    - Reshapes, broadcasts and splats that follow each other are merged (the laws of
      `laws/shapes.py`).
    - Two transpositions are merged. A transposition that changes nothing is removed. One that only
      moves dimensions of extent 1 becomes a reshape.
    - An elementwise op on splats becomes a splat of the op on scalars. An elementwise op on tiles
      that are all broadcast, transposed, reshaped or expanded in the same way is computed before
      that movement.
    - A reduction along a dimension of extent 1 becomes a reshape. A scan along such a dimension is
      replaced by its operand.
    - `d + dot(a, b, 0)` becomes `dot(a, b, d)` if the dot has no other use.
    - `select(m, load(p, m), e)` becomes `load(p, m, e)` if the load has no other use and the
      definition of `e` dominates the load.
    - Ops on diagonal tiles are simplified by the laws in `tileir.passes.diagonal_tiles`.

    `finite` promises that tiles multiplied by diagonal tiles have no infinity and no NaN.

    before:
        define void @f(f32*<8, 4> %p, f32<4, 8> %x, f32 %s) {
        entry:
          %t = trans f32<8, 4> %x {order = [1, 0]}
          %u = trans f32<4, 8> %t {order = [1, 0]}
          %v = trans f32<8, 4> %u {order = [1, 0]}
          store %p, %v
          ret
        }
    after:
        define void @f(f32*<8, 4> %p, f32<4, 8> %x, f32 %s) {
        entry:
          %t = trans f32<8, 4> %x {order = [1, 0]}
          %v = trans f32<8, 4> %x {order = [1, 0]}
          store %p, %v
          ret
        }
    """
    from tileir.analysis.partial import kept_undefined
    from tileir.passes.diagonal_tiles import Diagonals
    from tileir.passes.fold import unless_kept
    from tileir.passes.laws.law import rules
    from tileir.passes.laws.shapes import SHAPES

    function = _others(function)
    tiles = _UserRules(function)
    diagonals = Diagonals(finite=finite)
    general = (sink, extent_one, diagonals.visit)
    by_mnemonic = {"trans": transposition, "fadd": tiles.product, "add": tiles.product}
    rule = rules(SHAPES, first=general, by_mnemonic=by_mnemonic)
    undefined = kept_undefined(function)
    return rewrite(function, unless_kept(undefined, rule) if undefined else rule)


def transposition(op: Any, walk: Walk) -> Answer:
    """Merge two transpositions; remove or reshape one that moves no elements."""
    inner: Any = walk.definition(op.value)
    if inner is not None and inner.mnemonic == "trans" and inner.predicate is None:
        order = tuple(inner.order[d] for d in op.order)
        return Trans(inner.value, order=order, predicate=op.predicate)
    if op.order == tuple(range(len(op.order))):
        return op.value
    shape = shape_of(op.value.type)
    moved = [d for d in op.order if shape[d] != 1]
    if moved == sorted(moved):
        return Reshape(op.value, op.results[0].type, predicate=op.predicate)
    return op


def sink(op: Op, walk: Walk) -> Answer:
    """Compute an elementwise op before a shape op that all its operands share."""
    if not op.elementwise or not op.results or _is_tile(op.predicate):
        return op
    movers: list[Any] = []
    for operand in op.inputs:
        if type(operand) is Constant:
            continue
        mover = walk.definition(operand)
        if mover is None or not _moves_tile(mover) or mover.predicate is not None:
            return op
        if movers and not _alike(movers[0], mover):
            return op
        movers.append(mover)
    if not movers or (movers[0].mnemonic not in ("splat", "broadcast") and len(movers) < 2):
        return op
    return _sunk(op, movers[0], walk)


def _moves_tile(op: Op) -> bool:
    """Whether the result is a tile of elements of the first operand."""
    return op.moves_elements and isinstance(op.results[0].type, Tile)


def _alike(first: Op, second: Op) -> bool:
    """Whether two movers move the same way, from one shape to another."""
    return (
        first.mnemonic == second.mnemonic
        and first.attributes == second.attributes
        and _layout_and_shape(first.inputs[0].type) == _layout_and_shape(second.inputs[0].type)
        and shape_of(first.results[0].type) == shape_of(second.results[0].type)
    )


def _layout_and_shape(type: Type) -> Type:
    """`type` without its element."""
    return with_element(type, I1)


def _sunk(op: Op, mover: Any, walk: Walk) -> Answer:
    """`op` on the operands of the movers, and each of its results moved."""
    unmoved = mover.inputs[0].type

    def before(operand: Operand) -> Operand:
        at = with_element(unmoved, cast(Element, element_of(operand.type)))
        if isinstance(operand, Constant):
            return Constant(at, operand.bits)
        return cast(Op, walk.definition(operand)).inputs[0]

    changes = op.map_fields(
        before, lambda kind: with_element(unmoved, cast(Element, element_of(kind)))
    )
    small = op.with_fields(**changes, results=(), comments=())
    moved = [_move(mover, new, old) for new, old in zip(small.results, op.results, strict=True)]
    return Replace(tuple(m.results[0] for m in moved), (small, *moved))


def _move(mover: Any, value: Value, old: Value) -> Op:
    """`value` moved as `mover` moves its operand, as a value with the name of `old`."""
    stated = {f.name: old.type for f in mover.fields(FieldKind.RESULT_TYPE)}
    name = mover.schema[0].name
    results = (Value(old.type, old.name),)
    changes = {name: value, **stated, "results": results, "comments": (), "location": None}
    return attrs.evolve(mover, **changes)


def extent_one(op: Any, walk: Walk) -> Answer:
    """Remove a reduction or scan along a dimension of extent 1."""
    if not op.predicate_follows_operand or not hasattr(op, "combiner") or op.predicate is not None:
        return op
    if shape_of(op.values[0].type)[op.axis] != 1:
        return op
    if all(v.type is r.type for v, r in zip(op.values, op.results, strict=True)):
        return Replace(op.values)
    result = [
        Reshape(v, r.type) if isinstance(r.type, Tile) else Unsplat(v)
        for v, r in zip(op.values, op.results, strict=True)
    ]
    return Replace(tuple(m.results[0] for m in result), tuple(result))


class _UserRules:
    """Rules that need to know who reads a value."""

    def __init__(self, function: Function) -> None:
        self.readers = uses(function)
        self.defining_blocks = defining_blocks(function)

    def product(self, op: Any, walk: Walk) -> Answer:
        """Move an addition to a dot without accumulator into the dot."""
        if op.mnemonic == "fadd" and (op.rounding.value != "rn" or op.ftz):
            return op
        for term, other in (op.inputs, op.inputs[::-1]):
            dot: Any = walk.definition(term)
            if dot is None or dot.mnemonic != "dot" or dot.predicate is not None:
                continue
            readers = self.readers.get(term, ())  # of the function as it was
            alone = (
                self.defining_blocks.get(term) == walk.label
                and len(readers) == 1
                and readers[0].results == op.results
            )
            if _is_zero(dot.c) and alone:
                return attrs.evolve(dot, c=other, results=(), comments=(), predicate=op.predicate)
        return op


def _is_zero(operand: Operand) -> bool:
    return type(operand) is Constant and operand.value == 0


def _is_tile(predicate: Operand | None) -> bool:
    return predicate is not None and isinstance(predicate.type, Tile)


def _others(function: Function) -> Function:
    """Move the third operand of a `select` on the mask of a load into the load."""
    origin = definitions(function)
    places = {op: index for index, op in enumerate(function.ops)}
    loads: dict[Value, Operand] = {}
    selects: set[Value] = set()
    for op in function.ops:
        if op.mnemonic == "select" and op.predicate is None:
            load = _merge_select(function, op, origin.get(cast(Value, op.inputs[1])), places)
            if load is not None:
                loads[load.results[0]] = op.inputs[2]
                selects.add(op.results[0])
    if not loads:
        return function
    return rewrite(function, lambda op, walk: _with_other(op, loads, selects))


def _merge_select(
    function: Function, select: Op, load: Op | None, places: Mapping[Op, int]
) -> Op | None:
    """The load whose `other` the last operand of `select` may be."""
    if not isinstance(load, Load) or load.predicate is not None or load.mask is None:
        return None
    if load.mask is not select.inputs[0] or len(uses(function)[load.results[0]]) != 1:
        return None
    return load if _known_before(function, select.inputs[2], load, places) else None


def _known_before(function: Function, operand: Operand, load: Op, places: Mapping[Op, int]) -> bool:
    """Whether `operand` is defined where `load` stands."""
    if type(operand) is not Value:
        return True
    at, here = defining_blocks(function)[operand], defining_blocks(function)[load.results[0]]
    if at != here:
        return dominance(function).strictly_dominates(at, here)
    maker = definitions(function).get(operand)
    return maker is None or places[maker] < places[load]


def _with_other(op: Op, loads: dict[Value, Operand], selects: set[Value]) -> Answer:
    if op.results and op.results[0] in selects:
        return op.inputs[1]
    if isinstance(op, Load) and op.results[0] in loads:
        other = loads[op.results[0]]
        return op if op.other is other else op.evolve(other=other)
    return op
