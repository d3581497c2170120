"""Values of the 32 lanes of a warp in LLVM IR for a CPU.

A handle is one of three:

- a string, an LLVM operand that all lanes share;
- `VectorValue`, an LLVM vector with an element per lane;
- `AffineValue`, which is `base + step * lane` and becomes a vector only where necessary. Addresses
  are affine, so that neighbouring lanes read neighbouring memory by one instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from tileir.backend.nvptx.text import literal, llvm_type, memory_type
from tileir.types import BF16, F16, Element, Type

WIDTH = 32
"""Lanes of a warp, elements of a vector."""


@attrs.frozen(eq=False)
class VectorValue:
    """A vector with an element per lane. `ones` are the lanes that are set in a constant i1 vector,
    None if unknown."""

    text: str
    ones: frozenset[int] | None = None

    def __str__(self) -> str:
        return self.text


@attrs.frozen(eq=False)
class AffineValue:
    """`base + step * lane`, in the arithmetic of its type, which wraps.

    `long` is an i64 whose low part is the base and with which no lane's value wraps; '' if unknown.
    `condition` is an i1, uniform over the lanes, under which the form is valid; '' if it always is.
    If the condition is false, `slow` computes the vector.
    """

    base: str
    step: int
    long: str = ""
    condition: str = ""
    slow: Callable[[], str] | None = None

    def __str__(self) -> str:
        return f"{self.base}+{self.step}l"


Lanes: TypeAlias = str | VectorValue | AffineValue


def scalar_type(kind: Type) -> str:
    """The LLVM type of one lane's value. Floats of 16 bits are represented by their bits."""
    return "i16" if kind in (F16, BF16) else llvm_type(kind)


def vector_type(kind: Type) -> str:
    """The LLVM type of all lanes' values."""
    return f"<{WIDTH} x {scalar_type(kind)}>"


def stored_type(kind: Element) -> str:
    """The LLVM type of a value in memory."""
    return "i16" if kind in (F16, BF16) else memory_type(kind)


def constant(element: Element, bits: int) -> str:
    """The literal of type `scalar_type(element)`."""
    if element in (F16, BF16):
        return str(bits - (bits >> 15 << 16))
    return literal(element, bits)


def number(operand: str) -> int | None:
    """The integer that a literal operand states; None for other operands."""
    return int(operand) if operand.lstrip("-").isdigit() else None


def is_literal(operand: str) -> bool:
    """Whether an operand is a literal."""
    return operand[0] not in "%@" and "(" not in operand


def constant_vector(kind: str, values: list[int]) -> str:
    """A constant vector of integers."""
    return f"<{', '.join(f'{kind} {v}' for v in values)}>"
