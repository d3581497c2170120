"""Loads and stores. A thread makes as few and as wide accesses as alignment and masks allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tileir.analysis import memoize
from tileir.analysis.aliases import unwritten
from tileir.analysis.loops import loops
from tileir.analysis.uses import base_pointer, definitions
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, registers, scalar_of
from tileir.backend.codegen.thread_operands import AccessAttributes
from tileir.backend.layouts.anchors import neighbours_first, vector_run
from tileir.ir import Function
from tileir.layout import Vector
from tileir.types import I1, AddressSpace, Tile, shape_of
from tileir.values import Value

_BYTES = 16


def _load(lowering: Lowering, op: Any) -> list[Fragment]:
    values = by_register(load_groups(lowering, op))
    if op not in lowering.scratch:
        return [values]
    from tileir.backend.codegen.rules.atomic import broadcast  # volatile loads are rare

    return [broadcast(lowering, op, values)]


def by_register(groups: Iterable[tuple[Sequence[int], Fragment]]) -> Fragment:
    """The values of all registers in order. Each register is in exactly one of `groups`."""
    values = {r: x for group, read in groups for r, x in zip(group, read, strict=True)}
    return [values[r] for r in range(len(values))]


def load_groups(lowering: Lowering, op: Any) -> Iterator[tuple[Vector, Fragment]]:
    """Emit the loads of `op`. Yield the registers and the loaded values of each vector access."""
    thread, element = lowering.thread, scalar_of(op.result.type)
    prefetched = not isinstance(op.result.type, Tile) and op.result in _loop_carried_values(
        lowering.function
    )
    access = _access(op, _constant(lowering, op), prefetched)
    pointers = lowering.fragment(op.pointer)
    masked_values = None if op.other is None else lowering.fragment(op.other)
    once = _is_by_first_owner(lowering, op)
    for group in vector_groups(lowering, op):
        mask = access_mask(lowering, op, group[0], once=once)
        values_where_masked = None if masked_values is None else [masked_values[r] for r in group]
        if mask == "false":
            yield group, values_where_masked or [thread.constant(element, 0)] * len(group)
            continue
        values = thread.load_global(
            element,
            len(group),
            pointers[group[0]],
            mask,
            values_where_masked,
            access,
            _space(op),
        )
        yield group, values


def _is_by_first_owner(lowering: Lowering, op: Any) -> bool:
    """Whether the first owners of replicated elements load them and pass them to the other
    owners."""
    kind = op.pointer.type
    if not (kind.layout.is_replicated if isinstance(kind, Tile) else op.volatile):
        return False
    from tileir.backend.shared_memory.replicated_loads import loads_by_first_owner

    return op in loads_by_first_owner(lowering.function)


def _store(lowering: Lowering, op: Any) -> list[Fragment]:
    check_writable(lowering, op)
    thread, element = lowering.thread, scalar_of(op.value.type)
    pointers, values = lowering.fragment(op.pointer), lowering.fragment(op.value)
    for group in vector_groups(lowering, op):
        mask = access_mask(lowering, op, group[0], once=True)
        if mask != "false":
            stored = [values[r] for r in group]
            space = _space(op)
            thread.store_global(element, pointers[group[0]], stored, mask, _access(op), space)
    return []


def check_writable(lowering: Lowering, op: Any) -> None:
    """Raise CompileError (TIR0706) if `op` writes to the constant address space."""
    if _space(op) == AddressSpace.CONSTANT:
        raise lowering.refuse(op, "nothing writes to addrspace(4), which is constant memory")


def vector_groups(lowering: Lowering, op: Any) -> Iterator[Vector]:
    """Yield the registers that one access moves together: neighbours in memory, aligned, at most 16
    bytes."""
    kind = op.pointer.type
    width, order = 1, kind.layout if isinstance(kind, Tile) else None
    if order is not None:
        most = _BYTES // scalar_of(kind).pointee.bytes  # type: ignore[union-attr]
        for dim in range(len(kind.shape)):
            sorted_layout = neighbours_first(kind.layout, dim)
            run = vector_run(sorted_layout, dim)
            together = min(run, most, lowering.contiguity.width(op, dim))
            if together > width:
                width, order = together, sorted_layout
    numbers: Sequence[int] = range(registers(kind))
    if order is not None and order is not kind.layout:
        number_of = {vector: r for r, vector in enumerate(kind.layout.registers)}
        numbers = [number_of[vector] for vector in order.registers]
    return (tuple(numbers[start : start + width]) for start in range(0, len(numbers), width))


def access_mask(lowering: Lowering, op: Any, register: int, *, once: bool) -> str | None:
    """The condition of a register's access, an i1: the conjunction of the op's mask and predicate,
    the tile's extent, and, with `once`, that the thread is the first owner. None: always."""
    thread, kind = lowering.thread, op.pointer.type
    terms: list[str | None] = []
    if isinstance(kind, Tile):
        terms.append(lowering.inside(kind.layout, kind.shape, register))
    if once:
        terms.append(lowering.first_owner(kind.layout if isinstance(kind, Tile) else None))
    if op.mask is not None:
        terms.append(lowering.fragment(op.mask)[register])
    if op.predicate is not None:
        predicates = lowering.fragment(op.predicate)
        terms.append(predicates[register if shape_of(op.predicate.type) else 0])
    mask: str | None = None
    for term in terms:
        if term == "false":
            return term
        if term not in (None, "true"):
            off = thread.constant(I1, 0)
            mask = term if mask is None else thread.select(I1, mask, term, off)
    return mask


@memoize
def _loop_carried_values(function: Function) -> frozenset[Value]:
    """The values that iterations of loops pass to the next one."""
    return frozenset(
        value
        for loop in loops(function).by_header.values()
        for latch in loop.latches
        for target in function.blocks[latch].terminator.successors
        if target.label == loop.header
        for value in target.arguments
        if isinstance(value, Value)
    )


def _access(op: Any, constant: bool = False, prefetched: bool = False) -> AccessAttributes:
    cache = "" if op.cache.value == "none" else op.cache.value
    eviction = "" if op.eviction.value == "normal" else f"evict_{op.eviction.value}"
    return AccessAttributes(cache, eviction, op.volatile, constant, prefetched)


def _constant(lowering: Lowering, op: Any) -> bool:
    """Whether a load reads through a parameter whose memory is promised not to be written."""
    pointer = base_pointer(op.pointer, definitions(lowering.function))
    return pointer in unwritten(lowering.function)


def _space(op: Any) -> int:
    return int(scalar_of(op.pointer.type).space)  # type: ignore[union-attr]


RULES: dict[str, Rule] = {
    "load": _load,
    "store": _store,
}
