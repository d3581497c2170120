"""Staging of math functions that several loops need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tileir.backend.strip_mine.plan import Planner, StripMinePlan
from tileir.op import Op
from tileir.ops.math import MathBinary, MathUnary
from tileir.values import Value


@attrs.frozen
class MathStagingPlanner(Planner):
    """A planner that stages math functions instead of recomputing them, if all other sinks stay
    cut along the same dimensions."""

    def plan(self, ops: Sequence[Op], outside: set[Value]) -> StripMinePlan | None:
        """Plan as `Planner.plan` does. The last op is staged first, since others may be its
        operands."""
        plan = Planner.plan(self, ops, outside)
        staged, tried = dict[Op, None](), set[Op]()
        while plan is not None:
            repeated = _math_of_several_levels(plan, self.definitions) - tried
            op = next((op for op in reversed(ops) if op in repeated), None)
            if op is None:
                break
            tried.add(op)
            candidate = self.plan_staging(ops, outside, results=False, staged={**staged, op: None})
            if candidate is not None and _cuts_as(candidate, plan):
                plan, staged[op] = candidate, None
        return plan


def _math_of_several_levels(plan: StripMinePlan, definitions: Mapping[Value, Op]) -> set[Op]:
    """Math functions that loops of several levels compute."""
    levels: dict[Op, set[int]] = {}
    for sink in plan.sinks.values():
        for value, _ in sink.slice.seen:
            op = definitions.get(value)
            if isinstance(op, (MathUnary, MathBinary)) and op not in sink.slice.staged:
                levels.setdefault(op, set()).add(sink.level)
    return {op for op, used_at in levels.items() if len(used_at) > 1}


def _cuts_as(plan: StripMinePlan, other: StripMinePlan) -> bool:
    """Whether `plan` cuts the sinks of `other` along the same dimensions, except for staged ops."""
    cut = {op: sink.dim for op, sink in plan.sinks.items()}
    return all(cut.get(s.op) == s.dim for s in other.sinks.values() if not s.stages)
