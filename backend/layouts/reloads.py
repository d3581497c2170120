"""The cost of values that are loaded in the layout of the component that reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import cast

from tileir.backend.layouts.shape_ops import is_layout_only, operand_layout
from tileir.effects import Effects
from tileir.layout import AXES, Layout, Vector
from tileir.op import Op
from tileir.types import Tile, shape_of
from tileir.values import Value


def loaded_bytes(
    values: Iterable[Value], layout: Layout, shape: Vector, loaded: Mapping[Value, int],
    defined: Mapping[Value, Op],
) -> int:  # fmt: skip
    """The bytes that all threads load for `values`, which a component of tiles of `shape` reads in
    `layout`: the more rows a thread owns, the fewer bytes a vector costs that is broadcast along
    rows. `loaded` has the values that are loaded, or computed from these, and how often they are.
    """
    loads: dict[tuple[Value, Layout], None] = {}
    pending = [(value, layout) for value in values]
    while pending:
        value, needed = pending.pop()
        op = defined[value]
        if op.effects is Effects.READ:
            if shape_of(value.type) != shape:
                loads[value, needed] = None
            continue
        for operand in op.inputs:
            if operand in loaded:
                kind = cast(Tile, operand.type)
                moved = operand_layout(op, kind, needed) if is_layout_only(op) else needed
                pending.append((cast(Value, operand), moved))
    return sum(
        loaded[value]
        * cast(Tile, value.type).element.bytes
        * prod(needed.size(axis) for axis in AXES)
        for value, needed in loads
    )
