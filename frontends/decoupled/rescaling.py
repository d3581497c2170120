"""Rescaling of reductions when a maximum that they depend on grows."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tileir.frontends.decoupled import evaluate as rules, values
from tileir.frontends.decoupled.causal_skip import is_positive
from tileir.frontends.decoupled.errors import error_at
from tileir.frontends.decoupled.kernel import Env, KernelState, inner_env, reads_member
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
from tileir.frontends.decoupled.online_members import Member, Place, RescaleFactor, mentions
from tileir.frontends.decoupled.ranges import Range
from tileir.frontends.decoupled.values import TileValue, align_axes


def growths(
    k: KernelState, members: list[Member], number: int
) -> Iterator[tuple[Member, RescaleFactor]]:
    """The maxima that a reduction depends on, and how it grows with them."""
    member = members[number]
    env = {**member.env, member.node.label: Range(0)}
    for leader in members:
        if leader is member or not _depends(k, member, env, leader):
            continue
        repeated = leader.leads and any(leader is m for m in members[:number])
        if not repeated or member.node.op not in ("rsum", "rdot"):
            raise _unsupported_error(member.node, leader)
        growth = Rescaling(k, leader, member.node).of_values(env)
        if growth is not None:
            yield leader, growth


def _depends(k: KernelState, member: Member, env: Env, leader: Member) -> bool:
    return any(mentions(k, v, env, leader) for v in member.node.values)


def _name_of(axis: str, theirs: Env, env: Env) -> str:
    """The name of a label of another expression under `env`."""
    if env.get(axis) is theirs[axis]:
        return axis
    return next((label for label, place in env.items() if place is theirs[axis]), axis)


def _unsupported_error(node: Node, leader: Member) -> Exception:
    message = (
        f"online: this depends on the {leader.node.op} at {leader.node.place} in another way than "
        "by a factor exp(c * maximum), and cannot be kept up to date while it changes"
    )
    return error_at(message, node.place, "TIR1204")


@attrs.frozen
class Rescaling:
    """The change of expressions when `leader` grows."""

    k: KernelState
    leader: Member
    node: Reduction

    def of_values(self, env: Env) -> RescaleFactor | None:
        """The factor that the reduction's term changes by."""
        factors = [self.factor(v, env) for v in self.node.values]
        changed = [f for f in factors if f is not None]
        if len(changed) > 1:
            raise _unsupported_error(self.node, self.leader)
        return changed[0] if changed else None

    def _constant(self, node: Node, env: Env) -> bool:
        return not mentions(self.k, node, env, self.leader)

    def _through(self, node: Node, env: Env) -> tuple[Place, dict[str, str]] | None:
        """The algorithm after an access, and how its labels are called here."""
        func = reads_member(self.k, node)
        if func is None:
            return None
        assert isinstance(node, Access)
        names = dict(zip(func.labels, node.labels, strict=True))
        return (func.value, inner_env(node, func.labels, env)), names

    def factor(self, node: Node, env: Env) -> RescaleFactor | None:
        """The multiplier of `node`; None for none."""
        if self._constant(node, env):
            return None
        access_target = self._through(node, env)
        if access_target:
            result = self.factor(*access_target[0])
            return result.rename(access_target[1]) if result else None
        if isinstance(node, (Unary, Reshape)):
            return self.factor(node.operands[0], env)
        if isinstance(node, Call) and node.name in ("exp", "exp2"):
            return self._of_exponential(node, self.shift(node.arguments[0], env), env)
        if isinstance(node, Call) and node.name == "where":
            return self._of_choice(node, env)
        if isinstance(node, Binary) and node.op == "*":
            return self._alike([n for n in node.operands if not self._constant(n, env)], env, 1)
        if isinstance(node, Binary) and node.op == "/" and self._constant(node.right, env):
            return self.factor(node.left, env)
        if isinstance(node, Reduction) and node.op in ("rsum", "rdot"):
            return self._alike([n for n in node.values if not self._constant(n, env)], env, 1)
        raise _unsupported_error(node, self.leader)

    def _of_choice(self, node: Call, env: Env) -> RescaleFactor | None:
        """The factor of a choice between something that changes and 0."""
        condition, *branches = node.arguments
        fixed = [n for n in branches if self._constant(n, env)]
        if not self._constant(condition, env) or any(n != Number(0) for n in fixed):
            raise _unsupported_error(node, self.leader)
        return self._alike([n for n in branches if n not in fixed], env)

    def _alike(self, nodes: list[Node], env: Env, most: int = 2) -> RescaleFactor | None:
        if len(nodes) > most or (len(nodes) == 2 and nodes[0] != nodes[1]):
            raise _unsupported_error(self.node, self.leader)
        return self.factor(nodes[0], env)

    def _of_exponential(self, node: Call, shift: TileValue, env: Env) -> RescaleFactor:
        names = {a: _name_of(a, self.leader.env, env) for a in self.leader.axes}
        sign = self._sign(node.arguments[0], env)
        return RescaleFactor(node, shift, names, sign is not None and sign <= 0)

    def _sign(self, node: Node, env: Env) -> int | None:
        """The sign of `shift`; None where it is not known while compiling."""
        if self._constant(node, env):
            return 0
        if node == self.leader.node:
            return 1
        access_target = self._through(node, env)
        if access_target:
            return self._sign(*access_target[0])
        if isinstance(node, (Unary, Reshape)):
            sign = self._sign(node.operands[0], env)
            turned = isinstance(node, Unary) and node.op == "-"
            return -sign if turned and sign is not None else sign
        assert isinstance(node, Binary)
        left, right = (self._sign(operand, env) for operand in node.operands)
        if node.op in "+-":
            right = -right if node.op == "-" and right is not None else right
            return left if right in (0, left) else right if left == 0 else None
        changing, fixed = (node.right, node.left) if left == 0 else (node.left, node.right)
        return self._sign(changing, env) if is_positive(fixed) else None

    def shift(self, node: Node, env: Env) -> TileValue:
        """The `c` of the `c * step` that `node` grows by."""
        if self._constant(node, env):
            return TileValue(0)
        if node == self.leader.node and self.k.key(node, env) == self.leader.key:
            return TileValue(1)
        access_target = self._through(node, env)
        if access_target:
            return self.shift(*access_target[0]).rename(access_target[1])
        if isinstance(node, Reshape):
            return self.shift(node.value, env)
        if isinstance(node, Unary):
            return self._combine_shifts(node.op, TileValue(0), self.shift(node.value, env))
        if isinstance(node, Binary) and node.op in "+-":
            return self._combine_shifts(
                node.op, self.shift(node.left, env), self.shift(node.right, env)
            )
        if isinstance(node, Binary) and node.op in "*/" and self._constant(node.right, env):
            return self._combine_shifts(
                node.op, self.shift(node.left, env), self._invariant(node.right, env)
            )
        if isinstance(node, Binary) and node.op == "*" and self._constant(node.left, env):
            return self._combine_shifts(
                "*", self._invariant(node.left, env), self.shift(node.right, env)
            )
        raise _unsupported_error(node, self.leader)

    def _invariant(self, node: Node, env: Env) -> TileValue:
        """A factor that is one number for all positions of the label."""
        if self.node.label in self.k.free(node):
            raise _unsupported_error(node, self.leader)
        return rules.evaluate(self.k, node, env)

    def _combine_shifts(self, op: str, left: TileValue, right: TileValue) -> TileValue:
        axes_of_both = tuple(dict.fromkeys((*left.axes, *right.axes)))
        item = values.binary(
            self.k.b, op, align_axes(left, axes_of_both), align_axes(right, axes_of_both)
        )
        return TileValue(item, axes_of_both)
