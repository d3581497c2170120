"""Kernel arguments: numpy arrays become regions of memory, Python numbers become scalars.

A pointer parameter takes an array whose dtype fits the pointee and receives the address of its
first element; a descriptor parameter describes the array. Any non-negative strides are allowed;
accesses to the bytes between the elements of a strided array are out of bounds. Arrays that share
memory share a region, at their actual distances, and elements of a read-only one are not written.
The start of an allocation counts as aligned to any power of two. `Within` is an array with the
memory around it. A pointer to pointers takes a sequence of arrays. A scalar parameter takes a
number that its type can hold."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tileir.errors import Diagnostic, InterpretError
from tileir.interp.memory import Memory, Region
from tileir.ir import Function, Parameter
from tileir.machine import Machine, Tensor
from tileir.machine.descriptors import Descriptors, DescriptorValue
from tileir.machine.tensor import fits_dtype
from tileir.types import Descriptor, Pointer, Scalar
from tileir.values import Constant, constant

Array = NDArray[Any]


@attrs.frozen(eq=False)
class Within:
    """An argument: an array, and the bytes of the memory around it.

    The kernel may access all of this memory through its pointer. `unwritten` has a flag for each of
    these bytes, nonzero if the byte is undefined; None if all are defined.
    """

    array: Array
    memory: NDArray[np.uint8]
    unwritten: NDArray[np.uint8] | None = None


@attrs.frozen(eq=False)
class PlacedArray:
    """An array in memory: its address, and the parameter that it belongs to."""

    name: str
    array: Array
    region: Region
    address: int

    @property
    def offset(self) -> int:
        """Bytes from the start of the region's memory."""
        return self.address - self.region.start


