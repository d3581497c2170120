"""Online reductions: all reductions over a label in one pass, each kept up to date.

What a running maximum m enters as exp(c m + ...) is multiplied by exp(c (m' - m)) when m becomes
m' (Milakov and Gimelshein 2018), which turns softmax and what follows it into one loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

from tileir import records
from tileir.frontends.decoupled import evaluate as rules, values
from tileir.frontends.decoupled.elements import accumulator
from tileir.frontends.decoupled.errors import wrong
from tileir.frontends.decoupled.kernel import Env, Kernel, inner_env, reads_member
from tileir.frontends.decoupled.nodes import (
    Access,
    Binary,
    Call,
    Node,
    Number,
    Reduction,
    Reshape,
    Unary,
)
from tileir.frontends.decoupled.ranges import Range, positions
from tileir.frontends.decoupled.skipping import needed
from tileir.frontends.decoupled.values import Tile, aligned, spread
from tileir.types import Scalar, tile

Place: TypeAlias = tuple[Node, Env]
"""An expression, and the positions at which it stands."""


_SLACK = {"exp": 8 * math.log(2), "exp2": 8.0}
"""How far exponents may pass 0 before a level follows a maximum."""


@records.frozen(eq=False)
class _Growth:
    """What an expression is multiplied by when a maximum grows by `step`: `call(shift * step)`,
    where `call` is `exp` or `exp2` of it; `names` are the maximum's labels as they are called."""

    call: Call
    shift: Tile
    names: dict[str, str]

    def renamed(self, names: dict[str, str]) -> _Growth:
        """With axes called otherwise."""
        return _Growth(
            self.call,
            self.shift.renamed(names),
            {a: names.get(n, n) for a, n in self.names.items()},
        )

    def factor(self, k: Kernel, step: Tile) -> Tile:
        """The factor for a step of the maximum."""
        step = step.renamed(self.names)
        held = tuple(dict.fromkeys((*self.shift.axes, *step.axes)))
        moved = values.binary(k.b, "*", aligned(self.shift, held), aligned(step, held))
        return Tile(values.call(k.b, self.call.name, [moved], k.fast), held)


@records.define(eq=False)
class _Member:
    """A reduction of the group: `total` is its variable, of tiles with `axes`. Where it `leads`,
    others grow with it: what it is to them is `total`, a level that may stay behind, and `top` is
    the maximum then."""

    node: Reduction
    env: Env
    key: Any
    axes: tuple[str, ...]
    into: Scalar
    leads: bool = False
    total: Any = None
    top: Any = None
    slack: tuple[_Growth, float] | None = None
    growths: tuple[tuple[_Member, _Growth], ...] = ()
    """The maxima that it depends on, and how."""
    step: Tile | None = None
    """By how much it grew in this step."""


def evaluate_together(k: Kernel, node: Reduction, env: Env) -> Tile:
    """The value of a reduction; those that go along with it are remembered. Raises
    CompilationError where one cannot be kept up to date."""
    members = _gathered(k, node, env)
    for i, member in enumerate(members):
        rules.hoist_factors(k, member.node, member.env)
        member.growths = tuple(_growths(k, members, i))
    for member in members:
        shape = tuple(member.env[a].extent for a in member.axes)
        constant = k.b.constant(tile(member.into, shape), _first(member))
        member.total = k.b.var(constant, name=member.node.op)
        member.slack = _slack(k, member, members)
        member.top = k.b.var(constant, name="top") if member.slack else None
    end = needed(k, [(member.node, member.env) for member in members])
    walk = records.evolve(k.walk(node.label, env, node), end=end)
    with positions(k.b, walk, k.stages) as place, k.scope():
        for member in members:
            _advance(k, member, {**member.env, node.label: place})
    for member in members:
        k.remember(member.key, _finished(k, member))
    found = k.recall(k.key(node, env))
    assert found is not None
    return found


def _first(member: _Member) -> Any:
    """Maxima that others depend on begin with a finite number, so that differences exist."""
    if not member.leads:
        return rules.identity(member.node.op, member.into)
    return {64: -1.7976931348623157e308}.get(member.into.bits, -3.4028234663852886e38)


def _gathered(k: Kernel, node: Reduction, env: Env) -> list[_Member]:
    """The reductions over one label that can be formed at one place, each after those it needs."""
    members: dict[Any, _Member] = {}
    for at, inner in formed(k, k.group.root.value, node.label, _known(k, env)):
        _add(k, members, at, inner)
    if k.key(node, env) not in members:
        for at, inner in formed(k, node, node.label, env):
            _add(k, members, at, inner)
    return list(members.values())


def formed(k: Kernel, node: Node, label: str, env: Env) -> Iterator[tuple[Reduction, Env]]:
    """The reductions over a label that an expression needs and whose other labels stand where `env`
    says, each after those it needs, as often as they are needed."""
    func = reads_member(k, node)
    if func:
        assert isinstance(node, Access)
        yield from formed(k, func.value, label, inner_env(node, func.labels, env))
        return
    for operand in node.operands:
        yield from formed(k, operand, label, env)
    if not isinstance(node, Reduction) or node.label != label:
        return
    if all(n in env for n in k.free(node)):
        yield node, env


