"""Alignment analysis: the divisibility of values, and their contiguity along each dimension.

Every fact is sound: integers wrap as the ops state, loops are solved to a fixpoint, and no fact is
assumed for the result of an op without a rule. Facts are about defined lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import gcd
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from tileir.analysis import memoize
from tileir.analysis.alignment_facts import (
    LARGEST,
    Alignment,
    constancy,
    elementwise,
    extents,
    multiples_of,
    of_literal,
    of_parameter,
    power_of_two,
    step_of,
    uniform,
    unknown,
)
from tileir.analysis.dataflow import forward_values
from tileir.ir import Function
from tileir.op import Effects, Op
from tileir.types import Scalar, Type, element_of, shape_of
from tileir.values import Constant, Operand, Value

if TYPE_CHECKING:
    from tileir.analysis.ranges import Ranges

__all__ = ["Alignment", "Alignments", "alignment"]


class Alignments:
    """The alignment of every value of a function."""

    def __init__(self, facts: dict[Value, Alignment]) -> None:
        self.facts = facts

    def of(self, operand: Operand) -> Alignment:
        """The facts about `operand`, a value of the function or a literal."""
        if not isinstance(operand, Value):
            return of_literal(operand)
        fact = self.facts.get(operand)
        return unknown(operand.type) if fact is None else fact


@memoize
def alignment(function: Function) -> Alignments:
    """The alignment of every value of `function`; a declaration has no values."""
    facts = {p.value: of_parameter(p) for p in function.parameters}
    transfer = functools.partial(_transfer, function)
    return Alignments(
        forward_values(function, facts=facts, literal=of_literal, transfer=transfer, merge=_merge)
    )


def _transfer(
    function: Function, op: Op, read: Callable[[Operand], Alignment]
) -> Sequence[Alignment]:
    rule = RULES.get(op.mnemonic)
    if rule is not None:
        return rule(op, [read(v) for v in op.inputs], function)
    if op.elementwise and not op.effects & ~Effects.TRAP:
        return elementwise(op, [read(v) for v in op.inputs])
    return [unknown(v.type) for v in op.results]


def _merge(value: Value, old: Alignment | None, facts: Sequence[Alignment]) -> Alignment:
    every = [*facts] if old is None else [old, *facts]
    if not every:
        return unknown(value.type)
    result = every[0]
    for fact in every[1:]:
        if fact != result:
            result = result.meet(fact, tuple(map(gcd, result.contiguity, fact.contiguity)))
    return result


# Rules ------------------------------------------------------------------------------------------
# By mnemonic. Arithmetic, comparisons, casts, pointers and hints come first, then ops that make
# tiles and move their elements.

Rule: TypeAlias = Callable[[Any, Sequence[Alignment], Function], Sequence[Alignment]]
"""Maps an op, the facts of its inputs and its function to the facts of its results."""


def _width(type: Any) -> int:
    """Bits of an element; element types alone reach these rules."""
    element: Any = element_of(type)
    return element.bits


def _bits(op: Any) -> int:
    return _width(op.results[0].type)


def _keeps_sign(op: Any, function: Function) -> bool:
    """Whether the signed result does not wrap, by promise or by the operands' ranges."""
    return op.overflow.value in ("nsw", "nsw_nuw") or op in _ranges(function).exact


def _unless_wrapping(op: Any, result: Alignment, function: Function) -> Alignment:
    """The facts about a result that was computed as if integers did not wrap."""
    wrapped = result.without_wraparound(_bits(op))
    return result if wrapped == result or _keeps_sign(op, function) else wrapped


def _ranges(function: Function) -> Ranges:
    from tileir.analysis.ranges import ranges  # few facts need them

    return ranges(function)


def _of_add(
    op: Any, left: Alignment, right: Alignment, runs: Sequence[int], scale: int = 1
) -> Alignment:
    """`left + scale * right` or `left - scale * right`, contiguous in `runs`."""
    multiple = tuple(
        gcd(left.multiple_at(d, run), min(scale * right.multiple_at(d, run), LARGEST))
        for d, run in enumerate(runs)
    )
    type_ = op.results[0].type
    equal = constancy(extents(type_), (left, right))
    return Alignment(multiple, tuple(runs), equal, step_of(type_))