def named_arguments(
    kernel: Function, arguments: Sequence[Any] | Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by parameter name, in the order of the parameters. Raises InterpretError."""
    names = [p.name or str(i) for i, p in enumerate(kernel.parameters)]
    if isinstance(arguments, Mapping):
        unknown, missing = set(arguments) - set(names), [n for n in names if n not in arguments]
        if unknown or missing:
            raise _error("TIR0510", _mismatch(kernel, unknown, missing), kernel.location)
        return {name: arguments[name] for name in names}
    if isinstance(arguments, (str, bytes)) or not hasattr(arguments, "__len__"):
        message = f"arguments are a sequence or a mapping, not {type(arguments).__name__}"
        raise _error("TIR0510", message, kernel.location)
    if len(arguments) != len(names):
        expected = f"{len(names)} arguments ({', '.join(names)})"
        message = f"@{kernel.name} takes {expected}, not {len(arguments)}"
        raise _error("TIR0510", message, kernel.location)
    return dict(zip(names, arguments, strict=True))


def _mismatch(kernel: Function, unknown: set[str], missing: list[str]) -> str:
    parts = []
    if unknown:
        parts.append(f"has no parameter {', '.join(sorted(unknown))}")
    if missing:
        parts.append(f"is given no {', '.join(missing)}")
    return f"@{kernel.name} " + " and ".join(parts)


def _error(code: str, message: str, location: Any) -> InterpretError:
    return InterpretError(Diagnostic(code, message, location))


@attrs.define(eq=False)
class Binder:
    """Puts arrays into memory, those that overlap into one region."""

    memory: Memory
    machine: Machine
    bound: list[PlacedArray] = attrs.field(factory=list[PlacedArray])
    tables: list[tuple[Array, list[Array]]] = attrs.field(factory=list[tuple[Array, list[Array]]])
    _addresses: dict[int, int] = attrs.field(factory=dict[int, int])

    def values(self, kernel: Function, arguments: Mapping[str, Any]) -> list[Any]:
        """The value of every parameter. Raises InterpretError for an argument that does not fit."""
        pairs = list(zip(kernel.parameters, arguments.items(), strict=True))
        arrays = [(n, a) for p, (n, v) in pairs for a in self._arrays(p, n, v)]
        self.place(arrays)
        for value in arguments.values():
            if isinstance(value, Within) and value.unwritten is not None:
                bound = next(b for b in self.bound if b.array is value.memory)
                flags = _bytes_of(bound.array, bound.region.spoil(), bound.offset)
                flags[..., 0] |= value.unwritten
        return [self._value(p, name, value) for p, (name, value) in pairs]

    def place(self, arrays: Sequence[tuple[str, Array]]) -> None:
        """Make regions of `arrays`, given with names."""
        groups: list[list[tuple[str, Array]]] = []
        reach = 0
        for name, array in sorted(arrays, key=lambda pair: _extent(pair[1])[0]):
            low, high = _extent(array)
            if groups and low < reach:
                groups[-1].append((name, array))
            else:
                groups.append([(name, array)])
                reach = 0
            reach = max(reach, high)
        order = {id(a): i for i, (_, a) in enumerate(arrays)}
        for group in sorted(groups, key=lambda g: min(order[id(a)] for _, a in g)):
            self._add_region(sorted(group, key=lambda pair: order[id(pair[1])]))

    def _add_region(self, group: list[tuple[str, Array]]) -> None:
        origin = min(_extent(a)[0] for _, a in group)
        spans = [byte_bounds(a) if a.size else (_pointer(a),) * 2 for _, a in group]
        low, high = min(s[0] for s in spans), max(s[1] for s in spans)
        names = "/".join(dict.fromkeys(name for name, _ in group))
        holes = _holes(group, low, high)
        frozen = [pair for pair in group if not pair[1].flags.writeable]
        reason = f"the array {frozen[0][0]} is read-only" if frozen else ""
        denied = reason if len(frozen) == len(group) else ""
        fixed = None if denied or not frozen else 1 - _free(frozen, low, high)
        keep = tuple(a for _, a in group)
        region = self.memory.add(
            names, _bytes_at(low, high - low), low - origin, denied_write=denied, holes=holes,
            fixed=fixed, fixed_reason=reason, keep=keep,
        )  # fmt: skip
        for name, array in group:
            address = region.base + _pointer(array) - origin
            self.bound.append(PlacedArray(name, array, region, address))
            self._addresses.setdefault(id(array), address)

    def _arrays(self, parameter: Parameter, name: str, value: Any) -> list[Array]:
        """The arrays that `value` brings; a pointer table is one more."""
        type_ = parameter.type
        if isinstance(type_, Descriptor):
            return [_array_for_descriptor(parameter, name, value, type_)]
        if not isinstance(type_, Pointer):
            return []
        if isinstance(type_.pointee, Pointer) and isinstance(value, (list, tuple)):
            inner = type_.pointee.pointee
            items = [_fit(parameter, f"{name}[{i}]", x, inner) for i, x in enumerate(value)]
            table = np.zeros(len(items), np.uint64)
            self.tables.append((table, items))
            return [table, *items]
        if isinstance(value, Within):
            return [value.memory, _fit(parameter, name, value.array, type_.pointee)]
        return [_fit(parameter, name, value, type_.pointee)]

    def _value(self, parameter: Parameter, name: str, value: Any) -> Any:
        if isinstance(parameter.type, Descriptor):
            return self._descriptor(parameter.type, value)
        if not isinstance(parameter.type, Pointer):
            return self.machine.constant(scalar(parameter, name, value))
        if isinstance(value, Within):
            value = value.array
        if not isinstance(value, np.ndarray):
            table, items = self.tables.pop(0)
            table[:] = [self.address(item) for item in items]
            value = table
        return Tensor(np.array(self.address(value), np.uint64), None)

    def _descriptor(self, type_: Descriptor, array: Array) -> DescriptorValue:
        """The descriptor of a whole array; elements outside of it read as zero."""
        strides = (s // array.itemsize for s in array.strides)
        pairs = ((np.array(n), np.array(s)) for n, s in zip(array.shape, strides, strict=True))
        dimensions = tuple(Tensor(number, None) for pair in pairs for number in pair)
        base = Tensor(np.array(self.address(array), np.uint64), None)
        return Descriptors().make_descriptor(base, dimensions, type_, "zero")

    def address(self, array: Array) -> int:
        """The address at which `array`, which is in `bound`, was placed."""
        return self._addresses[id(array)]

    def spoil(self, names: Sequence[str]) -> None:
        """Make the arrays `names` undefined. Raises InterpretError for an unknown name."""
        for name in names:
            bindings = [b for b in self.bound if b.name == name]
            if not bindings:
                raise _error("TIR0510", f"uninitialised names no array: {name}", None)
            for bound in bindings:
                _bytes_of(bound.array, bound.region.spoil(), bound.offset)[...] = 0xFF

    def undefined_masks(self) -> dict[str, NDArray[np.bool_]]:
        """Per array, True where an element holds no defined value."""
        result: dict[str, NDArray[np.bool_]] = {}
        for bound in self.bound:
            flags = bound.region.undef
            if flags is None:
                flags = np.zeros(len(bound.region.data), np.uint8)
            parts = _bytes_of(bound.array, flags, bound.offset)
            result[bound.name] = np.asarray(parts.any(axis=-1))
        return result


def scalar(parameter: Parameter, name: str, value: Any) -> Constant:
    """The number `value` as a literal of the parameter's type. Raises InterpretError where it
    does not fit."""
    type_ = parameter.type
    if not isinstance(type_, Scalar):
        raise _error("TIR0511", f"{name}: the host cannot give a {type_}", parameter.location)
    number = value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value
    required = (int, float) if type_.is_float else (int,)
    if not isinstance(number, required) or not _holds(type_, number):
        message = f"{name} must be a number in the range of {type_}, not {value!r}"
        raise _error("TIR0511", message, parameter.location)
    return constant(type_, number)


def _holds(type_: Scalar, number: float) -> bool:
    if type_.is_float:
        return isinstance(number, float) or abs(number) <= sys.float_info.max
    if type_.bits == 1:
        return number in (0, 1)
    return -(1 << (type_.bits - 1)) <= number < 1 << type_.bits


def _fit(parameter: Parameter, name: str, value: Any, pointee: Any) -> Array:
    """`value` as an array that a pointer to `pointee` may address."""
    if not isinstance(value, np.ndarray):
        message = f"{name} must be a numpy array of {pointee}, not {type(value).__name__}"
        raise _error("TIR0511", message, parameter.location)
    if not fits_dtype(value.dtype, pointee):
        message = f"{name} must be an array of {pointee}, not of {value.dtype}"
        raise _error("TIR0511", message, parameter.location)
    if any(s < 0 for s in value.strides):
        message = f"{name} has negative strides; give a copy"
        raise _error("TIR0511", message, parameter.location)
    return value


def _array_for_descriptor(parameter: Parameter, name: str, value: Any, type_: Descriptor) -> Array:
    """`value` as an array that a descriptor of `type_` may describe."""
    array = _fit(parameter, name, value, type_.block.element)
    if array.ndim != len(type_.block.shape):
        message = f"{name} must have {len(type_.block.shape)} dimensions, not {array.ndim}"
        raise _error("TIR0511", message, parameter.location)
    return array


# Addresses of arrays ----------------------------------------------------------------------------


def _pointer(array: Array) -> int:
    return cast(int, array.__array_interface__["data"][0])


def _extent(array: Array) -> tuple[int, int]:
    """First address and end of the allocation that `array` is a view of."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    low, high = byte_bounds(root) if root.size else (_pointer(root),) * 2
    mine = byte_bounds(array) if array.size else (low, high)
    return min(low, mine[0]), max(high, mine[1])


def _bytes_at(address: int, count: int) -> NDArray[np.uint8]:
    """The bytes as a view of the memory. The caller must keep the arrays that own it."""
    if not count:
        return np.empty(0, np.uint8)
    memory = cast(Any, (ctypes.c_uint8 * count).from_address(address))
    return np.frombuffer(memory, np.uint8)


def _bytes_of(array: Array, flags: NDArray[np.uint8], start: int) -> NDArray[np.uint8]:
    """The flags of an array that starts at `start`, per element and byte: a view."""
    shape, strides = (*array.shape, array.itemsize), (*array.strides, 1)
    return as_strided(flags[start:], shape, strides) if array.size else np.zeros(shape, np.uint8)


def _holes(group: list[tuple[str, Array]], low: int, high: int) -> NDArray[np.uint8] | None:
    """One flag per byte from `low` to `high` that belongs to no element, or None."""
    if len(group) == 1 and (group[0][1].flags.c_contiguous or group[0][1].flags.f_contiguous):
        return None
    holes = _free(group, low, high)
    return holes if holes.any() else None


def _free(group: list[tuple[str, Array]], low: int, high: int) -> NDArray[np.uint8]:
    """One flag per byte from `low` to `high`, 0 if it belongs to an element."""
    free = np.ones(high - low, np.uint8)
    for _, array in group:
        _bytes_of(array, free, _pointer(array) - low)[...] = 0
    return free
