"""Online reductions: all reductions over a label in one pass, each kept up to date.

What a running maximum m enters as exp(c m + ...) is multiplied by exp(c (m' - m)) when m becomes
m' (Milakov and Gimelshein 2018), which makes one loop of softmax and what follows it.
"""

from __future__ import annotations

from typing import Any

import attrs

from tileir.builder import Expr
from tileir.frontends.decoupled import evaluate as rules, values
from tileir.frontends.decoupled.causal_skip import needed_positions
from tileir.frontends.decoupled.kernel import Env, KernelState
from tileir.frontends.decoupled.nodes import Reduction
from tileir.frontends.decoupled.online_members import (
    PARTS,
    Member,
    RescaleFactor,
    finite_multiplier,
    gather_members,
    least_number,
    mentions,
)
from tileir.frontends.decoupled.ranges import DimensionWalk, positions
from tileir.frontends.decoupled.rescaling import growths
from tileir.frontends.decoupled.values import TileValue, align_axes, spread
from tileir.types import tile

_PARTIALS = 8
"""The number of partial totals and maxima, of every n-th position each, if the order of combination
does not matter: threads that own columns of a matmul then need not exchange values."""

_SLACK = 8.0
"""The maximum exponent of 2 before a level follows its maximum."""


def evaluate_together(k: KernelState, node: Reduction, env: Env) -> TileValue:
    """The value of a reduction; those that go along with it are remembered. Raises
    CompilationError where one cannot be kept up to date."""
    members = gather_members(k, node, env)
    for i, member in enumerate(members):
        rules.hoist_dot_operands(k, member.node, member.env)
        member.growths = tuple(growths(k, members, i))
    walk = k.walk(node.label, env, node)
    for member in members:
        member.slack = _slack(k, member, members)
        member.partials = _partial_counts(k, member, members, walk)
        one = tuple(member.env[a].extent for a in member.axes)
        full, parts = _constant(k, member, one), _constant(k, member, (*one, *member.partials))
        member.total = k.b.var(full if member.slack else parts, name=member.node.op)
        member.top = k.b.var(parts, name="top") if member.slack else None
    end = needed_positions(k, [(member.node, member.env) for member in members])
    with positions(k.b, attrs.evolve(walk, end=end), k.stages) as place, k.scope():
        for member in members:
            _advance(k, member, {**member.env, node.label: place})
    for member in members:
        k.remember(member.key, _finish(k, member))
    result = k.recall(k.key(node, env))
    assert result is not None
    return result


def _constant(k: KernelState, member: Member, shape: tuple[int, ...]) -> Expr:
    """The initial value of a reduction. Maxima that others depend on start with a finite number, so
    that differences exist."""
    first: Any = rules.identity(member.node.op, member.into)
    if member.leads:
        first = least_number(member.into)
    return k.b.constant(tile(member.into, shape), first)


def _advance(k: KernelState, member: Member, env: Env) -> None:
    """One step of one reduction."""
    node = member.node
    factors = [_rescale_factor(k, leader, growth) for leader, growth in member.growths]
    scaled = _rescale(k, member.total.get(), member.step_axes, factors)
    kinds = tuple(k.kind(v) for v in node.values)
    if rules.is_dot(k, node, env, kinds):
        new = rules.product(k, node, env, kinds, scaled)
    elif member.slack:
        new = _raise_level(k, member, _part(k, member, env))
    else:
        new = rules.combine(k, node.op, scaled, _part(k, member, env))
    if member.leads and not member.slack:
        member.step = TileValue(new - member.total.get(), member.axes)
    member.total.set(new)
    if member.slack or not member.partials:
        k.remember(member.key, TileValue(new, member.axes))


def _part(k: KernelState, member: Member, env: Env) -> Expr:
    """The contribution of a step to a reduction."""
    result = rules.collapse(k, member.node, *_term(k, member, env))
    shape = (*(env[a].extent for a in member.axes), *member.partials)
    return spread(result, member.step_axes, shape, k.b)


def _partial_counts(
    k: KernelState, member: Member, members: list[Member], walk: DimensionWalk
) -> tuple[int, ...]:
    """The numbers of partial results of reductions, one for every n-th position of a step.

    Reductions have partial results if approximation is allowed and nothing else in the pass needs
    the whole result.
    """
    node, extent = member.node, walk.extent
    if not k.fast or not member.into.is_float or walk.whole:
        return ()
    if extent <= _PARTIALS or extent % _PARTIALS:
        return ()
    if rules.term_axes(k, node, member.env, extent) != (*member.axes, node.label):
        return ()
    if member.slack:
        return (_PARTIALS,)
    other_members = (m for m in members if m is not member)
    read = any(mentions(k, v, m.env, member) for m in other_members for v in m.node.values)
    return () if read or node.op != "rsum" else (_PARTIALS,)


