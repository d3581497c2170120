"""Operands of the thread interface other than handles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.types import Element

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle


@attrs.frozen(eq=False, repr=False)
class AccessAttributes:
    """Attributes of a global access. `cache` and `eviction` are PTX operators without the dot, ''
    for the default; `volatile` accesses are neither removed nor merged; `constant` loads read
    memory that nothing writes while the kernel runs."""

    cache: str = ""
    eviction: str = ""
    volatile: bool = False
    constant: bool = False


@attrs.frozen(eq=False, repr=False)
class AtomicOrder:
    """Memory order and scope of an atomic: `relaxed`, `acquire`, `release`, `acq_rel`; `cta`,
    `gpu`, `sys`."""

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
    """A number to be printed, an integer in hexadecimal or as an unsigned one if asked for."""

    def __init__(
        self, element: Element, handle: Handle, hexadecimal: bool = False, unsigned: bool = False
    ) -> None:
        self.element, self.handle = element, handle
        self.hexadecimal, self.unsigned = hexadecimal, unsigned

    @property
    def extension(self) -> str:
        """The conversion to a wider integer that keeps the printed value."""
        return "zext" if self.hexadecimal or self.unsigned or self.element.bits == 1 else "sext"
