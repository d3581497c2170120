"""How a rule for one element becomes a rule for a tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from operator import floordiv
from typing import TYPE_CHECKING, Any, TypeAlias

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.layout import AXES, Layout
from tileir.op import Op
from tileir.types import Tile

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Thread

Element: TypeAlias = Callable[..., Any]
"""From the thread, the op and one handle per operand to the handle of the result (a tuple where
there are several)."""


def elementwise(function: Callable[[Thread, Any], Any] | Element) -> Rule:
    """Apply `function` to every register; equal operands are computed once, and neighbours whose
    results are certainly equal too.

    A predicate is left aside: where it is false the result is undefined, and rules compute
    without trapping."""

    def rule(lowering: Lowering, op: Op) -> list[Fragment]:
        columns = [lowering.fragment(v) for v in op.inputs]
        count = max(map(len, columns), default=1)
        columns = [column * count if len(column) == 1 else column for column in columns]
        same = _alike(lowering, op, count)
        computed: dict[tuple[str, ...], tuple[Any, ...]] = {}
        rows: list[tuple[Any, ...]] = []
        for register, own in enumerate(zip(*columns, strict=True)):
            first = same[register]
            handles = own if first == register else tuple([column[first] for column in columns])
            results = computed.get(handles)
            if results is None:
                value = function(lowering.thread, op, *handles)
                results = computed[handles] = value if isinstance(value, tuple) else (value,)
            rows.append(results)
        return [list(column) for column in zip(*rows, strict=True)]

    return rule


def _alike(lowering: Lowering, op: Op, count: int) -> Sequence[int]:
    """Per register the first one whose results are the same: elements are equal in aligned groups
    of neighbours, as a comparison of a range with a bound that is a multiple of their number."""
    kind = op.results[0].type
    if count == 1 or not isinstance(kind, Tile) or not op.mnemonic.endswith("cmp"):
        return range(count)
    facts = [lowering.contiguity.facts.of(v).constancy for v in op.results]
    sizes = [gcd(*group) & -gcd(*group) for group in zip(*facts, strict=True)]
    if max(sizes) == 1 or _breaks_groups(kind.layout, sizes):
        return range(count)
    first: dict[tuple[int, ...], int] = {}
    groups = (tuple(map(floordiv, at, sizes)) for at in kind.layout.registers)
    return [first.setdefault(group, register) for register, group in enumerate(groups)]


def _breaks_groups(layout: Layout, sizes: Sequence[int]) -> bool:
    """Whether repetitions move threads by less than a group, so that groups of registers are not
    those of elements."""
    steps = [digit.step for axis in AXES for digit in layout.digits(axis)]
    return any(s % n for step in steps for s, n in zip(step, sizes, strict=True))
