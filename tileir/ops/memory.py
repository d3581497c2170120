"""Memory: loads, stores, addresses of globals."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import (
    BOOL_ATTRIBUTE,
    Effects,
    Op,
    attribute,
    one_of,
    op,
    operand,
    optional,
)
from tileir.signature import POINTERS, PointeeOf, Shaped, TypeVariable
from tileir.types import I1
from tileir.values import Operand, is_zero

P = TypeVariable("P", POINTERS)


class LoadCache(Enum):
    """The cache operator of a load (PTX ISA 9.7.9.1): all levels, L2 only, streaming, last use, or
    no caching."""

    NONE = "none"
    CA = "ca"
    CG = "cg"
    CS = "cs"
    LU = "lu"
    CV = "cv"


class StoreCache(Enum):
    """The cache operator of a store (PTX ISA 9.7.9.1): write-back at all levels, L2 only,
    streaming, or write-through."""

    NONE = "none"
    WB = "wb"
    CG = "cg"
    CS = "cs"
    WT = "wt"


class Eviction(Enum):
    """The eviction priority of cache lines (PTX ISA 9.7.9.2)."""

    NORMAL = "normal"
    FIRST = "first"
    LAST = "last"


def check_policy(self: Any) -> None:
    """Refuse combinations that PTX has no instruction for."""
    plain = self.cache.value == "none"
    if not plain and self.eviction is not Eviction.NORMAL:
        message = f"cache = {self.cache.value} excludes eviction = {self.eviction.value}"
        raise self.fail("TIR0110", message, "eviction")
    if self.volatile and not (plain and self.eviction is Eviction.NORMAL):
        raise self.fail("TIR0110", "a volatile access takes no cache policy", "volatile")


@op("load")
class Load(Op):
    """Load the elements that `pointer` points to. Lanes where `mask` is false do not access memory;
    they are `other`, or undefined without it. A `volatile` load is never removed, repeated or moved
    over another access. i1 occupies one byte, 0 or 1.

    `%v = load f32<64> %p, %m, 0.0 {cache = cg}`, given `f32*<64> %p, i1<64> %m`
    """

    pointer: Operand = operand(P)
    mask: Operand | None = optional(Shaped(I1, P))
    other: Operand | None = optional(PointeeOf(P))
    cache: LoadCache = attribute(one_of(LoadCache), default=LoadCache.NONE)
    eviction: Eviction = attribute(one_of(Eviction), default=Eviction.NORMAL)
    volatile: bool = attribute(BOOL_ATTRIBUTE, default=False)
    results_ = (PointeeOf(P),)
    effects_ = Effects.READ
    predicate_follows_operand = True

    def verify(self) -> None:
        check_policy(self)
        if self.other is not None and self.mask is None:
            raise self.fail("TIR0111", "other is given without a mask", "other")

    @property
    def effects(self) -> Effects:
        return Effects.READ | Effects.SYNC if self.volatile else Effects.READ

    @property
    def fills_with_zeros(self) -> bool:
        """Whether lanes that `mask` leaves out hold zero or are undefined."""
        return self.other is None or is_zero(self.other)

    def evaluate(self, machine: Any, pointer: Any, mask: Any, other: Any) -> Any:
        return machine.load(pointer, mask, other, self)


@op("store")
class Store(Op):
    """Store `value` to the elements that `pointer` points to. Lanes where `mask` is false do not
    access memory. Lanes with the same address must store the same value. A `volatile` store is
    never removed, repeated or moved over another access.

    `store %p, %v, %m {eviction = first}`, given `f32*<64> %p, f32<64> %v, i1<64> %m`
    """

    pointer: Operand = operand(P)
    value: Operand = operand(PointeeOf(P))
    mask: Operand | None = optional(Shaped(I1, P))
    cache: StoreCache = attribute(one_of(StoreCache), default=StoreCache.NONE)
    eviction: Eviction = attribute(one_of(Eviction), default=Eviction.NORMAL)
    volatile: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.WRITE
    predicate_follows_operand = True

    def verify(self) -> None:
        check_policy(self)

    @property
    def effects(self) -> Effects:
        return Effects.WRITE | Effects.SYNC if self.volatile else Effects.WRITE

    def evaluate(self, machine: Any, pointer: Any, value: Any, mask: Any) -> Any:
        return machine.store(pointer, value, mask, self)
