"""The arguments of a launch in the order of the kernel's parameters, and errors for arguments that
do not fit (TIR0710)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tileir import grids
from tileir.errors import Diagnostic, LaunchError, Location
from tileir.ir import Function, Module, Parameter
from tileir.types import Descriptor, Pointer
from tileir.values import encode


def extents_of(grid: Any) -> tuple[int, int, int]:
    """The three extents of `grid`, which is a number or a sequence of one to three numbers. Missing
    extents are 1.

    Raises `LaunchError` (TIR0710).
    """
    try:
        return grids.extents_of(grid)
    except ValueError as error:
        raise launch_error(str(error)) from None


def encode_argument(parameter: Parameter, value: Any) -> int:
    """The bits of an argument that is a number or an address.

    Raises `LaunchError` (TIR0710)."""
    kind: Any = parameter.type
    pointer = isinstance(kind, (Pointer, Descriptor))
    if not pointer and not (hasattr(value, "__index__") or hasattr(value, "__float__")):
        message = f"{parameter.name} is {kind}: a number is needed, not {value!r:.60}"
        raise launch_error(message, parameter.location)
    try:
        return _address(value) if pointer else encode(kind, value)
    except (TypeError, ValueError, OverflowError) as error:
        reason = (
            f"an array or an address (0 to 2^64 - 1) is needed, not {value!r:.60}"
            if pointer
            else str(error)
        )
        message = f"{parameter.name} is {kind}: {reason}"
        raise launch_error(message, parameter.location) from None


def _address(value: Any) -> int:
    """`value`, an integer that is an address. Raises TypeError or ValueError if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"no address: {value!r:.60}")
    if not 0 <= value < 1 << 64:
        raise ValueError(f"no address: {value!r:.60}")
    return int(value)


def expand_descriptors(function: Function, values: list[Any]) -> list[Any]:
    """`values`, with each array for a descriptor parameter followed by its extents and strides."""
    expanded: list[Any] = []
    for parameter, value in zip(function.parameters, values, strict=True):
        expanded.append(value)
        if isinstance(parameter.type, Descriptor):
            expanded += [n for numbers in measures_of(value) for n in numbers]
    return expanded


def by_position(
    module: Module, kernel: str, arguments: Sequence[Any] | Mapping[str, Any]
) -> list[Any]:
    """Arguments by position. Raises `LaunchError` for a wrong number of arguments, or for an array
    whose element type differs from the pointee."""
    function = module.functions[kernel]
    names = [p.name or str(i) for i, p in enumerate(function.parameters)]
    if not isinstance(arguments, Mapping):
        if len(arguments) != len(names):
            message = f"@{kernel} takes {len(names)} arguments, not {len(arguments)}"
            raise launch_error(message, function.location)
        arguments = dict(zip(names, arguments, strict=True))
    if set(names) != set(arguments):
        message = f"@{kernel} takes {', '.join(names)}, not {', '.join(arguments)}"
        raise launch_error(message, function.location)
    return [
        _fitting(name, arguments[name], parameter)
        for name, parameter in zip(names, function.parameters, strict=True)
    ]


def _fitting(name: str, value: Any, parameter: Parameter) -> Any:
    """`value` if it fits `parameter`; an array without dimensions is replaced by its element.
    Raises `LaunchError` if it does not fit."""
    if not isinstance(value, np.ndarray):
        return value
    type_ = parameter.type
    if not isinstance(type_, (Pointer, Descriptor)):
        if value.ndim:
            message = f"{name} must be a number of {type_}, not an array"
            raise launch_error(message, parameter.location)
        return value.item()
    from tileir.machine.tensor import fits_dtype  # a slow import, needed only for host arrays

    element = type_.pointee if isinstance(type_, Pointer) else type_.block.element
    if not fits_dtype(value.dtype, element):
        message = f"{name} must be an array of {element}, not of {value.dtype}"
        raise launch_error(message, parameter.location)
    return value


def measures_of(array: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents and the strides of an array, in elements."""
    return array.shape, tuple(s // array.itemsize for s in array.strides)


def launch_error(message: str, location: Location | None = None) -> LaunchError:
    """An error for a grid or arguments that do not fit (TIR0710). `location` is that of the
    parameter, or of the kernel, if the program is available."""
    return LaunchError(Diagnostic("TIR0710", message, location))
