"""Atomic accesses. One owner of an element makes the access. Floats are added several at a time
where the target can.

Thread 0 makes the access of a scalar; if the old value is used, it broadcasts it through shared
memory. If an op makes several accesses in a thread, two fences around all of them order memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs

from tileir.analysis.uses import uses
from tileir.backend.codegen.emit.placed_tile import load_tile, store_tile
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.codegen.rules.memory import (
    access_mask,
    by_register,
    check_writable,
    vector_groups,
)
from tileir.backend.codegen.thread_operands import AtomicOrder
from tileir.layout import Vector
from tileir.types import AddressSpace, Element, Pointer, Tile

_NAMES = {
    "smax": "max", "smin": "min", "fmax": "fmax", "fmin": "fmin", "inc": "uinc_wrap",
    "dec": "udec_wrap",
}  # fmt: skip


def _rmw(lowering: Lowering, op: Any) -> list[Fragment]:
    check_writable(lowering, op)
    kind: str = op.op.value
    name, order = _NAMES.get(kind, kind), _order(lowering, op)
    values, element = lowering.fragment(op.value), scalar_of(op.value.type)
    thread = lowering.thread
    most = lowering.target.atomic_width(element) if kind == "fadd" else 1
    most = most if order.space == AddressSpace.GLOBAL else 1
    chunks = list(_chunks(lowering, op, most))
    order = _with_fences(order, len(chunks))

    def access(register: int, pointer: str) -> list[str]:
        return [thread.atomic(name, element, pointer, values[register], order)]

    def together(group: Vector, pointer: str) -> list[str]:
        return thread.add_vector(element, pointer, [values[r] for r in group], order)

    results: list[tuple[Vector, Fragment]] = []
    pointers = lowering.fragment(op.pointer)
    with _fences(lowering, order):
        for group in chunks:
            first = group[0]
            if len(group) == 1:
                make = partial(access, first, pointers[first])
            else:
                make = partial(together, group, pointers[first])
            results.append((group, _when(lowering, op, first, (element,) * len(group), make)))
    if not lowering.alone:
        thread.reconverge()
    old = by_register(results)
    return [old] if op not in lowering.scratch else [broadcast(lowering, op, old)]


def _chunks(lowering: Lowering, op: Any, most: int) -> Iterator[Vector]:
    """Yield groups of at most `most` registers that are neighbours in memory under one mask."""
    for group in vector_groups(lowering, op):
        yield from (group[i : i + most] for i in range(0, len(group), most))


def _cas(lowering: Lowering, op: Any) -> list[Fragment]:
    check_writable(lowering, op)
    compares, values = lowering.fragment(op.compare), lowering.fragment(op.value)
    element = scalar_of(op.value.type)

    def access(register: int, pointer: str, order: AtomicOrder) -> list[str]:
        thread = lowering.thread
        loaded = thread.compare_exchange(
            element, pointer, compares[register], values[register], order
        )
        return [loaded]

    return _each_lane(lowering, op, element, access)


def _load(lowering: Lowering, op: Any) -> list[Fragment]:
    element = scalar_of(op.result.type)

    def access(_: int, pointer: str, order: AtomicOrder) -> list[str]:
        return [lowering.thread.load_atomic(element, pointer, order)]

    return _each_lane(lowering, op, element, access)


def _store(lowering: Lowering, op: Any) -> list[Fragment]:
    check_writable(lowering, op)
    values, element = lowering.fragment(op.value), scalar_of(op.value.type)
    pointers = lowering.fragment(op.pointer)
    order = _with_fences(_order(lowering, op), len(pointers))

    def access(register: int, pointer: str) -> list[str]:
        lowering.thread.store_atomic(element, pointer, values[register], order)
        return []

    with _fences(lowering, order):
        for register, pointer in enumerate(pointers):
            _when(lowering, op, register, (), partial(access, register, pointer))
    return []


def _each_lane(
    lowering: Lowering, op: Any, element: Element,
    access: Callable[[int, str, AtomicOrder], list[str]],
) -> list[Fragment]:  # fmt: skip
    """The old values, by one access per element. They are broadcast to all owners."""
    results: Fragment = []
    pointers = lowering.fragment(op.pointer)
    order = _with_fences(_order(lowering, op), len(pointers))
    with _fences(lowering, order):
        for register, pointer in enumerate(pointers):
            make = partial(access, register, pointer, order)
            results += _when(lowering, op, register, (element,), make)
    return [results] if op not in lowering.scratch else [broadcast(lowering, op, results)]


def _with_fences(order: AtomicOrder, count: int) -> AtomicOrder:
    """The memory order of each of `count` accesses by one thread. Several accesses are relaxed,
    since two fences around all of them order as much as if each were ordered, and take less time
    (PTX ISA, "Release and Acquire Patterns")."""
    return attrs.evolve(order, fenced=count > 1 and order.semantics != "relaxed")


@contextmanager
def _fences(lowering: Lowering, order: AtomicOrder) -> Generator[None, None, None]:
    """Emit the fences before and after the accesses of an op, if fences order them."""
    if order.fenced and order.semantics in ("release", "acq_rel"):
        lowering.thread.fence_accesses(order)
    yield
    if order.fenced and order.semantics in ("acquire", "acq_rel"):
        lowering.thread.fence_accesses(order)


def _when(
    lowering: Lowering, op: Any, register: int, elements: Sequence[Element],
    body: Callable[[], list[str]],
) -> list[str]:  # fmt: skip
    thread = lowering.thread
    mask = access_mask(lowering, op, register, once=True)
    if mask == "false":
        return [thread.constant(e, 0) for e in elements]
    return list(body()) if mask is None else thread.when(mask, elements, body)


def broadcast(lowering: Lowering, op: Any, results: Fragment) -> Fragment:
    """Broadcast `results` from the first owner of each element to all its owners, through the
    shared-memory range of `op`."""
    thread, kind, base = lowering.thread, op.result.type, lowering.scratch[op]
    first = lowering.first_owner(kind.layout if isinstance(kind, Tile) else None)

    def tell() -> list[str]:
        if isinstance(kind, Tile):
            store_tile(lowering, results, kind, base)
        else:
            thread.store_shared(scalar_of(kind), thread.integer(base), results)
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
    """Lower a fence: every thread executes it. Barriers order the accesses of other threads before
    and after it (`tileir.backend.shared_memory.place_barriers`)."""
    lowering.thread.fence(AtomicOrder(op.sem.value, op.scope.value))
    return []


def _barrier(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.barrier()
    return []


def _order(lowering: Lowering, op: Any) -> AtomicOrder:
    """The order and scope of `op`. Raises CompileError (TIR0706) if it accesses private memory."""
    kind = scalar_of(op.pointer.type)
    assert isinstance(kind, Pointer)
    if kind.space == AddressSpace.LOCAL:
        raise lowering.refuse(op, "no atomic access is to addrspace(5), the memory of a thread")
    read = not op.results or bool(uses(lowering.function).get(op.results[0]))
    return AtomicOrder(op.sem.value, op.scope.value, int(kind.space), read)


RULES: dict[str, Rule] = {
    "atomic_rmw": _rmw,
    "atomic_cas": _cas,
    "atomic_load": _load,
    "atomic_store": _store,
    "fence": _fence,
    "barrier": _barrier,
}
