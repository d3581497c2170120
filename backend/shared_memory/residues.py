"""The remainders of addresses, to prove accesses disjoint whose addresses are not affine: the real
and imaginary parts of numbers that are stored next to each other, wherever those are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tileir.analysis.alignment import alignment
from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, element_of
from tileir.values import Constant, Operand, Value

_LARGEST = 1 << 32


def residues_disjoint(
    function: Function, pointers: tuple[Operand, Operand], sizes: tuple[int, int]
) -> bool:
    """Whether accesses of elements of `sizes` bytes at `pointers` share no byte: they are constants
    after multiples of a power of two, and the elements are apart within it."""
    defined = definitions(function)
    first, second = (_without_constants(p, defined) for p in pointers)
    if first[1] == second[1]:
        return False
    aligned = alignment(function)
    modulus = min(aligned.of(first[0]).every, aligned.of(second[0]).every, _LARGEST)
    distance = (second[1] - first[1]) % modulus
    return sizes[0] <= distance <= modulus - sizes[1]


def _without_constants(pointer: Operand, defined: Mapping[Value, Op]) -> tuple[Operand, int]:
    """The pointer to which constants are added, and their sum in bytes."""
    added = 0
    while isinstance(pointer, Value):
        op: Any = defined.get(pointer)
        if op is None or op.mnemonic != "getelementptr":
            break
        offset = _constant(op.index, defined)
        if offset is None:
            break
        added += offset * cast(Pointer, element_of(pointer.type)).pointee.bytes
        pointer = op.pointer
    return pointer, added


def _constant(index: Operand, defined: Mapping[Value, Op]) -> int | None:
    """The number that `index` is in all elements; None for others."""
    while isinstance(index, Value):
        op: Any = defined.get(index)
        if op is None or op.mnemonic != "splat":
            return None
        index = op.inputs[0]
    return int(index.value) if isinstance(index, Constant) else None
