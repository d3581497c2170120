"""Common subexpression elimination."""

from __future__ import annotations

from typing import Any

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import Dominance, dominance
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Replace, Walk, rewrite

_CHANGES_MEMORY = (Effects.WRITE | Effects.SYNC).value
_REPEATABLE = (Effects.READ | Effects.TRAP).value


@pass_("cse")
def cse(function: Function) -> Function:
    """Eliminate common subexpressions: reuse an earlier result of an equal op.

    Two ops are equal if their classes, predicates, attributes and operands are equal; commutative
    ops may have their operands in either order. An op is replaced by an equal op whose block
    dominates it. Ops that read memory are equal only if no op between them, on any path, may write:
    each write starts a new memory state, and so does each block with several predecessors. No op is
    moved. Ops that become dead are left to `dce`.

    before:
        define kernel void @f(i32* %p, i32 %a, i32 %b) {
        entry:
          %x = add i32 %a, %b
          %y = add i32 %b, %a
          %z = mul i32 %x, %y
          store %p, %z
          ret
        }
    after:
        define kernel void @f(i32* %p, i32 %a, i32 %b) {
        entry:
          %x = add i32 %a, %b
          %z = mul i32 %x, %x
          store %p, %z
          ret
        }
    """
    tree = dominance(function)
    return rewrite(function, _Available(function, tree).visit, order=tree.preorder)


class _Available:
    """The ops whose results may be read at the point of the walk, which follows the dominator
    tree: leaving a subtree undoes what was entered in it."""

    def __init__(self, function: Function, tree: Dominance) -> None:
        self.tree = tree
        self.predecessors = cfg(function).predecessors
        self.available: dict[tuple[Any, ...], Op] = {}
        self.added: list[tuple[str, tuple[Any, ...]]] = []
        self.label: str | None = None
        self.state = 0
        self.states = 0
        self.state_at_end: dict[str, int] = {}

    def visit(self, op: Op, walk: Walk) -> Answer:
        if walk.label != self.label:
            self._enter(walk.label)
        effects = op.effects
        if effects is not Effects.PURE and effects.value & ~_REPEATABLE:
            if effects.value & _CHANGES_MEMORY:
                self._new_state()
            return op
        key = _key(op)
        if effects is not Effects.PURE and Effects.READ in effects:
            key = (*key, self.state)
        result = self.available.setdefault(key, op)
        if result is op:
            self.added.append((walk.label, key))
            return op
        return Replace(result.results)

    def _enter(self, label: str) -> None:
        if self.label is not None:
            self.state_at_end[self.label] = self.state
        while self.added and not self.tree.dominates(self.added[-1][0], label):
            del self.available[self.added.pop()[1]]
        self.label = label
        before = self.predecessors[label]
        if len(before) == 1 and before[0] in self.state_at_end:
            self.state = self.state_at_end[before[0]]
        else:
            self._new_state()

    def _new_state(self) -> None:
        self.states += 1
        self.state = self.states


def _key(op: Op) -> tuple[Any, ...]:
    key = op.key()
    if op.commutative:
        return (key[0], key[1], frozenset(key[2:4]), *key[4:])
    return key
