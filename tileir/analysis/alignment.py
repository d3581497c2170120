"""Alignment: what multiples values are of, and how they run along each dimension.

Every fact is sound: integers wrap as the ops say, loops are solved to a fixpoint, and nothing is
known of a value whose op has no rule. Facts are about the lanes that are defined.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import gcd

import attrs

from tileir.analysis.alignment_facts import (
    Alignment,
    elementwise,
    of_literal,
    of_parameter,
    unknown,
)
from tileir.analysis.alignment_rules import RULES
from tileir.analysis.cache import memoize
from tileir.analysis.dataflow import forward_values
from tileir.ir import Function
from tileir.op import Effects, Op
from tileir.values import Operand, Value

__all__ = ["Alignment", "Alignments", "alignment"]


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Alignments:
    """The alignment of every value of a function."""

    facts: dict[Value, Alignment]

    def of(self, operand: Operand) -> Alignment:
        """What is known of `operand`, a value of the function or a literal."""
        if not isinstance(operand, Value):
            return of_literal(operand)
        fact = self.facts.get(operand)
        return unknown(operand.type) if fact is None else fact


@memoize
def alignment(function: Function) -> Alignments:
    """The alignment of every value of `function`; nothing is known inside a declaration."""
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
