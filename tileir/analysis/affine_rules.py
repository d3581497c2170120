"""Rules of the affine analysis: affine forms and mask bounds of an op's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from tileir.analysis.affine_forms import AffineForm, Facts, Form, MaskComparison
from tileir.analysis.polynomial import Lane, Polynomial, ProgramIndex, number, symbol
from tileir.analysis.ranges import Ranges
from tileir.op import Op
from tileir.types import shape_of
from tileir.values import Constant

Rule: TypeAlias = Callable[[Any, Facts, Ranges], Form]


def relabel(form: Form, place: Callable[[int], int | None]) -> Form:
    """`form` with lanes of dimension d as lanes of `place(d)` (None: index 0)."""
    if form is None:
        return None
    if isinstance(form, AffineForm):
        return attrs.evolve(form, offset=form.offset.map_lanes(place))
    return tuple(
        attrs.evolve(b, left=_map_lanes(b.left, place), right=_map_lanes(b.right, place))
        for b in form
    )


def _map_lanes(form: AffineForm, place: Callable[[int], int | None]) -> AffineForm:
    return attrs.evolve(form, offset=form.offset.map_lanes(place))


def _wrapping(op: Any, bounds: Ranges) -> frozenset[Op]:
    """The op, unless it cannot wrap."""
    overflow = getattr(op, "overflow", None)
    safe = op in bounds.exact or (overflow is not None and "nsw" in overflow.value)
    return frozenset() if safe else frozenset((op,))


def _arithmetic(combine: Callable[[Polynomial, Polynomial], Polynomial]) -> Rule:
    def rule(op: Any, facts: Facts, bounds: Ranges) -> Form:
        left, right = facts
        if not isinstance(left, AffineForm) or not isinstance(right, AffineForm):
            return None
        assuming = left.assuming | right.assuming | _wrapping(op, bounds)
        return AffineForm(None, combine(left.offset, right.offset), assuming)

    return rule


def _shl(op: Any, facts: Facts, bounds: Ranges) -> Form:
    left = facts[0]
    if not isinstance(left, AffineForm) or not isinstance(op.rhs, Constant):
        return None
    if op.rhs.bits >= 64:
        return None
    scaled = left.offset * number(1 << op.rhs.bits)
    return AffineForm(None, scaled, left.assuming | _wrapping(op, bounds))


def _neg(op: Any, facts: Facts, bounds: Ranges) -> Form:
    (value,) = facts
    if not isinstance(value, AffineForm):
        return None
    return AffineForm(None, number(0) - value.offset, value.assuming | _wrapping(op, bounds))


def _gep(op: Any, facts: Facts, bounds: Ranges) -> Form:
    base, index = facts
    if not isinstance(base, AffineForm) or not isinstance(index, AffineForm):
        return None
    return AffineForm(base.base, base.offset + index.offset, base.assuming | index.assuming)


def _same(op: Any, facts: Facts, bounds: Ranges) -> Form:
    return facts[0]


def _zext(op: Any, facts: Facts, bounds: Ranges) -> Form:
    return facts[0] if bounds.of(op.value)[0] >= 0 else None


def _trunc(op: Any, facts: Facts, bounds: Ranges) -> Form:
    value = facts[0]
    if not isinstance(value, AffineForm):
        return None
    low, high = bounds.of(op.value)
    half = 1 << (op.result.type.bits - 1) if not shape_of(op.result.type) else _half(op)
    fits = -half <= low and high < half
    return value if fits else attrs.evolve(value, assuming=value.assuming | {op})


def _half(op: Any) -> int:
    return 1 << (op.result.type.element.bits - 1)


def _make_range(op: Any, facts: Facts, bounds: Ranges) -> Form:
    (length,) = shape_of(op.to)
    start = number(op.start)
    return AffineForm(None, start + symbol(Lane(0)) if length > 1 else start)


def _program_id(op: Any, facts: Facts, bounds: Ranges) -> Form:
    return AffineForm(None, symbol(ProgramIndex(op.axis)))


def _expand_dims(op: Any, facts: Facts, bounds: Ranges) -> Form:
    return relabel(facts[0], lambda d: d + (d >= op.axis))


def _trans(op: Any, facts: Facts, bounds: Ranges) -> Form:
    return relabel(facts[0], op.order.index)


def _reshape(op: Any, facts: Facts, bounds: Ranges) -> Form:
    """Only dimensions of extent 1 may come and go."""
    old, new = shape_of(op.value.type), shape_of(op.to)
    old_dims, new_dims = ([d for d, n in enumerate(s) if n > 1] for s in (old, new))
    if [old[d] for d in old_dims] != [new[d] for d in new_dims]:
        return _constant_form(facts[0])
    return relabel(facts[0], dict(zip(old_dims, new_dims, strict=True)).get)


def _constant_form(form: Form) -> Form:
    """A form that is the same in every lane."""
    alike = relabel(form, lambda _: None)
    return form if alike == form else None


def _unsplat(op: Any, facts: Facts, bounds: Ranges) -> Form:
    return relabel(facts[0], lambda _: None)


def _icmp(op: Any, facts: Facts, bounds: Ranges) -> Form:
    left, right = facts
    if not isinstance(left, AffineForm) or not isinstance(right, AffineForm):
        return None
    if left.base is not None or right.base is not None:
        return None
    return (MaskComparison(left, op.predicate_.value, right),)


def _and(op: Any, facts: Facts, bounds: Ranges) -> Form:
    left, right = facts
    if not isinstance(left, tuple) or not isinstance(right, tuple):
        return None
    return left + right


_MOVES: dict[str, Rule] = {
    "splat": _same, "broadcast": _same, "expand_dims": _expand_dims, "trans": _trans,
    "reshape": _reshape, "unsplat": _unsplat, "gpu.convert_layout": _same,
}  # fmt: skip

RULES: dict[str, Rule] = _MOVES | {
    "add": _arithmetic(Polynomial.__add__), "sub": _arithmetic(Polynomial.__sub__),
    "mul": _arithmetic(Polynomial.__mul__), "shl": _shl, "neg": _neg, "getelementptr": _gep,
    "sext": _same, "zext": _zext, "trunc": _trunc, "addrspacecast": _same,
    "multiple_of": _same, "contiguous": _same, "constant_run": _same,
    "make_range": _make_range, "program_id": _program_id,
}  # fmt: skip
"""Rules of ops that make integers and pointers."""

MASK_RULES: dict[str, Rule] = _MOVES | {"icmp": _icmp, "and": _and}
"""Rules of ops that make i1 values."""
