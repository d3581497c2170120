"""The order of the dimensions of a load at addresses that are looked up in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.ops.shape import Broadcast, Reshape
from tileir.types import Tile, shape_of
from tileir.values import Operand, Value

_Request: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
"""The shape of an access, its dimensions with the fastest first, and its elements."""


def loaded_together(
    function: Function, pointer: Operand, fast: int, request: Callable[[Op], _Request]
) -> int | None:
    """The dimension of `pointer` along which one access of a thread loads all indices from which
    the addresses are computed, one for each run along `fast`. None if there is none.

    Elements of neighbouring indices are anywhere: it costs the same which thread loads them. If it
    is the thread that has the indices, these need not move."""
    dims = [d for d, n in enumerate(shape_of(pointer.type)) if n > 1 and d != fast]
    extents = [shape_of(pointer.type)[d] for d in dims]
    for load in _loads(function, pointer):
        shape, order, width = request(load)
        if [n for n in shape if n > 1] == extents and 1 < shape[order[0]] <= width:
            return dims[sum(n > 1 for n in shape[: order[0]])]
    return None


def _loads(function: Function, pointer: Operand) -> Iterator[Op]:
    """Yield the loads of tiles from which `pointer` is computed element by element."""
    origin, waiting, seen = definitions(function), [pointer], set[Operand]()
    while waiting:
        value = waiting.pop()
        op = origin.get(value) if isinstance(value, Value) else None
        if op is None or value in seen:
            continue
        seen.add(value)
        if isinstance(op, Load):
            if isinstance(value.type, Tile):
                yield op
        elif op.elementwise or isinstance(op, (Broadcast, Reshape)):
            waiting += op.inputs