def _term(k: KernelState, member: Member, env: Env) -> tuple[TileValue, bool]:
    """The term of a reduction, and whether its axis is still there, besides that of the parts."""
    result, left = rules.term(k, member.node, env, member.into)
    if not member.partials or not isinstance(result.item, Expr):
        return result, left
    *outer, extent = result.item.shape
    (parts,) = member.partials
    cut = result.item.reshape(*outer, extent // parts, parts)
    return TileValue(cut, (*result.axes, PARTS)), left


def _raise_level(k: KernelState, member: Member, part: Expr) -> Expr:
    """The new reference level of exponents: the maximum of this step, or the previous level if the
    maximum does not exceed it so far that totals overflow.

    For NaNs the maximum itself is NaN, and at the end all is relative to it.
    """
    assert member.slack is not None
    exponent, old = member.slack.exponent(k), member.total.get()
    member.top.set(rules.combine(k, member.node.op, member.top.get(), part))
    highest = part.reduce(len(member.axes), "fmaxnum") if member.partials else part
    reach = values.binary(k.b, "/", _SLACK, abs(exponent), fast=True)
    passed = highest > old + reach
    new = k.b.where(passed, highest, old)
    factor = values.call(k.b, "exp2", [(old - new) * exponent], fast=True)
    if not member.slack.falls:
        factor = finite_multiplier(k, factor, new - old)
    member.step = TileValue(k.b.where(passed, factor, 1.0), member.axes)
    return new


def _slack(k: KernelState, member: Member, members: list[Member]) -> RescaleFactor | None:
    """The growth of all values that depend on a maximum, if its exponents may pass 0. A level that
    changes in few steps leaves most totals unchanged."""
    result = [g for m in members for leader, g in m.growths if leader is member]
    if not k.fast or not result or not member.into.is_float:
        return None
    first = result[0]
    if any(g.call != first.call or g.shift.axes for g in result):
        return None
    return first if isinstance(first.shift.item, Expr) or first.shift.item else None


def _finish(k: KernelState, member: Member) -> TileValue:
    """The value of a reduction after the pass: relative to maxima, not to levels."""
    if member.slack:
        return TileValue(_join_parts(member, member.top.get(), "fmaximum"), member.axes)
    total = _join_parts(member, member.total.get(), "fadd")
    factors = [
        growth.factor(k, _left(k, leader)) for leader, growth in member.growths if leader.slack
    ]
    return TileValue(_rescale(k, total, member.axes, factors), member.axes)


def _join_parts(member: Member, parts: Expr, combine: str) -> Expr:
    """The parts of a reduction joined."""
    return parts.reduce(len(member.axes), combine) if member.partials else parts


def _left(k: KernelState, leader: Member) -> TileValue:
    """The difference between a maximum, which is complete, and the level to which totals are
    relative."""
    most = k.recall(leader.key)
    assert most is not None
    return TileValue(most.item - leader.total.get(), leader.axes)


def _rescale_factor(k: KernelState, leader: Member, growth: RescaleFactor) -> TileValue:
    """The multiplier of a reduction that grows with `leader`, in this step."""
    assert leader.step is not None
    if leader.slack:
        return leader.step.rename(growth.names)
    return growth.factor(k, leader.step)


def _rescale(
    k: KernelState, total: Expr, axes_of_total: tuple[str, ...], factors: list[TileValue]
) -> Expr:
    """A total with axes `axes_of_total`, for maxima that have grown since."""
    result: TileValue | None = None
    for factor in factors:
        result = factor if result is None else _multiply(k, result, factor, axes_of_total)
    return total if result is None else total * align_axes(result, axes_of_total)


def _multiply(
    k: KernelState, left: TileValue, right: TileValue, axes: tuple[str, ...]
) -> TileValue:
    shared_axes = tuple(a for a in axes if a in left.axes or a in right.axes)
    return TileValue(
        values.binary(k.b, "*", align_axes(left, shared_axes), align_axes(right, shared_axes)),
        shared_axes,
    )