def _known(k: Kernel, env: Env) -> Env:
    """Positions of the labels of the kernel's own tensor."""
    return {n: r for n, r in env.items() if n in k.group.root.labels}


def _add(k: Kernel, members: dict[Any, _Member], node: Reduction, env: Env) -> None:
    key = k.key(node, env)
    if key in members or k.recall(key):
        return
    own = {label: r for label, r in env.items() if label != node.label}
    axes = tuple(label for label in k.shape(node) if label and own[label].extent)
    into = accumulator(node, tuple(k.kind(v) for v in node.values))
    member = _Member(node, own, key, axes, into)
    for other in members.values():
        if other.node.op == "rmax" and other.into.is_float:
            other.leads = other.leads or _mentions(k, member.node, own, other)
    members[key] = member


def _mentions(k: Kernel, node: Node, env: Env, member: _Member) -> bool:
    """Whether an expression depends on a reduction of the group."""
    if node == member.node and k.key(node, env) == member.key:
        return True
    func = reads_member(k, node)
    if func:
        assert isinstance(node, Access)
        return _mentions(k, func.value, inner_env(node, func.labels, env), member)
    return any(_mentions(k, n, env, member) for n in node.operands)


def _advance(k: Kernel, member: _Member, env: Env) -> None:
    """One step of one reduction."""
    node, old = member.node, member.total.get()
    steps = [(growth, leader.step) for leader, growth in member.growths]
    scaled = _scaled(k, member, old, steps)
    kinds = tuple(k.kind(v) for v in node.values)
    if rules.is_product(k, node, env, kinds):
        new = rules.product(k, node, env, kinds, scaled)
    else:
        found = rules.collapsed(k, node, *rules.term(k, node, env, member.into))
        shape = tuple(env[a].extent for a in member.axes)
        part = spread(found, member.axes, shape, k.b)
        if member.slack:
            member.top.set(rules.combined(k, node.op, member.top.get(), part))
        new = rules.combined(k, node.op, scaled, part)
    new = _level(k, member, old, new)
    member.total.set(new)
    member.step = Tile(new - old, member.axes) if member.leads else None
    k.remember(member.key, Tile(new, member.axes))


def _level(k: Kernel, member: _Member, old: Any, new: Any) -> Any:
    """What exponents are relative to from here on: the maximum, or the level before where that is
    so little lower that nothing overflows."""
    if member.slack is None:
        return new
    growth, slack = member.slack
    moved = values.binary(k.b, "*", growth.shift.item, new - old)
    return k.b.where(abs(moved) > slack, new, old)  # type: ignore[arg-type]


def _slack(k: Kernel, member: _Member, members: list[_Member]) -> tuple[_Growth, float] | None:
    """How all that depends on a maximum grows with it, and how far its exponents may go, where
    they may: a level that follows in few steps leaves most totals as they are."""
    growths = [g for m in members for leader, g in m.growths if leader is member]
    if not k.fast or not growths or not member.into.is_float:
        return None
    first = growths[0]
    if any(g.call != first.call or g.shift.axes for g in growths):
        return None
    return first, _SLACK[first.call.name]


def _finished(k: Kernel, member: _Member) -> Tile:
    """The value of a reduction behind the pass: relative to maxima, not to levels."""
    if member.slack:
        return Tile(member.top.get(), member.axes)
    rest = [
        (growth, Tile(leader.top.get() - leader.total.get(), leader.axes))
        for leader, growth in member.growths
        if leader.slack
    ]
    return Tile(_scaled(k, member, member.total.get(), rest), member.axes)


def _scaled(k: Kernel, member: _Member, total: Any, steps: list[Any]) -> Any:
    """A total so far, for maxima that have grown since."""
    found: Tile | None = None
    for growth, step in steps:
        factor = growth.factor(k, step)
        found = factor if found is None else _product(k, found, factor, member.axes)
    return total if found is None else total * aligned(found, member.axes)


def _growths(k: Kernel, members: list[_Member], number: int) -> Iterator[tuple[_Member, _Growth]]:
    """The maxima that a reduction depends on, and how it grows with them."""
    member = members[number]
    env = {**member.env, member.node.label: Range(0)}
    for leader in members:
        if leader is member or not _depends(k, member, env, leader):
            continue
        known = leader.leads and any(leader is m for m in members[:number])
        if not known or member.node.op not in ("rsum", "rdot"):
            raise _refused(member.node, leader)
        growth = _Scaling(k, leader, member.node).of_values(env)
        if growth is not None:
            yield leader, growth


def _depends(k: Kernel, member: _Member, env: Env, leader: _Member) -> bool:
    return any(_mentions(k, v, env, leader) for v in member.node.values)


def _product(k: Kernel, left: Tile, right: Tile, axes: tuple[str, ...]) -> Tile:
    held = tuple(a for a in axes if a in left.axes or a in right.axes)
    return Tile(values.binary(k.b, "*", aligned(left, held), aligned(right, held)), held)


