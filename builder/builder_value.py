"""A value with its builder: the part of Expr that other modules of the builder use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.types import Type, shape_of
from tileir.values import Operand

if TYPE_CHECKING:
    from tileir.builder.builder import Builder


class Wrapped:
    """`value`, an operand of the program `builder` is making."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Operand) -> None:
        self.builder = builder
        self.value = value

    @property
    def type(self) -> Type:
        return self.value.type

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; `()` for a scalar."""
        return shape_of(self.value.type)
