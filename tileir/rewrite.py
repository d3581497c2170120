"""The one engine of local rewriting: a walk in reverse post-order.

Blocks have parameters, so every definition is visited before its uses, along back edges too: one
walk rewrites a whole graph, and a rule sees an op whose operands have been rewritten already.

    function = rewrite(function, rule)

A rule returns the replacement of the op:

    the op itself          nothing changes another op             it takes over the results where
    the types hold a sequence of ops      the last one takes over the results; `()` removes an op
    without results an operand             its uses read that instead `Replace(values, ops)` `ops`
    go first, then `values` stand for the results

The rules are applied to inserted ops, too. A walk that changes nothing returns its argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.errors import Diagnostic, PassError
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.values import Constant, Operand, Undef, Value

MAX_CHAIN = 256
"""Rewrites in a row that one op may go through; more means that two rules undo each other."""


@attrs.frozen
class Replace:
    """`values` stand for the results of an op; `ops` are put in its place."""

    values: tuple[Operand, ...]
    ops: tuple[Op, ...] = ()


Answer: TypeAlias = Op | Operand | Sequence[Op] | Replace
Rule: TypeAlias = "Callable[[Op, Walk], Answer]"
Rules: TypeAlias = "Rule | Mapping[str, Rule]"
"""One rule for every op, or rules by mnemonic; ops without one are kept."""


class Walk:
    """The state of one walk, as far as rules may ask: where it is and what defines a value."""

    __slots__ = ("_find", "_kept", "definitions", "env", "label")

    def __init__(self, rules: Rules) -> None:
        self.label = ""
        self.definitions: dict[Value, Op] = {}
        """The op, as rewritten, that defines each value visited so far; parameters have none."""
        self.env: dict[Value, Operand] = {}
        """What replaced values stand for."""
        self._kept: list[Op] = []
        self._find = rules.get if isinstance(rules, Mapping) else lambda _: rules

    def definition(self, operand: Operand | None) -> Op | None:
        """The op that defines `operand`; None for parameters, literals and absent operands."""
        return self.definitions.get(operand) if type(operand) is Value else None

    def block(self, block: Block) -> Block:
        """`block` rewritten; itself where nothing changed."""
        ops = self._kept = []
        env, definitions, find, keep = self.env, self.definitions, self._find, ops.append
        changed = False
        for old in block.ops:
            op = old.remap(env) if env else old
            rule = find(op.mnemonic)
            answer = op if rule is None else rule(op, self)
            if answer is op:
                for value in op.results:
                    definitions[value] = op
                keep(op)
                changed = changed or op is not old
            else:
                changed = True
                self._settle(op, answer, 1)
        return attrs.evolve(block, ops=ops) if changed else block

    def _settle(self, op: Op, answer: Answer, depth: int) -> None:
        """Emit what a rule answered for `op`."""
        if depth > MAX_CHAIN:
            message = f"{op.mnemonic}: rewriting does not end"
            raise PassError(Diagnostic("TIR0608", message, op.location))
        replacement = _normal(op, answer)
        if len(replacement.values) != len(op.results):
            counts = f"{len(replacement.values)} values for {len(op.results)} results"
            raise TypeError(f"{op.mnemonic}: a rule answers with {counts}")
        for new in replacement.ops:
            self._emit(new, depth)
        for result, value in zip(op.results, replacement.values, strict=True):
            if value is not result:
                self.env[result] = self.env.get(cast(Value, value), value)

    def _emit(self, op: Op, depth: int) -> None:
        op = op.remap(self.env) if self.env else op
        rule = self._find(op.mnemonic)
        answer = op if rule is None else rule(op, self)
        if answer is not op:
            self._settle(op, answer, depth + 1)
            return
        for value in op.results:
            self.definitions[value] = op
        self._kept.append(op)


def rewrite(
    function: Function,
    rules: Rules,
    *,
    order: Iterable[str] | None = None,
    replaced: Mapping[Value, Operand] | None = None,
) -> Function:
    """`function` with every op as `rules` answer; itself where they change nothing.

    `order` lists the labels of all blocks, each after its dominators; by default reverse
    post-order. `replaced` are replacements known beforehand. Raises PassError (TIR0608) where the
    rules undo each other.
    """
    walk = Walk(rules)
    walk.env.update(replaced or {})
    done: dict[str, Block] = {}
    for label in cfg(function).order if order is None else order:
        walk.label = label
        done[label] = walk.block(function.blocks[label])
    return function.with_blocks({label: done[label] for label in function.blocks if label in done})


def _normal(op: Op, answer: Answer) -> Replace:
    if isinstance(answer, Replace):
        return Replace(answer.values, tuple(_with_location(new, op) for new in answer.ops))
    if isinstance(answer, (Value, Constant, Undef)):
        return Replace((answer,))
    ops = (answer,) if isinstance(answer, Op) else _sequence(op, answer)
    if not ops:
        return Replace(())
    last = _taking_over(ops[-1], op)
    return Replace(last.results, (*(_with_location(new, op) for new in ops[:-1]), last))


def _sequence(op: Op, answer: object) -> tuple[Op, ...]:
    ops = tuple(answer) if isinstance(answer, Iterable) else (answer,)
    if not all(isinstance(new, Op) for new in ops):
        raise TypeError(
            f"{op.mnemonic}: a rule answers with ops, a value or Replace, not {answer!r}"
        )
    return cast("tuple[Op, ...]", ops)


def _with_location(new: Op, old: Op) -> Op:
    """`new` at the place of `old` unless it has one."""
    if new.location is not None or old.location is None:
        return new
    return new.evolve(location=old.location)


def _taking_over(new: Op, old: Op) -> Op:
    """`new` with the results of `old` where their types are the same, its place and comments."""
    changes: dict[str, object] = {}
    if new.location is None and old.location is not None:
        changes["location"] = old.location
    if old.comments and not new.comments:
        changes["comments"] = old.comments
    types = [v.type for v in old.results] == [v.type for v in new.results]
    if types and new.results != old.results:
        changes["results"] = old.results
    return new.evolve(**changes) if changes else new
