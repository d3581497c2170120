"""Masks in place of indices modulo an extent, where the elements loaded at wrapped indices are
never used.

rows = (i * 128 + lane) % m     the last tile wraps to the first rows of the array
...
store where i * 128 + lane < m  the results of the wrapped rows are not stored

An index that is replaced by another one where it is not below the extent, as in
`where(rows < m, rows, 0)`, wraps as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias, cast

import attrs

from tileir.analysis.affine import AffineForm, MaskComparison, affine
from tileir.analysis.alignment import alignment
from tileir.analysis.dominance import dominance
from tileir.analysis.equal_elements import are_equal_after_first
from tileir.analysis.polynomial import Lane, Polynomial, number
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import defining_blocks, definitions, passed_to, uses
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter, writable
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import And, ICmp, IntegerPredicate, Select
from tileir.ops.atomic import AtomicRMW
from tileir.ops.control import Branch, CondBranch
from tileir.ops.division import SRem
from tileir.ops.dot import Dot
from tileir.ops.hints import Hint
from tileir.ops.hopper import DeviceAssert
from tileir.ops.memory import Load, Store
from tileir.ops.shape import Broadcast, ExpandDims, GetElementPtr, Reshape, Splat, Trans
from tileir.passes.scalarize import Scalarizer
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Replace, Walk, rewrite
from tileir.types import I64, Tile, shape_of
from tileir.values import Constant, Operand, Value, constant

TileDim: TypeAlias = tuple[Value, int]
"""A tile, and the dimension of it along which the wrapped index varies."""


@pass_("modulo-to-mask")
def modulo_to_mask(function: Function) -> Function:
    """Replace an index modulo n by a mask if the results of wrapped lanes are not stored.

    An index `(start + lane) % n`, or one that is selected where it is below n, equals `start +
    lane` in the lanes below n. If a load feeds a dot, and the masks of all stores and atomics
    exclude the results of the other lanes, these lanes need not be loaded. The lanes are followed
    along their dimension through dots, elementwise ops and loops. The pass adds a mask that
    excludes them, and the address becomes affine.

    The replacement is not valid for an index of -n or less, or one that overflows. A program in
    which an index is provably -n or less is not changed. If the range of an index is unknown, the
    lowering of the loads has to check it.

    before:
        define kernel void @f(f16* %a, f16* %b, f32* %c, i32 %m) {
        entry:
          %i = make_range i32<16>
          %p = program_id i32
          %p16 = mul i32 %p, 16
          %from = splat i32<16> %p16
          %row = add i32<16> %i, %from
          %ms = splat i32<16> %m
          %wrapped = srem i32<16> %row, %ms
          %w = expand_dims i32<16, 1> %wrapped {axis = 1}
          %w16 = mul i32<16, 1> %w, 16
          %down = broadcast i32<16, 16> %w16
          %q = expand_dims i32<1, 16> %i {axis = 0}
          %columns = broadcast i32<16, 16> %q
          %offs = add i32<16, 16> %down, %columns
          %as = splat f16*<16, 16> %a
          %pa = getelementptr f16*<16, 16> %as, %offs
          %x = load f16<16, 16> %pa
          %d = dot f32<16, 16> %x, f16<16, 16> 1.0, 0.0
          %r = expand_dims i32<16, 1> %row {axis = 1}
          %rs = broadcast i32<16, 16> %r
          %m2 = splat i32<16, 16> %m
          %in, _ = icmp (i1<16, 16>, i1<16, 16>) %rs, %m2 {predicate = slt}
          %r16 = mul i32<16, 16> %rs, 16
          %offc = add i32<16, 16> %r16, %columns
          %cs = splat f32*<16, 16> %c
          %pc = getelementptr f32*<16, 16> %cs, %offc
          store %pc, %d, %in
          ret
        }
    after:
        define kernel void @f(f16* %a, f16* %b, f32* %c, i32 %m) {
        entry:
          %i = make_range i32<16>
          %p = program_id i32
          %p16 = mul i32 %p, 16
          %from = splat i32<16> %p16
          %row = add i32<16> %i, %from
          %ms = splat i32<16> %m
          %w = expand_dims i32<16, 1> %row {axis = 1}
          %w16 = mul i32<16, 1> %w, 16
          %down = broadcast i32<16, 16> %w16
          %q = expand_dims i32<1, 16> %i {axis = 0}
          %columns = broadcast i32<16, 16> %q
          %offs = add i32<16, 16> %down, %columns
          %as = splat f16*<16, 16> %a
          %pa = getelementptr f16*<16, 16> %as, %offs
          %0, _ = icmp (i1<16>, i1<16>) %row, %ms {predicate = slt}
          %1 = reshape i1<16, 1> %0
          %2 = broadcast i1<16, 16> %1
          %x = load f16<16, 16> %pa, %2, 0.0
          %d = dot f32<16, 16> %x, f16<16, 16> 1.0, 0.0
          %r = expand_dims i32<16, 1> %row {axis = 1}
          %rs = broadcast i32<16, 16> %r
          %m2 = splat i32<16, 16> %m
          %in, _ = icmp (i1<16, 16>, i1<16, 16>) %rs, %m2 {predicate = slt}
          %r16 = mul i32<16, 16> %rs, 16
          %offc = add i32<16, 16> %r16, %columns
          %cs = splat f32*<16, 16> %c
          %pc = getelementptr f32*<16, 16> %cs, %offc
          store %pc, %d, %in
          ret
        }
    """
    return mask_wrapped_loads(function)


def mask_wrapped_loads(
    function: Function, *, is_checked: bool = False, neighbours_only: bool = False
) -> Function:
    """Replace indices as `modulo_to_mask` does.

    With `is_checked`, the kernel ends with an error (`gpu.device_assert`) if an index is -n or
    less, or overflows. With `neighbours_only`, an index of many rows is replaced only if its
    neighbours are neighbours in memory: threads compute other remainders once per row, and would
    test a mask in every iteration. Tiles of few rows are not restricted, since the mask often
    excludes most of a tile.
    """
    wraps = [
        w for op in function.ops if isinstance(op, (SRem, Select)) and (w := _wrap(function, op))
    ]
    if is_checked:
        wraps = [w for w in wraps if _is_worth_a_mask(function, w)]
        wraps = [wrap for wrap in wraps if wrap.start is None or _is_writable(function, wrap)]
    if neighbours_only:
        wraps = [
            wrap for wrap in wraps
            if shape_of(wrap.index.type)[0] < _MANY_ROWS or _separates_neighbours(function, wrap)
        ]  # fmt: skip
    wraps = _with_loads_of_their_own(wraps)
    if not wraps:
        return function
    wrap_of_load: dict[Op, tuple[_Wrap, int]] = {x: (w, dim) for w in wraps for x, dim in w.loads}
    replaced: dict[Op | None, _Wrap] = {wrap.op: wrap for wrap in wraps}

    def rule(op: Op, walk: Walk) -> Answer:
        origin = order.get(op.results[0]) if op.results else None
        if origin in replaced:
            checks = _checks(function, replaced[origin]) if is_checked else ()
            kept = op.then if isinstance(op, Select) else cast(Any, op).lhs
            return Replace((kept,), tuple(x.remap(walk.env) for x in checks))
        if origin is not None and origin in wrap_of_load and origin not in done:
            done.add(origin)
            wrap, dim = wrap_of_load[origin]
            index = walk.env.get(wrap.index, wrap.index)
            if op.mask is None and len(shape_of(op.results[0].type)) == 1:  # type: ignore[attr-defined]
                vectors[op.results[0]] = index, wrap.bound
            return _mask_load(cast(Load, op), index, wrap, dim)
        return op

    order = {v: op for op in function.ops for v in op.results}
    done: set[Op] = set()
    vectors: dict[Value, tuple[Operand, Operand]] = {}
    return _with_scalar_tests(rewrite(function, rule), vectors)


def _with_loads_of_their_own(wraps: Sequence[_Wrap]) -> list[_Wrap]:
    """The wraps less those of a load that an earlier one has: a load gets one mask."""
    masked, own = set[Load](), list[_Wrap]()
    for wrap in wraps:
        loads = {load for load, _ in wrap.loads}
        if masked.isdisjoint(loads):
            masked |= loads
            own.append(wrap)
    return own


@attrs.frozen(eq=False)
class _Wrap:
    """A wrapped index. `op` computes `index` where it is below `bound`, and something else in other
    lanes. `loads` are the loads at addresses computed from it, each with the dimension along which
    the index varies."""

    op: SRem | Select
    index: Value
    bound: Operand
    start: Polynomial | None
    """The index in lane 0 if it may be negative or overflow."""
    loads: tuple[tuple[Load, int], ...]


def _index_and_bound(function: Function, op: SRem | Select) -> tuple[Operand, Operand] | None:
    """The index that `op` keeps below a bound, and the bound."""
    if isinstance(op, SRem):
        return op.lhs, op.rhs
    test = definitions(function).get(cast(Value, op.condition))
    if not isinstance(test, ICmp) or test.predicate is not None:
        return None
    is_kept = test.predicate_ is IntegerPredicate.SLT and test.lhs is op.then
    return (test.lhs, test.rhs) if is_kept else None


def _wrap(function: Function, op: SRem | Select) -> _Wrap | None:
    shape, forms, kept = shape_of(op.result.type), affine(function), _index_and_bound(function, op)
    if len(shape) != 1 or kept is None or op.predicate is not None:
        return None
    (lhs, rhs), (index, bound) = kept, map(forms.of, kept)
    if index is None or bound is None or not isinstance(lhs, Value):
        return None
    is_unit_step = index.stride(0) == number(1) and bound.stride(0) == number(0)
    start = index.offset.without(Lane(0))
    as_below = isinstance(op, Select) or ranges(function).of(lhs)[0] >= 0
    signed = isinstance(op, SRem) and op.rounding.value == "zero"
    if not is_unit_step or not (as_below or (signed and not _is_visibly_negative(start))):
        return None
    loads = _loads_at_index(function, (op.result, 0))
    end = bound.offset - number(1) - start
    reaching = [_reaches_masked_stores(function, x, end) for x in loads or ()]
    if loads is None or None in reaching or not any(reaching):
        return None
    wrapped_loads = tuple((cast(Load, definitions(function)[v]), dim) for v, dim in loads)
    return _Wrap(op, lhs, rhs, None if as_below else start, wrapped_loads)


_MANY_ROWS = 64


def _separates_neighbours(function: Function, wrap: _Wrap) -> bool:
    """Whether a load has neighbours in memory, if at all, only along the dimension of the index."""
    facts = alignment(function)
    return any(
        all(n == 1 for d, n in enumerate(facts.of(load.pointer).contiguity) if d != dim)
        for load, dim in wrap.loads
    )


def _is_visibly_negative(start: Polynomial) -> bool:
    """Whether the start decreases in one of its symbols, or is negative where all of them are 0."""
    return any(coefficient < 0 for coefficient in start.terms.values())


def _checks(function: Function, wrap: _Wrap) -> list[Op]:
    """Checks that no lane's index is -n or less, or overflows."""
    if wrap.start is None:
        return []
    make, kind = PolynomialEmitter(function, I64), cast(Tile, wrap.op.result.type)
    bound, bits = affine(function).of(wrap.bound), kind.element.bits
    assert bound is not None
    start, above = make.emit(wrap.start), make.emit(wrap.start + bound.offset)
    tests: list[Op] = [ICmp(above, constant(I64, 0), predicate_=IntegerPredicate.SGT)]
    if bits < I64.bits:
        last = constant(I64, (1 << (bits - 1)) - kind.shape[0])
        tests.append(ICmp(start, last, predicate_=IntegerPredicate.SLE))
    return [*make.ops, *tests, *(DeviceAssert(test.results[0]) for test in tests)]


