"""The reductions that go along with one another in a pass over a label."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs

from tileir.builder import Expr
from tileir.frontends.decoupled import values
from tileir.frontends.decoupled.element_types import accumulator
from tileir.frontends.decoupled.kernel import Env, KernelState, inner_env, reads_member
from tileir.frontends.decoupled.nodes import Access, Call, Node, Reduction
from tileir.frontends.decoupled.values import Item, TileValue, align_axes
from tileir.types import Scalar

Place: TypeAlias = tuple[Node, Env]
"""An expression, and the positions at which it stands."""

_BINARY = {"exp": math.log2(math.e), "exp2": 1.0}
"""The multiplier that converts exponents of a function to exponents of 2."""
PARTS = ""
"""The name of the axis of separate parts."""


def least_number(kind: Scalar) -> float:
    """The least finite number of a float type, from which maxima that others depend on start."""
    return {64: -1.7976931348623157e308}.get(kind.bits, -3.4028234663852886e38)


def finite_multiplier(k: KernelState, multiplier: Item, step: Item) -> Item:
    """The multiplier, but 1 for the first step of a maximum, from the least number: the multiplier
    of a value that grows with the maximum is then infinite, and the total 0."""
    assert isinstance(step, Expr)
    return k.b.where(step > -0.5 * least_number(values.element(step)), 1.0, multiplier)


@attrs.frozen(eq=False)
class RescaleFactor:
    """The multiplier of an expression when a maximum grows by `step`: `call(shift * step)`, where
    `call` is `exp` or `exp2`. `names` are the current names of the maximum's labels. `falls`:
    whether the shift is known not to be positive."""

    call: Call
    shift: TileValue
    names: dict[str, str]
    falls: bool

    def rename(self, names: dict[str, str]) -> RescaleFactor:
        """The same with renamed axes."""
        return RescaleFactor(
            self.call,
            self.shift.rename(names),
            {a: names.get(n, n) for a, n in self.names.items()},
            self.falls,
        )

    def factor(self, k: KernelState, step: TileValue) -> TileValue:
        """The factor for a step of the maximum."""
        step = step.rename(self.names)
        axes_of_both = tuple(dict.fromkeys((*self.shift.axes, *step.axes)))
        moved = values.binary(
            k.b, "*", align_axes(self.shift, axes_of_both), align_axes(step, axes_of_both)
        )
        multiplier = values.call(k.b, self.call.name, [moved], k.fast)
        if not self.falls:
            multiplier = finite_multiplier(k, multiplier, align_axes(step, axes_of_both))
        return TileValue(multiplier, axes_of_both)

    def exponent(self, k: KernelState) -> Any:
        """The number that converts the growth of the maximum to an exponent of 2."""
        return values.binary(k.b, "*", self.shift.item, -_BINARY[self.call.name])


@attrs.define(eq=False)
class Member:
    """A reduction of the group: `total` is its variable, of tiles with `axes`. Where it `leads`,
    others grow with it: what it is to them is `total`, which with `slack` is a level that may stay
    after, and `top` is the maximum then."""

    node: Reduction
    env: Env
    key: Any
    axes: tuple[str, ...]
    into: Scalar
    leads: bool = False
    total: Any = None
    top: Any = None
    slack: RescaleFactor | None = None
    """The growth of all values that depend on it, if its level may be lower than the maximum."""
    growths: tuple[tuple[Member, RescaleFactor], ...] = ()
    """The maxima that it depends on, and how."""
    step: TileValue | None = None
    """The growth in this step; with `slack`, the multiplier of the dependent values."""
    partials: tuple[int, ...] = ()
    """The extent of an axis of its own that a sum, or the maximum that a level follows, has
    besides: parts that are joined after the pass."""

    @property
    def step_axes(self) -> tuple[str, ...]:
        """The axes of what is joined in each step."""
        return (*self.axes, PARTS) if self.partials else self.axes


def gather_members(k: KernelState, node: Reduction, env: Env) -> list[Member]:
    """The reductions over one label that can be formed at one place, each after those it needs."""
    members: dict[Any, Member] = {}
    for at, inner in reductions_over(k, k.group.root.value, node.label, _cache(k, env)):
        _add(k, members, at, inner)
    if k.key(node, env) not in members:
        for at, inner in reductions_over(k, node, node.label, env):
            _add(k, members, at, inner)
    return list(members.values())


def reductions_over(
    k: KernelState, node: Node, label: str, env: Env
) -> Iterator[tuple[Reduction, Env]]:
    """The reductions over a label that an expression needs, for the positions `env` of their other
    labels, in dependence order; repeated needs are listed repeatedly."""
    func = reads_member(k, node)
    if func:
        assert isinstance(node, Access)
        yield from reductions_over(k, func.value, label, inner_env(node, func.labels, env))
        return
    for operand in node.operands:
        yield from reductions_over(k, operand, label, env)
    if not isinstance(node, Reduction) or node.label != label:
        return
    if all(n in env for n in k.free(node)):
        yield node, env


def _cache(k: KernelState, env: Env) -> Env:
    """Positions of the labels of the kernel's own tensor."""
    return {n: r for n, r in env.items() if n in k.group.root.labels}


def _add(k: KernelState, members: dict[Any, Member], node: Reduction, env: Env) -> None:
    key = k.key(node, env)
    if key in members or k.recall(key):
        return
    own = {label: r for label, r in env.items() if label != node.label}
    axes = tuple(label for label in k.shape(node) if label and own[label].extent)
    into = accumulator(node, tuple(k.kind(v) for v in node.values))
    member = Member(node, own, key, axes, into)
    for other in members.values():
        if other.node.op == "rmax" and other.into.is_float:
            other.leads = other.leads or mentions(k, member.node, own, other)
    members[key] = member


def mentions(k: KernelState, node: Node, env: Env, member: Member) -> bool:
    """Whether an expression depends on a reduction of the group."""
    if node == member.node and k.key(node, env) == member.key:
        return True
    func = reads_member(k, node)
    if func:
        assert isinstance(node, Access)
        return mentions(k, func.value, inner_env(node, func.labels, env), member)
    return any(mentions(k, n, env, member) for n in node.operands)
