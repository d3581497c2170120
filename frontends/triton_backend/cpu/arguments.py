"""Arguments of launches as memory and bits: tensors of any dtype and strides by their address, with
the bounds of their storage."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from tileir.errors import Diagnostic, LaunchError
from tileir.frontends.triton_backend.cpu.uninitialized import unwritten_bytes
from tileir.interp import Within
from tileir.ir import Parameter
from tileir.machine.tensor import dtype_of
from tileir.types import F32, F64, Descriptor, Pointer, Scalar, Type
from tileir.values import encode

ANYWHERE = (1 << 64) - 1
"""The end of memory that nothing is known of."""


@attrs.frozen
class Place:
    """The target of a pointer argument: its address, and the first byte and the end of the memory
    around it."""

    address: int
    first: int
    end: int


def place_of(name: str, value: Any) -> Place:
    """The memory of a tensor of torch or of a view that a library makes of one, of anything else
    with `data_ptr`, or at an address.
    Raises LaunchError (TIR0710) for what is not in the host's memory."""
    storage = getattr(value, "untyped_storage", None)
    if storage is not None:
        if not getattr(value, "is_cpu", True):
            raise _launch_error(f"{name} is a tensor on {value.device}: kernels run on the CPU")
        torch_storage = storage()
        first = torch_storage.data_ptr()
        return Place(value.data_ptr(), first, first + torch_storage.nbytes())
    if hasattr(value, "base") and hasattr(value.base, "data_ptr"):  # triton.reinterpret
        return place_of(name, value.base)
    if hasattr(value, "data_ptr"):
        return Place(value.data_ptr(), 0, ANYWHERE)
    if isinstance(value, int):
        return Place(value, 0, ANYWHERE)
    raise _launch_error(f"{name} is a pointer: a tensor is needed, not {type(value).__name__}")


Memory = tuple[str, int, int]
"""The name of a parameter, and first byte and end of the memory that it points into."""

Reader = Callable[[Any, "list[int]", "list[Memory | None]"], None]
"""Adds the words of an argument to the first list, and for each its memory to the second: None for
a number."""


def reader(parameter: Parameter) -> Reader:
    """The function that reads the words of `parameter` from an argument. Raises LaunchError
    (TIR0710) for a type that no host passes."""
    kind, name = parameter.type, str(parameter.name)
    if isinstance(kind, Pointer):

        def pointer(value: Any, words: list[int], memory: list[Memory | None]) -> None:
            place = place_of(name, value)
            words.append(place.address)
            memory.append((name, place.first, place.end))

        return pointer
    if isinstance(kind, Descriptor):

        def descriptor(value: Any, words: list[int], memory: list[Memory | None]) -> None:
            place = place_of(name, value.base)
            numbers = (*map(int, value.shape), *map(int, value.strides))
            words += (place.address, *numbers)
            memory += ((name, place.first, place.end), *[None] * len(numbers))

        return descriptor
    bits = _encoder(kind, name)

    def number(value: Any, words: list[int], memory: list[Memory | None]) -> None:
        words.append(bits(value))
        memory.append(None)

    return number


def _encoder(kind: Type, name: str) -> Callable[[Any], int]:
    """Bits of a number of the type `kind`."""
    if not isinstance(kind, Scalar):
        raise _launch_error(f"{name}: the host cannot give a {kind}")
    if kind is F32:
        return _single_bits
    if kind is F64:
        return lambda value: _WIDE.unpack(_DOUBLE.pack(value))[0]
    if kind.is_float:
        return lambda value: encode(kind, value)
    mask = (1 << kind.bits) - 1
    return lambda value: int(value) & mask


def _single_bits(value: Any) -> int:
    try:
        bits: int = _UNSIGNED.unpack(_SINGLE.pack(value))[0]
    except OverflowError:  # above the largest f32: an infinity, as in C
        bits = encode(F32, value)
    return bits


_SINGLE, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_UNSIGNED, _WIDE = struct.Struct("<I"), struct.Struct("<Q")


def array_of(parameter: Parameter, value: Any) -> Any:
    """An argument as the executors take it: for a pointer, an array of its elements from its
    address to the end of its memory, with the memory before it."""
    kind, name = parameter.type, str(parameter.name)
    if isinstance(kind, Descriptor):
        place = place_of(name, value.base)
        dtype = dtype_of(kind.block.element)
        steps = tuple(int(s) * dtype.itemsize for s in value.strides)
        memory = bytes_of(place)
        return np.ndarray(
            tuple(map(int, value.shape)), dtype, memory, place.address - place.first, steps
        )
    if not isinstance(kind, Pointer):
        return _number(kind, value)
    if isinstance(kind.pointee, Pointer):
        raise _launch_error(f"{name} points to pointers, which only TILEIR_TRITON_CPU=native runs")
    place = place_of(name, value)
    dtype = dtype_of(kind.pointee)
    memory = bytes_of(place)
    start = place.address - place.first
    count = (place.end - place.address) // dtype.itemsize
    array = memory[start : start + count * dtype.itemsize].view(dtype)
    return Within(array, memory, unwritten_bytes(memory)) if len(memory) else array


def _number(kind: Type, value: Any) -> Any:
    if isinstance(kind, Scalar) and not kind.is_float:
        number = int(value)
        return (
            number - (1 << kind.bits) if kind.bits > 1 and number >> (kind.bits - 1) > 0 else number
        )
    return float(value)


def bytes_of(place: Place) -> np.ndarray[Any, Any]:
    """The memory itself. Raises LaunchError (TIR0710) if its size is unknown."""
    if place.end == ANYWHERE:
        raise _launch_error(
            "a tensor of torch is needed: the memory of anything else has no known end"
        )
    size = place.end - place.first
    if not size:
        return np.empty(0, np.uint8)
    raw: Any = (ctypes.c_uint8 * size).from_address(place.first)
    return np.frombuffer(raw, np.uint8)


def _launch_error(message: str) -> LaunchError:
    return LaunchError(Diagnostic("TIR0710", message))
