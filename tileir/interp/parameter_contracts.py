"""Promises about parameters: aligned, multiple_of, noalias, readonly, writeonly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.lib.array_utils import byte_bounds

from tileir.errors import Diagnostic, InterpretError
from tileir.interp.arguments import Binder, PlacedArray
from tileir.interp.memory import Region
from tileir.ir import Function, Parameter
from tileir.types import Pointer


def check_arguments(kernel: Function, binder: Binder) -> None:
    """Check `noalias` of a kernel's arrays, and deny writes to regions that only `readonly`
    parameters reach and reads of those that only `writeonly` ones reach. Raises InterpretError."""
    facts = {p.name or str(i): p for i, p in enumerate(kernel.parameters)}
    bound = [b for b in binder.bound if b.name in facts]
    for one in bound:
        if facts[one.name].attributes.noalias:
            _check_alias(kernel, facts[one.name], one, bound)
    parameters_of: dict[Region, list[Parameter]] = {}
    for one in bound:
        parameters_of.setdefault(one.region, []).append(facts[one.name])
    for region, through in parameters_of.items():
        names = ", ".join(f"%{p.name}" for p in through)
        if all(p.attributes.readonly for p in through):
            region.denied_write = f"{names} is declared readonly"
        if all(p.attributes.writeonly for p in through):
            region.denied_read = f"{names} is declared writeonly"


def _check_alias(
    kernel: Function, parameter: Parameter, one: PlacedArray, bound: list[PlacedArray]
) -> None:
    low, high = _span(one)
    for other in bound:
        start, end = _span(other)
        if other is not one and other.region is one.region and start < high and low < end:
            message = f"%{parameter.name} is declared noalias, but shares memory with "
            text = f"@{kernel.name}'s {message}%{other.name}"
            raise InterpretError(Diagnostic("TIR0507", text, parameter.location))


def _span(bound: PlacedArray) -> tuple[int, int]:
    low, high = byte_bounds(bound.array) if bound.array.size else (0, 0)
    return bound.address, bound.address + high - low


def check_parameters(function: Function, arguments: Sequence[Any], host: Any) -> None:
    """Check `aligned` and `multiple_of` of the arguments of a call. Raises InterpretError."""
    for parameter, value in zip(function.parameters, arguments, strict=True):
        facts = parameter.attributes
        if facts.aligned > 1 or facts.multiple_of > 1:
            _check_one(function, parameter, value)


def _check_one(function: Function, parameter: Parameter, value: Any) -> None:
    facts = parameter.attributes
    number = int(value.data) if value.data.ndim == 0 else None
    if number is None or (value.undef is not None and value.undef.any()):
        return
    for word, divisor in (("aligned", facts.aligned), ("multiple_of", facts.multiple_of)):
        if divisor > 1 and number % divisor:
            name = f"@{function.name}'s %{parameter.name}"
            offset = number % (1 << 40)
            result = f"address offset {offset}" if isinstance(parameter.type, Pointer) else number
            message = f"{name} is declared {word}({divisor}), but is {result}"
            raise InterpretError(Diagnostic("TIR0507", message, parameter.location))
