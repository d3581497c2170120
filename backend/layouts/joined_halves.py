"""Layouts in which halves that are joined, or concatenated, stay in their threads.

    %both = join f32<64, 64, 2> %low, %high
    %rows = reshape f32<64, 128> %both
    %b = fptrunc bf16<64, 128> %rows
    %d = dot f32<16, 128> %a, %b, %c

In the layout of the operand of `mma.sync`, neighbours of a row belong to different lanes: the
halves, 32 bits per element, would be exchanged. Joined where they are loaded they stay, and `%b`
is converted, 16 bits per element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import attrs

from tileir.analysis import memoize
from tileir.analysis.uses import uses
from tileir.backend.layouts.shape_ops import (
    HALVES,
    layout_after,
    layout_before,
    operand_layout,
    transposed_layout,
)
from tileir.ir import Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.types import Tile, shape_of
from tileir.values import Operand, Value

_FOLLOWED = frozenset({*HALVES, "reshape", "trans"})
"""Ops through which halves are followed, next to elementwise ones."""


@memoize
def values_of_halves(function: Function) -> frozenset[Value]:
    """The values that `JoinedHalves` follows to halves from which they are computed."""
    readers, reached = uses(function), set[Value]()
    waiting = [op for op in function.ops if op.mnemonic in HALVES]
    while waiting:
        op = waiting.pop()
        if reached.isdisjoint(op.results):
            reached.update(op.results)
            users = (user for value in op.results for user in readers.get(value, ()))
            waiting += [user for user in users if user.elementwise or user.mnemonic in _FOLLOWED]
    return frozenset(reached)


@attrs.frozen
class JoinedHalves:
    """`of_halves` are the values of `values_of_halves`. `layout_of_half` is the layout in which a
    half is computed if nothing is requested of it, or None for one that has a layout already, or
    none of its own."""

    definitions: Mapping[Value, Op]
    of_halves: frozenset[Value]
    layout_of_half: Callable[[Operand], Layout | None]
    seen: set[tuple[Operand, Layout]] = attrs.field(factory=set)

    def layout(self, value: Operand, requested: Layout) -> Layout | None:
        """The layout of `value` if halves from which it is computed stay in their threads, where
        they cannot if `value` has the layout `requested`. None if there are no such halves."""
        op = self.definitions.get(cast(Value, value))
        if op is None or value not in self.of_halves or (value, requested) in self.seen:
            return None
        self.seen.add((value, requested))
        if op.elementwise:
            operands = [v for v in op.inputs if shape_of(v.type) == shape_of(value.type)]
            layouts = (self.layout(v, requested) for v in operands)
            return next((layout for layout in layouts if layout is not None), None)
        source = op.inputs[0]
        if op.mnemonic == "trans":
            before = self.layout(source, operand_layout(op, cast(Tile, source.type), requested))
            return before and transposed_layout(op, before)
        needed = layout_before(op, requested)
        if needed is not None:
            before = self.layout(source, needed)
        else:
            before = self.layout_of_half(source) if op.mnemonic in HALVES else None
        return before and layout_after(op, before)