def _is_worth_a_mask(function: Function, wrap: _Wrap) -> bool:
    """Whether a mask makes the loads faster. It does not if a comparison already keeps the index
    below the bound, or if a hint promises contiguous runs of the index."""
    users = uses(function).get(wrap.op.result, ())
    return isinstance(wrap.op, SRem) and not any(isinstance(user, Hint) for user in users)


def _is_writable(function: Function, wrap: _Wrap) -> bool:
    """Whether the check of an index can be written where it wraps around."""
    bound = affine(function).of(wrap.bound)
    assert bound is not None and wrap.start is not None
    symbols = {s for form in (wrap.start, bound.offset) for m in form.terms for s in m}
    place = defining_blocks(function)
    here = place[wrap.op.result]

    def is_reached(value: Value) -> bool:
        return value not in place or dominance(function).dominates(place[value], here)

    return all(writable(function, s, is_reached) for s in symbols)


def _loads_at_index(function: Function, start: TileDim) -> list[TileDim] | None:
    """The loads at addresses, or under masks, computed from an index; None where it has other uses.

    A mask may test the wrapped index, as in `offs = ... % n` and `offs < n`. Lanes below the bound
    have the same mask, and the others load nothing in either form."""
    loads: list[TileDim] = []
    for place, op in _forward_slice(function, start):
        _, dim = place
        if isinstance(op, Load):
            if op.volatile or op.predicate is not None or not op.fills_with_zeros:
                return None
            loads.append((op.result, dim))
        elif _results_along(function, op, place) is None:
            return None
    return list(dict.fromkeys(loads))


