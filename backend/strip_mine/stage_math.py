"""Functions of mathematics that several loops need, computed by one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tileir.backend.strip_mine.plan import Plan, Planner
from tileir.op import Op
from tileir.ops.math import MathBinary, MathUnary
from tileir.values import Value


@attrs.frozen
class MathStagingPlanner(Planner):
    """A planner that stages functions of mathematics rather than have them computed again, where
    nothing else is cut otherwise for it."""

    def plan(self, ops: Sequence[Op], outside: set[Value]) -> Plan | None:
        """What comes last is staged first: others may be its operands."""
        plan = Planner.plan(self, ops, outside)
        staged, tried = dict[Op, None](), set[Op]()
        while plan is not None:
            repeated = _repeated(plan, self.definitions) - tried
            op = next((op for op in reversed(ops) if op in repeated), None)
            if op is None:
                break
            tried.add(op)
            found = self.planned(ops, outside, results=False, staged={**staged, op: None})
            if found is not None and _cuts_as(found, plan):
                plan, staged[op] = found, None
        return plan


def _repeated(plan: Plan, definitions: Mapping[Value, Op]) -> set[Op]:
    """Functions that loops of several levels compute."""
    levels: dict[Op, set[int]] = {}
    for sink in plan.sinks.values():
        for value, _ in sink.chain.seen:
            op = definitions.get(value)
            if isinstance(op, (MathUnary, MathBinary)) and op not in sink.chain.staged:
                levels.setdefault(op, set()).add(sink.level)
    return {op for op, found in levels.items() if len(found) > 1}


def _cuts_as(plan: Plan, other: Plan) -> bool:
    """Whether `plan` cuts what `other` does, along the same dimensions, but for what is staged."""
    cut = {op: sink.dim for op, sink in plan.sinks.items()}
    return all(cut.get(s.op) == s.dim for s in other.sinks.values() if not s.stages)
