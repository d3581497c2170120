"""Analysis of which owners of replicated elements need the values.

If a tile has fewer elements than the block has threads, elements are replicated, and only the first
owner stores an element. A load that only leads to stores, element by element, is therefore not
needed in the other owners.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Tile
from tileir.values import Value


@memoize
def loads_by_first_owner(function: Function) -> frozenset[Op]:
    """The loads of tiles that only the first owner of an element needs, and volatile loads, which
    the first owner broadcasts: memory may change between two threads' loads."""
    needed: set[Value] = set()
    loads: set[Op] = set()
    for label in reversed(cfg(function).order):
        for op in reversed(function.blocks[label].ops):
            tile = op.mnemonic == "load" and isinstance(op.results[0].type, Tile)
            changing = bool(op.results) and getattr(op, "volatile", False)
            if changing or (tile and _is_unneeded(op, needed)):
                loads.add(op)
            needed.update(_broadcast_loads(op, needed))
    return frozenset(loads)


def _broadcast_loads(op: Op, needed: set[Value]) -> Iterator[Value]:
    """Operands of `op` that all their owners need."""
    alone = op.mnemonic == "store" or (
        _is_unneeded(op, needed)
        and (op.mnemonic == "load" or (op.elementwise and op.effects is Effects.PURE))
    )
    layouts = {v.type.layout for v in (*op.operands, *op.results) if isinstance(v.type, Tile)}
    if not alone or len(layouts) != 1:
        yield from (v for v in op.operands if isinstance(v, Value))


def _is_unneeded(op: Op, needed: set[Value]) -> bool:
    return bool(op.results) and not any(v in needed for v in op.results)
