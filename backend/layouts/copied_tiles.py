"""Layouts of tiles that threads copy to shared memory and read from there."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import cast

from tileir.analysis.uses import uses
from tileir.backend.layouts.anchors import AnchorLayouts
from tileir.backend.layouts.shape_ops import is_layout_only
from tileir.ir import Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.types import shape_of
from tileir.values import Value

_COPY = "gpu.async_copy"


def layouts_of_copies(
    function: Function, anchors: AnchorLayouts, cheap: Container[Value], load: Op
) -> Iterator[tuple[Value, Layout]]:
    """Yield the result of `load`, which reads shared memory, and the values computed from it, each
    with the layout in which threads copy these elements. `cheap` values have no layout."""
    readers, result = uses(function), load.results[0]
    copies = [x for x in readers.get(cast(Value, load.inputs[0]), ()) if x.mnemonic == _COPY]
    layout = anchors.of(copies[0]) if copies else None
    if layout is None or shape_of(copies[0].inputs[0].type) != shape_of(result.type):
        return
    pending = [(result, layout)]
    while pending:
        value, own = pending.pop()
        yield value, own
        for reader in readers.get(value, ()) if value is result or value in cheap else ():
            if reader.elementwise:
                pending.append((reader.results[0], own))
            elif reader.mnemonic == "reshape" and is_layout_only(reader):
                shape = shape_of(reader.results[0].type)
                pending.append((reader.results[0], own.with_units(shape_of(value.type), shape)))
