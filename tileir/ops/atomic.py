"""Atomic accesses and the order of memory.

Orders and scopes are those of the PTX memory model (PTX ISA 8); a tile op is one atomic access
per lane, in no order among its lanes.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import Effects, Op, attribute, family, one_of, op, operand, optional
from tileir.signature import POINTERS, PointeeOf, Shaped, TypeVariable
from tileir.types import I1, I32, I64, Pointer, element_of
from tileir.values import Operand

P = TypeVariable("P", POINTERS)


class AtomicKind(Enum):
    """The operation of an atomic access on the old value and the operand. `inc` wraps to 0 above
    the operand, `dec` to the operand below 0 and above it (both unsigned)."""

    AND = "and"
    OR = "or"
    XOR = "xor"
    ADD = "add"
    FADD = "fadd"
    SMAX = "smax"
    SMIN = "smin"
    UMAX = "umax"
    UMIN = "umin"
    FMAX = "fmax"
    FMIN = "fmin"
    XCHG = "xchg"
    INC = "inc"
    DEC = "dec"


class Order(Enum):
    """The memory order of an access: relaxed, acquire (later accesses stay after it), release
    (earlier accesses stay before it), or both."""

    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    BOTH = "acq_rel"


class MemoryScope(Enum):
    """The observers of a memory order: the program instance, the GPU, the system."""

    CTA = "cta"
    GPU = "gpu"
    SYS = "sys"


_INTEGERS = (I32, I64)


def fits_kind(kind: AtomicKind, element: Any) -> str | None:
    """The element types of `kind` if `element` is not one of them, else None."""
    if kind is AtomicKind.XCHG:
        fits = isinstance(element, Pointer) or element.bits in (16, 32, 64)
        return None if fits else "16, 32 or 64 bits"
    if kind in (AtomicKind.INC, AtomicKind.DEC):
        return None if element is I32 else "i32"
    if kind in (AtomicKind.FADD, AtomicKind.FMAX, AtomicKind.FMIN):
        fits = element.is_float and element.bits >= 16
        return None if fits else "f16, bf16, f32 or f64"
    return None if element in _INTEGERS else "i32 or i64"


@family
class Atomic(Op):
    """An access that orders memory."""

    effects_ = Effects.READ | Effects.WRITE | Effects.SYNC
    is_atomic = True
    predicate_follows_operand = True


@op("atomic_rmw")
class AtomicRMW(Atomic):
    """Combine `value` with the value in memory, store the result, and return the old value. Lanes
    where `mask` is false do not access memory and are undefined. `fadd`, `fmax` and `fmin` take
    f16, bf16, f32 and f64, `inc` and `dec` i32, `xchg` elements and pointers of 16, 32 and 64 bits,
    all others i32 and i64. Where GPUs add f32 in global memory, they take subnormals as zeros of
    their sign (PTX ISA, "atom", "red").

    `%old = atomic_rmw f32<64> %p, %v, %m {op = fadd}`, given `f32*<64> %p, f32<64> %v, i1<64> %m`
    """

    pointer: Operand = operand(P)
    value: Operand = operand(PointeeOf(P))
    mask: Operand | None = optional(Shaped(I1, P))
    op: AtomicKind = attribute(one_of(AtomicKind))
    sem: Order = attribute(one_of(Order), default=Order.BOTH)
    scope: MemoryScope = attribute(one_of(MemoryScope), default=MemoryScope.GPU)
    results_ = (PointeeOf(P),)

    def verify(self) -> None:
        expected = fits_kind(self.op, element_of(self.value.type))
        if expected is not None:
            message = f"{self.op.value} works on {expected}, not {element_of(self.value.type)}"
            raise self.fail("TIR0115", message, "op")

    def evaluate(self, machine: Any, pointer: Any, value: Any, mask: Any) -> Any:
        return machine.atomic_rmw(pointer, value, mask, self)


@op("atomic_cas")
class AtomicCAS(Atomic):
    """Store `value` if the bits in memory equal `compare`, and return the old value. Lanes where
    `mask` is false do not access memory and are undefined.

    `%old = atomic_cas i32 %lock, 0, 1 {sem = acquire}`, given `i32* %lock`
    """

    pointer: Operand = operand(P)
    compare: Operand = operand(PointeeOf(P))
    value: Operand = operand(PointeeOf(P))
    mask: Operand | None = optional(Shaped(I1, P))
    sem: Order = attribute(one_of(Order), default=Order.BOTH)
    scope: MemoryScope = attribute(one_of(MemoryScope), default=MemoryScope.GPU)
    results_ = (PointeeOf(P),)

    def verify(self) -> None:
        check_width(self, element_of(self.value.type))

    def evaluate(self, machine: Any, pointer: Any, compare: Any, value: Any, mask: Any) -> Any:
        return machine.atomic_cas(pointer, compare, value, mask, self)


@op("atomic_load")
class AtomicLoad(Atomic):
    """Load atomically, with the memory order `sem`: relaxed or acquire.

    `%v = atomic_load i32 %p {scope = sys}`, given `i32* %p`
    """

    pointer: Operand = operand(P)
    mask: Operand | None = optional(Shaped(I1, P))
    sem: Order = attribute(one_of(Order), default=Order.ACQUIRE)
    scope: MemoryScope = attribute(one_of(MemoryScope), default=MemoryScope.GPU)
    results_ = (PointeeOf(P),)
    effects_ = Effects.READ | Effects.SYNC

    def verify(self) -> None:
        if self.sem in (Order.RELEASE, Order.BOTH):
            raise self.fail("TIR0116", f"a load cannot be {self.sem.value}", "sem")
        check_width(self, element_of(self.pointer.type).pointee)  # type: ignore[union-attr]

    def evaluate(self, machine: Any, pointer: Any, mask: Any) -> Any:
        return machine.atomic_load(pointer, mask, self)


@op("atomic_store")
class AtomicStore(Atomic):
    """Store atomically, with the memory order `sem`: relaxed or release.

    `atomic_store %p, 0 {scope = sys}`, given `i32* %p`
    """

    pointer: Operand = operand(P)
    value: Operand = operand(PointeeOf(P))
    mask: Operand | None = optional(Shaped(I1, P))
    sem: Order = attribute(one_of(Order), default=Order.RELEASE)
    scope: MemoryScope = attribute(one_of(MemoryScope), default=MemoryScope.GPU)
    effects_ = Effects.WRITE | Effects.SYNC

    def verify(self) -> None:
        if self.sem in (Order.ACQUIRE, Order.BOTH):
            raise self.fail("TIR0116", f"a store cannot be {self.sem.value}", "sem")
        check_width(self, element_of(self.value.type))

    def evaluate(self, machine: Any, pointer: Any, value: Any, mask: Any) -> Any:
        return machine.atomic_store(pointer, value, mask, self)


@op("fence")
class Fence(Op):
    """Order the memory accesses of this instance before and after the fence, with the order `sem`,
    for all observers in `scope`.

    `fence {sem = release, scope = sys}`
    """

    sem: Order = attribute(one_of(Order), default=Order.BOTH)
    scope: MemoryScope = attribute(one_of(MemoryScope), default=MemoryScope.GPU)
    effects_ = Effects.SYNC

    def verify(self) -> None:
        if self.sem is Order.RELAXED:
            raise self.fail("TIR0116", "a relaxed fence orders nothing", "sem")

    def evaluate(self, machine: Any) -> Any:
        return machine.fence(self)


@op("barrier")
class Barrier(Op):
    """Synchronize all threads of the program instance. Since a program instance is one stream of
    tile ops, the op only orders memory accesses.

    `barrier`
    """

    effects_ = Effects.SYNC
    predicable = False
    waits_for_threads = True

    def evaluate(self, machine: Any) -> Any:
        return machine.fence(self)


def check_width(self: Any, element: Any) -> None:
    """Only 16, 32 and 64 bits are exchanged and moved in one access."""
    if element.bits < 16:
        raise self.fail("TIR0115", f"needs 16, 32 or 64 bits, not {element}", "pointer")
