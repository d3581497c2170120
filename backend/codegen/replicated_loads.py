"""Of threads that hold the same elements, which have to know them.

Where a tile has fewer elements than the block has threads, some hold what others hold. The first
of them alone stores it; so what only leads to stores, element by element, need not be loaded by
the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileir.analysis.cache import cached
from tileir.analysis.cfg import cfg
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Tile
from tileir.values import Value


@cached
def loads_by_first_owner(function: Function) -> frozenset[Op]:
    """The loads of tiles that only the first thread that holds an element has to make, and volatile
    loads, of which it tells the others: memory may change between two threads' loads."""
    needed: set[Value] = set()
    found: set[Op] = set()
    for label in reversed(cfg(function).order):
        for op in reversed(function.blocks[label].ops):
            tile = op.mnemonic == "load" and isinstance(op.results[0].type, Tile)
            changing = bool(op.results) and getattr(op, "volatile", False)
            if changing or (tile and _unneeded(op, needed)):
                found.add(op)
            needed.update(_told(op, needed))
    return frozenset(found)


def _told(op: Op, needed: set[Value]) -> Iterator[Value]:
    """Operands of `op` that every thread that holds them has to know."""
    alone = op.mnemonic == "store" or (
        _unneeded(op, needed)
        and (op.mnemonic == "load" or (op.elementwise and op.effects is Effects.PURE))
    )
    layouts = {v.type.layout for v in (*op.operands, *op.results) if isinstance(v.type, Tile)}
    if not alone or len(layouts) != 1:
        yield from (v for v in op.operands if isinstance(v, Value))


def _unneeded(op: Op, needed: set[Value]) -> bool:
    return bool(op.results) and not any(v in needed for v in op.results)
