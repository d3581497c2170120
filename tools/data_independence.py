"""The proof that a barrier is redundant for all data, from one run of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tileir.analysis.cfg import cfg
from tileir.backend.shared_memory.hazards import MemoryUses, uses_of
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.simt.barrier_removal import Site
from tileir.effects import ACCESSES, Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, element_of
from tileir.values import Operand, Value

Events: TypeAlias = "list[Op | Site | None]"

_PLACES = {
    "gather": ("index",), "histogram": ("value", "mask", "predicate"),
    "insert_slice": ("offsets",), "extract_slice": ("offsets",),
    "gpu.async_copy": ("stage",), "gpu.local_load": ("stage",), "gpu.local_store": ("stage",),
}  # fmt: skip
"""Operands that decide which shared memory an op accesses."""


def is_redundant(function: Function, memory: SharedMemoryPlan, events: Events, site: Site) -> bool:
    """Whether the barrier at `site` is redundant for all data, where a run without it, whose ops
    and barriers are `events`, had no race. The barrier is redundant if no branch depends on data,
    and if ops between the previous and the next barrier that may access the same bytes have
    addresses and masks that do not depend on data. Between two barriers of one op, only this op
    accesses memory."""
    data, (op, index) = _data(function), site
    if (op, index + 1) in events and _is_fixed(op, data):
        return True
    uses = uses_of(function, memory)
    return all(_is_fixed(x, data) for x in function.ops if x.successors) and all(
        not _may_conflict(uses, a, b) or (_is_fixed(a, data) and _is_fixed(b, data))
        for at, event in enumerate(events)
        if event == site
        for a in _until(reversed(events[:at]))
        for b in _until(iter(events[at + 1 :]), op)
    )


def _until(events: Iterator[Op | Site | None], *first: Op) -> Iterator[Op]:
    """Yield the ops up to the next barrier."""
    yield from first
    for event in events:
        if event is None or isinstance(event, tuple):
            return
        yield event


def _may_conflict(uses: MemoryUses, a: Op, b: Op) -> bool:
    mine, theirs = uses.shared_ranges.get(a), uses.shared_ranges.get(b)
    if mine is not None and theirs is not None and mine[0] < theirs[1] and theirs[0] < mine[1]:
        return True
    return any(
        (x.writes or y.writes) and (x.base is y.base or x.base is None or y.base is None)
        for x in uses.accesses.get(a, ())
        for y in uses.accesses.get(b, ())
    )


def _is_fixed(op: Op, data: set[Value]) -> bool:
    return not any(isinstance(v, Value) and v in data for v in _deciding(op))


def _data(function: Function) -> set[Value]:
    """The values that depend on memory. If a branch depends on memory, all block parameters do."""
    values: set[Value] = set()
    _close(function, values)
    if not all(_is_fixed(op, values) for op in function.ops if op.successors):
        values.update(v for block in function.blocks.values() for v in block.parameters)
        _close(function, values)
    return values


def _close(function: Function, values: set[Value]) -> None:
    """Add the values that are loaded, or computed from values in `values`."""
    size = -1
    while size != len(values):
        size = len(values)
        for label in cfg(function).order:
            for op in function.blocks[label].ops:
                if op.effects & _FROM_OUTSIDE or any(v in values for v in op.operands):
                    values.update(op.results)
                for edge in op.successors:
                    pairs = zip(function.blocks[edge.label].parameters, edge.arguments, strict=True)
                    values.update(p for p, a in pairs if a in values)


_FROM_OUTSIDE = Effects.READ | Effects.SYNC | Effects.OUTSIDE


def _deciding(op: Any) -> list[Operand]:
    """The operands that determine the path, or the bytes that `op` accesses."""
    operands: list[Any] = [getattr(op, n) for n in _PLACES.get(op.mnemonic, ())]
    if op.successors:
        operands += list(op.inputs)
    if op.effects & ACCESSES:
        operands += [v for v in op.inputs if isinstance(element_of(v.type), Pointer)]
        operands += [getattr(op, n, None) for n in ("mask", "predicate")]
    flat = [x for v in operands for x in (v if isinstance(v, tuple) else (v,))]
    return [v for v in flat if v is not None]
