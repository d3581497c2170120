"""Atomic accesses. Floats are added several at a time where the target can. Of threads that hold
the same element one makes the access; a scalar's is made by thread 0, which tells the others
through shared memory where anybody reads the old value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tileir.backend.lower.conversion import load_tile, store_tile
from tileir.backend.lower.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.lower.thread import Order
from tileir.backend.rules.memory import combined, groups
from tileir.types import AddressSpace, Element, Pointer, Tile

_NAMES = {
    "smax": "max", "smin": "min", "fmax": "fmax", "fmin": "fmin", "inc": "uinc_wrap",
    "dec": "udec_wrap",
}  # fmt: skip


def _rmw(lowering: Lowering, op: Any) -> list[Fragment]:
    kind: str = op.op.value
    name, order = _NAMES.get(kind, kind), _order(op)
    values, element = lowering.fragment(op.value), scalar_of(op.value.type)
    thread = lowering.thread

    def access(register: int, pointer: str) -> list[str]:
        return [thread.atomic(name, element, pointer, values[register], order)]

    def together(group: range, pointer: str) -> list[str]:
        return thread.add_vector(element, pointer, [values[r] for r in group], order)

    most = lowering.target.atomic_width(element) if kind == "fadd" else 1
    if most == 1 or order.space != AddressSpace.GLOBAL:
        return _each_lane(lowering, op, element, access)
    found: Fragment = []
    pointers = lowering.fragment(op.pointer)
    for group in _pieces(lowering, op, most):
        first = group.start
        if len(group) == 1:
            make = partial(access, first, pointers[first])
        else:
            make = partial(together, group, pointers[first])
        found += _when(lowering, op, first, (element,) * len(group), make)
    return [found] if op not in lowering.scratch else [_told(lowering, op, found)]


def _pieces(lowering: Lowering, op: Any, most: int) -> Iterator[range]:
    """Registers that are neighbours in memory under one mask, at most `most` together."""
    for group in groups(lowering, op):
        yield from (group[i : i + most] for i in range(0, len(group), most))


def _cas(lowering: Lowering, op: Any) -> list[Fragment]:
    compares, values = lowering.fragment(op.compare), lowering.fragment(op.value)
    element, order = scalar_of(op.value.type), _order(op)

    def access(register: int, pointer: str) -> list[str]:
        thread = lowering.thread
        found = thread.compare_exchange(
            element, pointer, compares[register], values[register], order
        )
        return [found]

    return _each_lane(lowering, op, element, access)


def _load(lowering: Lowering, op: Any) -> list[Fragment]:
    element, order = scalar_of(op.result.type), _order(op)

    def access(_: int, pointer: str) -> list[str]:
        return [lowering.thread.load_atomic(element, pointer, order)]

    return _each_lane(lowering, op, element, access)


def _store(lowering: Lowering, op: Any) -> list[Fragment]:
    values, element, order = lowering.fragment(op.value), scalar_of(op.value.type), _order(op)

    def access(register: int, pointer: str) -> list[str]:
        lowering.thread.store_atomic(element, pointer, values[register], order)
        return []

    pointers = lowering.fragment(op.pointer)
    for register, pointer in enumerate(pointers):
        _when(lowering, op, register, (), lambda r=register, p=pointer: access(r, p))
    return []


def _each_lane(
    lowering: Lowering, op: Any, element: Element, access: Callable[[int, str], list[str]]
) -> list[Fragment]:
    """The old values: one access per element, then told to all that hold it."""
    found: Fragment = []
    for register, pointer in enumerate(lowering.fragment(op.pointer)):
        found += _when(
            lowering, op, register, (element,), lambda r=register, p=pointer: access(r, p)
        )
    if op not in lowering.scratch:
        return [found]
    return [_told(lowering, op, found)]


def _when(
    lowering: Lowering, op: Any, register: int, elements: Sequence[Element],
    body: Callable[[], list[str]],
) -> list[str]:  # fmt: skip
    thread = lowering.thread
    mask = combined(lowering, op, register, once=True)
    if mask == "false":
        return [thread.constant(e, 0) for e in elements]
    return list(body()) if mask is None else thread.when(mask, elements, body)


def _told(lowering: Lowering, op: Any, found: Fragment) -> Fragment:
    thread, kind, base = lowering.thread, op.result.type, lowering.scratch[op]
    first = lowering.first_holder(kind.layout if isinstance(kind, Tile) else None)

    def tell() -> list[str]:
        if isinstance(kind, Tile):
            store_tile(lowering, found, kind, base)
        else:
            thread.store_shared(scalar_of(kind), thread.integer(base), found)
        return []

    if first is None:
        tell()
    else:
        thread.when(first, (), tell)
    thread.barrier()
    if isinstance(kind, Tile):
        return load_tile(lowering, kind, base)
    return thread.load_shared(scalar_of(kind), 1, thread.integer(base))


def _fence(lowering: Lowering, op: Any) -> list[Fragment]:
    """By every thread. What others did comes before it, and after it what they do: they meet
    there (`tileir.backend.memory.sync`)."""
    lowering.thread.fence(_order(op))
    return []


def _barrier(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.barrier()
    return []


def _order(op: Any) -> Order:
    kind = scalar_of(op.pointer.type) if op.inputs else None
    space = kind.space if isinstance(kind, Pointer) else AddressSpace.GLOBAL
    return Order(op.sem.value, op.scope.value, int(space))


RULES: dict[str, Rule] = {
    "atomic_rmw": _rmw,
    "atomic_cas": _cas,
    "atomic_load": _load,
    "atomic_store": _store,
    "fence": _fence,
    "barrier": _barrier,
}
