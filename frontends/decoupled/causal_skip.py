"""Early ends of passes over a label, under a causal mask that hides all later positions.

    s[m, l] = where(l <= reshape(m, m, 1), ..., -inf)

This contributes nothing to a maximum where the condition is false, and terms times `exp(s[m, l] -
...)` contribute nothing to a total. If this is true of all reductions of a pass, the pass ends with
the last current position of `m`. Tiles in which the condition is true throughout need no mask.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from tileir.builder import Expr
from tileir.frontends.decoupled.kernel import Env, KernelState, inner_env, reads_member
from tileir.frontends.decoupled.nodes import (
    Access,
    Binary,
    Call,
    Label,
    Length,
    Node,
    Number,
    Reduction,
    Reshape,
    Unary,
)
from tileir.frontends.decoupled.ranges import Range

Place: TypeAlias = tuple[Node, Env]
"""An expression, and the positions at which it stands."""


def needed_positions(k: KernelState, reductions: list[tuple[Reduction, Env]]) -> Expr | int | None:
    """The number of positions of their label that all `reductions` need; None if it is unknown."""
    result = bound(k, reductions)
    if result is None or result[0].last is None:
        return None
    return result[0].last + (0 if result[1] else 1)


def bound(k: KernelState, reductions: list[tuple[Reduction, Env]]) -> tuple[Range, bool] | None:
    """The positions after the last of which all `reductions` get nothing, and whether they get
    nothing there either; None where that is not known."""
    probe = Range(0)
    places = [(node, {**env, node.label: probe}) for node, env in reductions]
    first = next((p for p in places if p[0].op == "rmax"), None)
    hidden = _resolve(k, first[0].values[0], first[1]) if first else None
    if hidden is None or not all(_vanishes_all(k, *place, hidden) for place in places):
        return None
    return _end(k, hidden, probe)


def _resolve(k: KernelState, node: Node, env: Env) -> Place:
    """The node after resolving accesses to fused Funcs and changes of shape."""
    func = reads_member(k, node)
    if func:
        assert isinstance(node, Access)
        return _resolve(k, func.value, inner_env(node, func.labels, env))
    return _resolve(k, node.value, env) if isinstance(node, Reshape) else (node, env)


def holds(k: KernelState, test: Node, env: Env) -> Expr | None:
    """Whether `l <= m` holds at all positions at hand; None where that is not known."""
    sides = _sides(k, test, env)
    if sides is None:
        return None
    low, high, strict = sides
    if not isinstance(low.last, Expr) or high.first is None:
        return None
    return low.last < high.first if strict else low.last <= high.first


def _end(k: KernelState, hidden: Place, probe: Range) -> tuple[Range, bool] | None:
    """The positions for which the condition of `where(l <= m, ..., -inf)` is true, as `bound`
    states them."""
    node, env = hidden
    if not isinstance(node, Call) or node.name != "where" or not _lowest(node.arguments[2]):
        return None
    sides = _sides(k, node.arguments[0], env)
    return sides[1:] if sides is not None and sides[0] is probe else None


def _sides(k: KernelState, test: Node, env: Env) -> tuple[Range, Range, bool] | None:
    """The positions that a test compares, the lower ones first, and whether they may not be equal;
    None for other tests."""
    if not isinstance(test, Binary) or test.op not in ("<", "<=", ">", ">="):
        return None
    nodes = (test.left, test.right) if test.op in ("<", "<=") else (test.right, test.left)
    (low, low_env), (high, high_env) = (_resolve(k, node, env) for node in nodes)
    if not isinstance(low, Label) or not isinstance(high, Label):
        return None
    return low_env[low.name], high_env[high.name], test.op in ("<", ">")


def _lowest(node: Node) -> bool:
    return isinstance(node, Unary) and node.op == "-" and node.value == Number(math.inf)


def _vanishes_all(k: KernelState, node: Reduction, env: Env, hidden: Place) -> bool:
    """Whether a reduction gets nothing where `hidden` is -inf."""
    if node.op == "rmax":
        return _same(k, _resolve(k, node.values[0], env), hidden)
    return node.op in ("rsum", "rdot") and any(_vanishes(k, v, env, hidden) for v in node.values)


def _vanishes(k: KernelState, node: Node, env: Env, hidden: Place) -> bool:
    """Whether `node` is 0 where `hidden` is -inf."""
    node, env = _resolve(k, node, env)
    if isinstance(node, Call) and node.name in ("exp", "exp2"):
        return _falls(k, node.arguments[0], env, hidden)
    if isinstance(node, Binary) and node.op in "*/":
        both = node.op == "*" and all(_vanishes(k, x, env, hidden) for x in node.operands)
        return both or any(
            _vanishes(k, side, env, hidden) and not _reads(k, other, env, hidden)
            for side, other in _operands(node)
        )
    return isinstance(node, Unary) and _vanishes(k, node.value, env, hidden)


def _falls(k: KernelState, node: Node, env: Env, hidden: Place) -> bool:
    """Whether `node` is -inf where `hidden` is."""
    node, env = _resolve(k, node, env)
    if _same(k, (node, env), hidden):
        return True
    if not isinstance(node, Binary):
        return False
    if node.op in ("+", "-"):
        both = node.op == "+" and all(_falls(k, x, env, hidden) for x in node.operands)
        return both or any(
            _falls(k, side, env, hidden) and not _reads(k, other, env, hidden)
            for side, other in _operands(node)
        )
    return node.op in ("*", "/") and any(
        _falls(k, side, env, hidden) and is_positive(other) for side, other in _operands(node)
    )


def _operands(node: Binary) -> list[tuple[Node, Node]]:
    """An operand that decides the value next to the other one: either, or of a difference and of a
    quotient the left one."""
    left, right = node.left, node.right
    return [(left, right)] if node.op in "-/" else [(left, right), (right, left)]


def _reads(k: KernelState, node: Node, env: Env, hidden: Place) -> bool:
    """Whether `node` depends on `hidden` at the same position: it may then be 0 or infinite where
    that is -inf, and 0 times, or minus, an infinity is no number."""
    node, env = _resolve(k, node, env)
    if isinstance(node, Reduction):
        return False
    return _same(k, (node, env), hidden) or any(_reads(k, x, env, hidden) for x in node.operands)


def is_positive(node: Node) -> bool:
    """Whether `node` is a number above 0 whatever the arguments are."""
    if isinstance(node, Number):
        return node.value > 0
    if isinstance(node, Binary) and node.op in ("+", "*", "/"):
        return all(map(is_positive, node.operands))
    if isinstance(node, Call) and node.name in ("sqrt", "exp", "exp2"):
        return node.name != "sqrt" or is_positive(node.arguments[0])
    return isinstance(node, Length)


def _same(k: KernelState, one: Place, other: Place) -> bool:
    return k.key(*one) == k.key(*other)