def _reaches_masked_stores(function: Function, start: TileDim, end: Polynomial) -> bool | None:
    """Whether a load reaches a dot, if the masks of stores exclude all results of lanes beyond the
    bound, else None; `end` is the last index below the bound minus the start."""
    through_dot = False
    for tile_dim, op in _forward_slice(function, start):
        through_dot = through_dot or isinstance(op, Dot)
        if isinstance(op, (Store, AtomicRMW)):
            if op.value is not tile_dim[0] or not _has_bound(function, op, tile_dim[1], end):
                return None
        elif _results_along(function, op, tile_dim) is None:
            return None
    return through_dot


def _has_bound(function: Function, op: Store | AtomicRMW, dim: int, end: Polynomial) -> bool:
    """Whether the mask of a store, or of an atomic, contains the bound."""
    expected = end - Polynomial({(Lane(dim),): 1})
    bounds = _bounds(function, op.mask)
    return op.mask is not op.value and any(
        b.relation == "slt" and _slack(b.left, b.right) == expected for b in bounds
    )


def _bounds(function: Function, mask: Operand | None) -> Iterator[MaskComparison]:
    """Yield the comparisons that are true wherever `mask` is true. The mask may contain other
    conditions as well."""
    bounds = None if mask is None else affine(function).bounds(mask)
    op = definitions(function).get(mask) if isinstance(mask, Value) else None
    if bounds is not None:
        yield from bounds
    elif isinstance(op, And):
        yield from _bounds(function, op.lhs)
        yield from _bounds(function, op.rhs)


