"""Private memory of each thread. A tile is stored as the sequence of registers that its layout
assigns to a thread. Their positions in the tile do not matter, so accesses are as wide as the
number of registers allows."""

from __future__ import annotations

from typing import Any, cast

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, registers, scalar_of
from tileir.backend.target import VECTOR_BYTES
from tileir.types import I32, Buffer, Element


def _alloc(lowering: Lowering, op: Any) -> list[Fragment]:
    kind = op.result.type
    element, count = scalar_of(kind.tile), kind.count * registers(kind.tile)
    return [[lowering.thread.allot_private(element, count)]]


def _store(lowering: Lowering, op: Any) -> list[Fragment]:
    place, element, width = _place(lowering, op)
    values, first = lowering.fragment(op.value), _first(lowering, op)
    for start in range(0, len(values), width):
        index = _index_at(lowering, first, start)
        lowering.thread.store_private(element, place, index, values[start : start + width])
    return []


def _load(lowering: Lowering, op: Any) -> list[Fragment]:
    place, element, width = _place(lowering, op)
    first, values = _first(lowering, op), list[Any]()
    for start in range(0, registers(op.result.type), width):
        index = _index_at(lowering, first, start)
        values += lowering.thread.load_private(element, width, place, index)
    return [values]


def _place(lowering: Lowering, op: Any) -> tuple[Any, Element, int]:
    """The address of a thread's part of a buffer, its element type, and the number of elements per
    access.
    """
    defining_op = lowering.origin(op.buffer)
    if defining_op is None or defining_op.mnemonic != "gpu.private_alloc":
        raise lowering.refuse(op, "the buffer must be the result of gpu.private_alloc")
    tile = cast(Buffer, op.buffer.type).tile
    count, element, width = registers(tile), scalar_of(tile), 1
    while count % (2 * width) == 0 and 2 * width * element.bytes <= VECTOR_BYTES:
        width *= 2
    return lowering.scalar(op.buffer), element, width


def _first(lowering: Lowering, op: Any) -> Any:
    """The index in a thread's part of the buffer at which a tile begins."""
    count = lowering.thread.integer(registers(op.buffer.type.tile))
    return lowering.thread.binary("mul", I32, lowering.scalar(op.index), count, "nsw nuw")


def _index_at(lowering: Lowering, first: Any, distance: int) -> Any:
    thread = lowering.thread
    if not distance:
        return first
    return thread.binary("add", I32, first, thread.integer(distance), "nsw nuw")


RULES: dict[str, Rule] = {
    "gpu.private_alloc": _alloc,
    "gpu.private_store": _store,
    "gpu.private_load": _load,
}
