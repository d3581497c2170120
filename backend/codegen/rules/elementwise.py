"""Rules for tiles from rules for one element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from operator import floordiv
from typing import TYPE_CHECKING, Any, TypeAlias

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.layout import AXES, Layout
from tileir.op import Op
from tileir.types import Tile

if TYPE_CHECKING:
    from tileir import types
    from tileir.backend.codegen.thread_interface import Thread

Element: TypeAlias = Callable[..., Any]
"""Maps the thread, the op and one handle per operand to the handle of the result, or to a tuple if
there are several."""


def elementwise(function: Callable[[Thread, Any], Any] | Element) -> Rule:
    """Apply `function` to every register. Equal operands are computed once. So are neighbours whose
    results are known to be equal or consecutive numbers.

    The predicate is ignored: the result is undefined where it is false, and rules do not trap.
    """

    def rule(lowering: Lowering, op: Op) -> list[Fragment]:
        columns = [lowering.fragment(v) for v in op.inputs]
        count = max(map(len, columns), default=1)
        columns = [column * count if len(column) == 1 else column for column in columns]
        near = _neighbours(lowering, op, count)
        computed: dict[tuple[str, ...], tuple[Any, ...]] = {}
        rows: list[tuple[Any, ...]] = []
        for register, handles in enumerate(zip(*columns, strict=True)):
            if near is not None and near[register][0] != register:
                first, distance = near[register]
                of_first = rows[first]
                if distance:
                    of_first = (_plus(lowering.thread, op, of_first[0], distance),)
                rows.append(of_first)
                continue
            results = computed.get(handles)
            if results is None:
                value = function(lowering.thread, op, *handles)
                results = computed[handles] = value if isinstance(value, tuple) else (value,)
            rows.append(results)
        return [list(column) for column in zip(*rows, strict=True)]

    return rule


_EQUAL = frozenset({"icmp", "fcmp", "sdiv", "udiv"})
"""Ops that give neighbours equal results of operands that differ: a range compared with a multiple
of their number, or divided by it."""
_CONSECUTIVE = frozenset({"srem", "urem"})
"""Ops whose results are consecutive for neighbours that do not reach the divisor."""
_GROUPED = _EQUAL | _CONSECUTIVE


def _neighbours(lowering: Lowering, op: Op, count: int) -> Sequence[tuple[int, int]] | None:
    """For each register, the first register of its group, and the difference of its result from
    that of the first one; None where each register is a group."""
    kind, name = op.results[0].type, op.mnemonic
    if name not in _GROUPED or count == 1 or not isinstance(kind, Tile):
        return None
    if lowering.part is not None:
        return None
    facts = [lowering.contiguity.facts.of(v) for v in op.results]
    if name in _EQUAL:
        groups = zip(*(fact.constancy for fact in facts), strict=True)
        sizes, along = [gcd(*group) & -gcd(*group) for group in groups], None
    else:
        runs = facts[0].contiguity
        along = max(range(len(runs)), key=lambda d: runs[d])
        sizes = [n & -n if d == along else 1 for d, n in enumerate(runs)]
    if max(sizes) == 1 or _breaks_groups(kind.layout, sizes):
        return None
    first: dict[tuple[int, ...], int] = {}
    where = kind.layout.registers
    leaders = [first.setdefault(tuple(map(floordiv, at, sizes)), r) for r, at in enumerate(where)]
    if along is None:
        return [(leader, 0) for leader in leaders]
    return [(leader, where[r][along] - where[leader][along]) for r, leader in enumerate(leaders)]


def _plus(thread: Thread, op: Op, handle: str, distance: int) -> str:
    element = scalar_of(op.results[0].type)
    return thread.binary("add", element, handle, thread.constant(element, distance))


def _breaks_groups(layout: Layout, sizes: Sequence[int]) -> bool:
    """Whether a repetition moves elements by less than a group. Groups of registers are then not
    groups of elements."""
    steps = [digit.step for axis in AXES for digit in layout.digits(axis)]
    return any(s % n for step in steps for s, n in zip(step, sizes, strict=True))


def result_element(op: Any) -> types.Element:
    """The element type of the only result."""
    return scalar_of(op.result.type)


def fits_i32(range_: tuple[int, int]) -> bool:
    """Whether a range is within that of an i32."""
    return range_[0] >= -(1 << 31) and range_[1] < 1 << 31
