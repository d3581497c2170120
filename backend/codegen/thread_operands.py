"""Operands of the thread interface other than handles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.types import Element

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle


@attrs.frozen(eq=False, repr=False)
class AccessAttributes:
    """Attributes of a global access. `cache` and `eviction` are PTX operators without the leading
    dot, '' for the default. A `volatile` access is neither removed nor merged. A `constant` load
    reads memory that nothing writes while the kernel runs. The value of a `prefetched` load is for
    a later iteration."""

    cache: str = ""
    eviction: str = ""
    volatile: bool = False
    constant: bool = False
    prefetched: bool = False


@attrs.frozen(eq=False, repr=False)
class AtomicOrder:
    """The memory order of an atomic access (`relaxed`, `acquire`, `release`, `acq_rel`) and its
    scope (`cta`, `gpu`, `sys`)."""

    semantics: str
    scope: str
    space: int = 1
    """The address space of what is accessed."""
    read: bool = True
    """Whether the old value is read."""
    fenced: bool = False
    """Whether fences of the thread stand around the accesses of the op (`fence_accesses`), which
    order them: no access has to order memory by itself."""


class PrintedNumber:
    """A number to be printed, optionally in hexadecimal or as an unsigned integer."""

    def __init__(
        self, element: Element, handle: Handle, hexadecimal: bool = False, unsigned: bool = False
    ) -> None:
        self.element, self.handle = element, handle
        self.hexadecimal, self.unsigned = hexadecimal, unsigned

    @property
    def extension(self) -> str:
        """The conversion to a wider integer that keeps the printed value."""
        return "zext" if self.hexadecimal or self.unsigned or self.element.bits == 1 else "sext"
