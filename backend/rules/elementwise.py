"""How a rule for one element becomes a rule for a tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tileir.backend.lower.lowering import Fragment, Lowering, Rule
from tileir.backend.lower.thread import Thread
from tileir.op import Op

Element: TypeAlias = Callable[..., Any]
"""From the thread, the op and one handle per operand to the handle of the result (a tuple where
there are several)."""


def each(function: Callable[[Thread, Any], Any] | Element) -> Rule:
    """Apply `function` to every register; equal operands are computed once.

    A predicate is left aside: where it is false the result is undefined, and rules compute
    without trapping."""

    def rule(lowering: Lowering, op: Op) -> list[Fragment]:
        columns = [lowering.fragment(v) for v in op.inputs]
        count = max(map(len, columns), default=1)
        columns = [column * count if len(column) == 1 else column for column in columns]
        known: dict[tuple[str, ...], tuple[Any, ...]] = {}
        rows: list[tuple[Any, ...]] = []
        for handles in zip(*columns, strict=True):
            found = known.get(handles)
            if found is None:
                made = function(lowering.thread, op, *handles)
                found = known[handles] = made if isinstance(made, tuple) else (made,)
            rows.append(found)
        return [list(column) for column in zip(*rows, strict=True)]

    return rule