def _slack(left: AffineForm, right: AffineForm) -> Polynomial:
    return right.offset - left.offset - number(1)


def _forward_slice(function: Function, start: TileDim) -> Iterator[tuple[TileDim, Op]]:
    """Every use of a tile and of the tiles computed from it lane by lane, with the dimension."""
    seen, waiting = {start}, [start]
    while waiting:
        tile_dim = waiting.pop()
        for op in uses(function).get(tile_dim[0], ()):
            yield tile_dim, op
            for next_dim in _results_along(function, op, tile_dim) or ():
                if next_dim not in seen:
                    seen.add(next_dim)
                    waiting.append(next_dim)


def _results_along(function: Function, op: Any, tile_dim: TileDim) -> list[TileDim] | None:
    """The results of `op` that depend on a tile lane by lane, with the dimension in each; None
    where lanes of a result depend on several lanes."""
    from tileir.ops.reduce import Reduce

    value, dim = tile_dim
    if op.predicate is not None:
        return None
    if isinstance(op, (Branch, CondBranch)):
        tested = isinstance(op, CondBranch) and op.condition is value
        return None if tested else [(v, dim) for v in passed_to(function, op, value)]
    if isinstance(op, Dot):
        dims_of = ((op.a, (0,)), (op.b, (1,)), (op.c, (0, 1)))
        is_kept = all(dim in dims for operand, dims in dims_of if operand is value)
        return [(op.result, dim)] if is_kept else None
    if op.elementwise or op.is_identity or isinstance(op, GetElementPtr):
        return [(v, dim) for v in op.results]
    if isinstance(op, ExpandDims):
        return [(op.result, dim + (dim >= op.axis))]
    if isinstance(op, Broadcast) or op.mnemonic == "join":
        return [(op.results[0], dim)]
    if op.mnemonic == "split":
        is_split = dim == len(shape_of(value.type)) - 1
        return None if is_split else [(v, dim) for v in op.results]
    if isinstance(op, Trans):
        return [(op.result, op.order.index(dim))]
    if isinstance(op, Reshape):
        new_dim = _dim_after_reshape(op, dim)
        return None if new_dim is None else [(op.result, new_dim)]
    if isinstance(op, Reduce) and op.axis != dim:
        return [(v, dim - (op.axis < dim)) for v in op.results if isinstance(v.type, Tile)]
    return None