def _runs_of_addition(left: Alignment, right: Alignment) -> list[int]:
    """One side contiguous while the other is constant, whichever gives longer runs."""
    return [
        max(gcd(cl, kr), gcd(kl, cr))
        for cl, kl, cr, kr in zip(
            left.contiguity, left.constancy, right.contiguity, right.constancy, strict=True
        )
    ]


def _add(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    left, right = facts
    return (
        _unless_wrapping(op, _of_add(op, left, right, _runs_of_addition(left, right)), function),
    )


def _sub(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    left, right = facts
    runs = list(map(gcd, left.contiguity, right.constancy))
    return (_unless_wrapping(op, _of_add(op, left, right, runs), function),)


def _mul(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    left, right = facts
    for value, other in ((op.rhs, left), (op.lhs, right)):
        if isinstance(value, Constant) and value.bits == 1:
            return (other,)
    return (multiples_of(op.result.type, facts, min(left.every * right.every, LARGEST)),)


def _shl(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    left, amount = facts[0], op.rhs
    bits = amount.bits if isinstance(amount, Constant) and amount.bits < _bits(op) else 0
    return (multiples_of(op.result.type, facts, min(left.every << bits, LARGEST)),)


def _and(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    return (multiples_of(op.result.type, facts, max(f.every for f in facts)),)


def _least(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Low zero bits of both operands stay: or, xor, minima, maxima, negation."""
    return (multiples_of(op.result.type, facts, min(f.every for f in facts)),)


def _blocks(value: Alignment, divisor: Alignment, dimension: int) -> int:
    """Size of groups in which `value` runs from one multiple of the size, and `divisor` is
    constant and a multiple of it: no multiple of the divisor falls inside a group."""
    return gcd(
        value.contiguity[dimension],
        value.multiple[dimension],
        divisor.constancy[dimension],
        divisor.every,
    )


def _keeps_blocks(op: Any, function: Function) -> bool:
    """Whether a quotient is constant, and a remainder contiguous, between multiples of the
    divisor: floored by a positive divisor, or truncated where the value is not negative (the
    sign of the divisor then changes the sign of the quotient only)."""
    rounding = op.rounding.value if hasattr(op, "rounding") else "floor"
    if op.mnemonic[0] == "u":
        return rounding != "ceil"
    if rounding == "zero":
        return _ranges(function).of(op.lhs)[0] >= 0
    return rounding == "floor" and _ranges(function).of(op.rhs)[0] > 0


def _div(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    value, divisor = facts
    shape = extents(op.result.type)
    equal = constancy(shape, facts)
    if _keeps_blocks(op, function):
        equal = tuple(max(k, _blocks(value, divisor, d)) for d, k in enumerate(equal))
    by = op.rhs.bits if isinstance(op.rhs, Constant) else 0
    exact = by and by & (by - 1) == 0 and by < 1 << (_bits(op) - 1) and value.every % by == 0
    multiple = value.every // by if exact else 1
    return (Alignment((multiple,) * len(shape), (1,) * len(shape), equal),)


def _rem(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    value, divisor = facts
    dims = range(len(value.contiguity))
    floored = _keeps_blocks(op, function)
    runs = tuple(_blocks(value, divisor, d) if floored else 1 for d in dims)
    multiple = tuple(gcd(value.multiple_at(d, runs[d]), divisor.every) for d in dims)
    equal = constancy(extents(op.result.type), facts)
    return (Alignment(multiple, runs, equal),)


def _compare(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """`x < n` does not change within a group of x that starts at a multiple of its size if n
    is a multiple of it too; likewise `x >= n`. (`x <= n` does: its first element differs.)"""
    left, right = facts
    word = op.predicate_.value
    multiples = multiples_of(op.results[0].type, facts)
    if left.step == right.step == 1 and isinstance(element_of(op.lhs.type), Scalar):
        run, bound = (left, right) if word[1:] in ("lt", "ge") else (right, left)
        if word[1:] in ("lt", "ge", "gt", "le"):
            equal = (max(k, _blocks(run, bound, d)) for d, k in enumerate(multiples.constancy))
            multiples = Alignment(multiples.multiple, multiples.contiguity, tuple(equal))
    return (multiples, multiples)


def _float_compare(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    multiples = multiples_of(op.results[0].type, facts)
    return (multiples, multiples)


def of_select(
    condition: Alignment, first: Alignment, second: Alignment, shape: tuple[int, ...]
) -> Alignment:
    """One or the other per element, in groups in which `condition` is constant."""
    equal = constancy(shape, (condition,))
    runs = [gcd(*three) for three in zip(first.contiguity, second.contiguity, equal, strict=True)]
    result = first.meet(second, runs)
    return Alignment(
        result.multiple, result.contiguity, tuple(map(gcd, result.constancy, equal)), result.step
    )


def _select(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    condition, then, otherwise = facts
    return (of_select(condition, then, otherwise, extents(op.result.type)),)


def _psi(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    shape = extents(op.result.type)
    fact = facts[1]
    for operand, predicate, value in zip(op.arms[2::2], facts[2::2], facts[3::2], strict=True):
        everywhere = uniform(op.result.type, 1)
        fact = of_select(predicate if shape_of(operand.type) else everywhere, fact, value, shape)
    return (fact,)


def _same(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    return facts


def _low_bits(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Casts that keep the low bits, and the number too where it fits."""
    (value,) = facts
    old, new = _width(op.value.type), _bits(op)
    low, high = _ranges(function).of(op.value)
    limit = 1 << (min(old, new) - 1)
    fits = low >= 0 if new > old else -limit <= low and high < limit
    return (value if fits else value.without_wraparound(min(old, new)),)


def _cast_pointer(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Casts between addresses and integers, or between pointees: runs stay where neighbours
    stay as far apart as before."""
    (value,) = facts
    type_ = op.result.type
    integer = element_of(type_)
    if not isinstance(integer, Scalar) or integer.is_integer:
        if step_of(type_) != value.step:
            return (multiples_of(type_, facts, value.every),)
        return (value if step_of(type_) > 1 else value.without_wraparound(min(_bits(op), 64)),)
    return (multiples_of(type_, facts),)


def _bitcast(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    source = element_of(op.inputs[0].type)
    if isinstance(source, Scalar) and source.is_float:
        return (multiples_of(op.result.type, facts),)
    return _cast_pointer(op, facts, function)


def _gep(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    base, index = facts
    scale = power_of_two(step_of(op.result.type))
    return (_of_add(op, base, index, _runs_of_addition(base, index), scale),)


def _load(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """A load reads equal values from equal addresses. Masked-off lanes are `other`, or undefined
    and equal to anything."""
    if op.volatile:
        return (unknown(op.result.type),)
    return (multiples_of(op.result.type, facts if op.other is not None else facts[:1]),)


def _multiple_of(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """The hint names the first elements of runs; they are those of our groups where these are
    whole dimensions, and as far apart as the groups are long otherwise."""
    (value,), shape = facts, extents(op.result.type)
    multiple = list(value.multiple)
    for d, (hint, run) in enumerate(zip(op.values, value.contiguity, strict=True)):
        hinted = power_of_two(hint)
        if run >= shape[d]:
            multiple[d] = max(multiple[d], hinted)
        elif run > 1:
            multiple[d] = max(multiple[d], gcd(hinted, run * value.step))
    return (attrs.evolve(value, multiple=tuple(multiple), hinted=tuple(op.values)),)


def _contiguous(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    (value,), shape = facts, extents(op.result.type)
    multiple, runs = list(value.multiple), list(value.contiguity)
    for d, (hint, old) in enumerate(zip(op.values, value.contiguity, strict=True)):
        if hint <= old:
            continue
        runs[d] = min(hint, shape[d])
        first = value.multiple_at(d, hint)
        if value.hinted:
            covers_row = hint >= shape[d]
            hinted = power_of_two(value.hinted[d])
            first = max(first, hinted if covers_row else gcd(hinted, hint * value.step))
        multiple[d] = first
    return (attrs.evolve(value, multiple=tuple(multiple), contiguity=tuple(runs)),)


def _constant_run(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    (value,), shape = facts, extents(op.result.type)
    equal = tuple(
        min(max(hint, k), n) for hint, k, n in zip(op.values, value.constancy, shape, strict=True)
    )
    return (attrs.evolve(value, constancy=equal),)


def _make_range(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    (length,) = shape_of(op.to)
    return (Alignment((power_of_two(op.start),), (length,), (1,)),)


def _splat(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    return (uniform(op.result.type, facts[0].multiple[0]),)


def _broadcast(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Stretched dimensions become constant; there every element was a group of its own."""
    (value,) = facts
    old, new = shape_of(op.value.type), shape_of(op.to)
    equal = tuple(n if m == 1 else k for m, n, k in zip(old, new, value.constancy, strict=True))
    return (Alignment(value.multiple, value.contiguity, equal, value.step),)


def _place(value: Alignment, shape: tuple[int, ...], sources: Sequence[int | None]) -> Alignment:
    """A tile of `shape` whose dimensions are those of `value` named by `sources`; None is a new
    dimension of extent 1."""
    every = value.every
    return Alignment(
        tuple(every if s is None else value.multiple[s] for s in sources),
        tuple(1 if s is None else value.contiguity[s] for s in sources),
        tuple(1 if s is None else value.constancy[s] for s in sources),
        value.step,
    )


def _expand_dims(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    shape = shape_of(op.result.type)
    sources = [d - (d > op.axis) if d != op.axis else None for d in range(len(shape))]
    return (_place(facts[0], shape, sources),)


def _trans(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    return (_place(facts[0], shape_of(op.result.type), op.order),)


def _reshape(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Row-major: extents other than 1 that stay keep their facts; otherwise groups of the last
    dimension survive as far as both last extents are made of them."""
    (value,), old, new = facts, shape_of(op.value.type), shape_of(op.to)
    dims = [d for d, n in enumerate(old) if n > 1]
    if [old[d] for d in dims] == [n for n in new if n > 1]:
        dims_in_order = iter(dims)
        return (_place(value, new, [next(dims_in_order) if n > 1 else None for n in new]),)
    if value.constancy == old:
        return (uniform(op.to, value.every),)
    run, equal = (gcd(g[-1], old[-1], new[-1]) for g in (value.contiguity, value.constancy))
    ones = (1,) * (len(new) - 1)
    first = value.multiple_at(len(old) - 1, run)
    multiple = (*(value.every for _ in ones), first)
    return (Alignment(multiple, (*ones, run), (*ones, equal), value.step),)


def _unsplat(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    return (uniform(op.result.type, facts[0].every),)


def _join(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    low, high = facts
    common = low.meet(high, tuple(map(gcd, low.contiguity, high.contiguity)))
    if not shape_of(op.low.type):
        return (Alignment((common.every,), (1,), (1,), common.step),)
    return (_place(common, shape_of(op.result.type), [*range(len(common.multiple)), None]),)


def _split(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    (value,) = facts
    rank = len(value.multiple) - 1
    if rank == 0:
        return (uniform(op.results[0].type, value.every),) * 2
    half = _place(value, shape_of(op.results[0].type), range(rank))
    return (half, half)


def _cat(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Groups must not straddle the boundary between the two tiles."""
    low, high = facts
    seam = [shape_of(op.low.type)[d] if d == op.axis else 0 for d in range(len(low.multiple))]
    runs = [gcd(*three) for three in zip(low.contiguity, high.contiguity, seam, strict=True)]
    common = low.meet(high, runs)
    equal = tuple(map(gcd, common.constancy, seam))
    return (Alignment(common.multiple, common.contiguity, equal, common.step),)


def _gather(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    source, index = facts
    equal = tuple(
        k if d == op.axis else gcd(k, source.constancy[d]) for d, k in enumerate(index.constancy)
    )
    multiples = multiples_of(op.result.type, (), source.every)
    return (Alignment(multiples.multiple, multiples.contiguity, equal, source.step),)


def _extract_slice(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Groups survive where the slice starts at one; strides other than 1 take them apart."""
    value, offsets = facts[0], facts[1:]
    old, strides = shape_of(op.value.type), op.strides or (1,) * len(offsets)
    starts = [
        v.bits if isinstance(v, Constant) else f.every
        for v, f in zip(op.offsets, offsets, strict=True)
    ]

    def groups(sizes: Sequence[int]) -> tuple[int, ...]:
        dims = zip(sizes, starts, strides, strict=True)
        return tuple(gcd(size, start) if stride == 1 else 1 for size, start, stride in dims)

    runs, new = groups(value.contiguity), shape_of(op.to)
    multiple = tuple(value.multiple_at(d, run) for d, run in enumerate(runs))
    is_constant = [k >= n for k, n in zip(value.constancy, old, strict=True)]
    equal = tuple(new[d] if is_constant[d] else k for d, k in enumerate(groups(value.constancy)))
    run, same = (tuple(map(min, sizes, new)) for sizes in (runs, equal))
    return (Alignment(multiple, run, same, value.step),)


def _insert_slice(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    ones = (1,) * len(facts[0].multiple)
    multiple = (min(facts[0].every, facts[1].every),) * len(ones)
    return (Alignment(multiple, ones, ones, facts[0].step),)


def _reduce(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Equal rows reduce to equal elements, if the same lanes of each row take part."""
    if op.predicate is not None and shape_of(op.predicate.type):
        multiple = [fact.every if _keeps(op) else 1 for fact in facts]
        return [_unequal(v.type, n) for v, n in zip(op.results, multiple, strict=True)]
    return [
        _of_reduction(
            v.type, [f.constancy for f in facts], fact.every if _keeps(op) else 1, op.axis
        )
        for v, fact in zip(op.results, facts, strict=True)
    ]


def _keeps(op: Any) -> bool:
    """Whether multiples of a power of two are combined to one: by every named combiner of
    integers. What a function does is not known."""
    return not getattr(op.combiner, "of_floats", True)


def _of_reduction(
    type: Type, groups: Sequence[tuple[int, ...]], multiple: int, axis: int
) -> Alignment:
    if not shape_of(type):
        return uniform(type, multiple)
    equal = [gcd(*sizes) for sizes in zip(*groups, strict=True)]
    del equal[axis]
    runs = (1,) * len(equal)
    return Alignment((multiple,) * len(equal), runs, tuple(equal))


def _unequal(type: Type, multiple: int) -> Alignment:
    """Elements of which nothing is known but that they are multiples."""
    if not shape_of(type):
        return uniform(type, multiple)
    ones = (1,) * len(shape_of(type))
    return Alignment((multiple,) * len(ones), ones, ones)


def _scan(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    alignments: list[Alignment] = []
    for value, fact in zip(op.results, facts, strict=True):
        equal = [gcd(*sizes) for sizes in zip(*(f.constancy for f in facts), strict=True)]
        equal[op.axis] = 1
        if op.predicate is not None and shape_of(op.predicate.type):
            equal = [1] * len(equal)
        even = multiples_of(value.type, (), fact.every if _keeps(op) else 1)
        alignments.append(Alignment(even.multiple, even.contiguity, tuple(equal)))
    return alignments


RULES: dict[str, Rule] = {
    "add": _add, "sub": _sub, "mul": _mul, "shl": _shl, "and": _and,
    "or": _least, "xor": _least, "neg": _least, "iabs": _least,
    "smin": _least, "smax": _least, "umin": _least, "umax": _least,
    "sdiv": _div, "udiv": _div, "srem": _rem, "urem": _rem,
    "icmp": _compare, "fcmp": _float_compare, "select": _select, "psi": _psi,
    "sext": _same, "gpu.convert_layout": _same, "zext": _low_bits, "trunc": _low_bits,
    "bitcast": _bitcast, "ptrtoint": _cast_pointer, "inttoptr": _cast_pointer,
    "addrspacecast": _cast_pointer,
    "getelementptr": _gep, "load": _load,
    "multiple_of": _multiple_of, "contiguous": _contiguous, "constant_run": _constant_run,
    "make_range": _make_range, "splat": _splat, "broadcast": _broadcast,
    "expand_dims": _expand_dims, "trans": _trans, "reshape": _reshape, "unsplat": _unsplat,
    "join": _join, "split": _split, "cat": _cat, "gather": _gather,
    "extract_slice": _extract_slice, "insert_slice": _insert_slice,
    "reduce": _reduce, "scan": _scan,
}  # fmt: skip