def _name_of(axis: str, theirs: Env, env: Env) -> str:
    """What a label of another expression is called where `env` holds."""
    if env.get(axis) is theirs[axis]:
        return axis
    return next((label for label, place in env.items() if place is theirs[axis]), axis)


def _refused(node: Node, leader: _Member) -> Exception:
    message = (
        f"online: this depends on the {leader.node.op} at {leader.node.place} in another way than "
        "by a factor exp(c * maximum), and cannot be kept up to date while it changes"
    )
    return wrong(message, node.place, "TIR1204")


@records.frozen
class _Scaling:
    """How expressions change when `leader` grows."""

    k: Kernel
    leader: _Member
    node: Reduction

    def of_values(self, env: Env) -> _Growth | None:
        """The factor that the reduction's term changes by."""
        factors = [self.factor(v, env) for v in self.node.values]
        changed = [f for f in factors if f is not None]
        if len(changed) > 1:
            raise _refused(self.node, self.leader)
        return changed[0] if changed else None

    def _constant(self, node: Node, env: Env) -> bool:
        return not _mentions(self.k, node, env, self.leader)

    def _through(self, node: Node, env: Env) -> tuple[Place, dict[str, str]] | None:
        """The algorithm behind an access, and how its labels are called here."""
        func = reads_member(self.k, node)
        if func is None:
            return None
        assert isinstance(node, Access)
        names = dict(zip(func.labels, node.labels, strict=True))
        return (func.value, inner_env(node, func.labels, env)), names

    def factor(self, node: Node, env: Env) -> _Growth | None:
        """What `node` is multiplied by; None for nothing."""
        if self._constant(node, env):
            return None
        behind = self._through(node, env)
        if behind:
            found = self.factor(*behind[0])
            return found.renamed(behind[1]) if found else None
        if isinstance(node, (Unary, Reshape)):
            return self.factor(node.operands[0], env)
        if isinstance(node, Call) and node.name in ("exp", "exp2"):
            return self._grown(node, self.shift(node.arguments[0], env), env)
        if isinstance(node, Call) and node.name == "where":
            return self._chosen(node, env)
        if isinstance(node, Binary) and node.op == "*":
            return self._alike([n for n in node.operands if not self._constant(n, env)], env, 1)
        if isinstance(node, Binary) and node.op == "/" and self._constant(node.right, env):
            return self.factor(node.left, env)
        if isinstance(node, Reduction) and node.op in ("rsum", "rdot"):
            return self._alike([n for n in node.values if not self._constant(n, env)], env, 1)
        raise _refused(node, self.leader)

    def _chosen(self, node: Call, env: Env) -> _Growth | None:
        """The factor of a choice between something that changes and 0."""
        condition, *branches = node.arguments
        fixed = [n for n in branches if self._constant(n, env)]
        if not self._constant(condition, env) or any(n != Number(0) for n in fixed):
            raise _refused(node, self.leader)
        return self._alike([n for n in branches if n not in fixed], env)

    def _alike(self, nodes: list[Node], env: Env, most: int = 2) -> _Growth | None:
        if len(nodes) > most or (len(nodes) == 2 and nodes[0] != nodes[1]):
            raise _refused(self.node, self.leader)
        return self.factor(nodes[0], env)

    def _grown(self, node: Call, shift: Tile, env: Env) -> _Growth:
        leader = self.leader
        return _Growth(node, shift, {a: _name_of(a, leader.env, env) for a in leader.axes})

    def shift(self, node: Node, env: Env) -> Tile:
        """The `c` of the `c * step` that `node` grows by."""
        if self._constant(node, env):
            return Tile(0)
        if node == self.leader.node and self.k.key(node, env) == self.leader.key:
            return Tile(1)
        behind = self._through(node, env)
        if behind:
            return self.shift(*behind[0]).renamed(behind[1])
        if isinstance(node, Reshape):
            return self.shift(node.value, env)
        if isinstance(node, Unary):
            return self._combined(node.op, Tile(0), self.shift(node.value, env))
        if isinstance(node, Binary) and node.op in "+-":
            return self._combined(node.op, self.shift(node.left, env), self.shift(node.right, env))
        if isinstance(node, Binary) and node.op in "*/" and self._constant(node.right, env):
            return self._combined(node.op, self.shift(node.left, env), self._fixed(node.right, env))
        if isinstance(node, Binary) and node.op == "*" and self._constant(node.left, env):
            return self._combined("*", self._fixed(node.left, env), self.shift(node.right, env))
        raise _refused(node, self.leader)

    def _fixed(self, node: Node, env: Env) -> Tile:
        """A factor that is one number for all positions of the label."""
        if self.node.label in self.k.free(node):
            raise _refused(node, self.leader)
        return rules.evaluate(self.k, node, env)

    def _combined(self, op: str, left: Tile, right: Tile) -> Tile:
        held = tuple(dict.fromkeys((*left.axes, *right.axes)))
        item = values.binary(self.k.b, op, aligned(left, held), aligned(right, held))
        return Tile(item, held)