def _dim_after_reshape(op: Reshape, dim: int) -> int | None:
    """The dimension after a reshape that contains the lanes along `dim`, with as many elements
    before each lane; None if there is none."""
    old, new = shape_of(op.value.type), shape_of(op.result.type)
    same = (
        d for d, n in enumerate(new)
        if n == old[dim] > 1 and prod(new[:d]) == prod(old[:dim])
    )  # fmt: skip
    return next(same, None)


def _with_scalar_tests(
    function: Function, vectors: Mapping[Value, tuple[Operand, Operand]]
) -> Function:
    """`function` in which a vector of elements with one address, such as the scale of a block of
    columns, is loaded under one scalar test: that the first index is within the bound. All indices
    are then within it, or all have the address of the first one. `vectors` are the indices and
    bounds by the results of the loads."""
    source = definitions(function)
    equal = {
        source[v]: pair
        for v, pair in vectors.items()
        if are_equal_after_first(function, cast(Load, source[v]).pointer)
    }
    if not equal:
        return function

    def rule(op: Op, _: Walk) -> Answer:
        if op not in equal:
            return op
        scalars = Scalarizer(source, traps=True)
        index, bound = (scalars.at(x, (0,)) for x in equal[op])
        if index is None or bound is None:
            return op
        test = ICmp(index, bound, predicate_=IntegerPredicate.SLT, location=op.location)
        inside = Splat(test.results[0], cast(Load, op).mask.type, location=op.location)  # type: ignore[union-attr]
        return [*scalars.ops, test, inside, attrs.evolve(op, mask=inside.result)]

    return rewrite(function, rule)


def _mask_load(op: Load, index: Operand, wrap: _Wrap, dim: int) -> list[Op]:
    """The load with the bound added to its mask."""
    from tileir.backend.transforms.op_builder import OpBuilder

    builder, shape = OpBuilder(op), shape_of(op.pointer.type)
    test = ICmp(index, wrap.bound, predicate_=IntegerPredicate.SLT)
    builder.ops.append(attrs.evolve(test, location=op.location))
    inside: Operand = builder.broadcast_from_axis(test.results[0], dim, shape)
    if op.mask is not None:
        inside = builder.add(And(op.mask, inside))
    element = op.result.type
    builder.add_final(
        Load(op.pointer, inside, Constant(element, 0), cache=op.cache, eviction=op.eviction)
    )
    return builder.ops
