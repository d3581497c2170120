"""Arguments as words for a kernel, and as conditions for a launcher in machine code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs

from tileir.backend.launch_arguments import launch_error
from tileir.backend.metadata import KernelParameter
from tileir.backend.runtime.array_protocols import (
    Array,
    StridedTensor,
    array,
    is_array,
    like_array,
)
from tileir.backend.runtime.native_launcher import (
    INTEGERS_TOO,
    LEAST,
    MOST,
    NOT_DIVISIBLE,
    NOT_ONE,
    Arg,
    ArgKind,
    Part,
    PartAccess,
)
from tileir.types import SCALARS
from tileir.values import encode

_SPECIAL = 16
"""The divisor for which integers and addresses are specialized."""

_LOOSE = frozenset({"i8", "i1", "f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1", "i4", "bf16"})
"""Elements without a type in libraries, or represented by bytes: only the size must match."""


@attrs.frozen(eq=False)
class PackedArgument:
    """The words of an argument, of 64 bits each; its array, if it is one; and `like`, the condition
    for arguments that are passed in the same way (None: there is none)."""

    words: tuple[int, ...]
    like: Arg | None = None
    array: Array | None = None


@attrs.frozen
class SpecializationPolicy:
    """The specialization of kernels.

    `exact`: arguments with other properties than the promised ones have a better kernel, so 16 is
    tested only where it was promised to divide, except for parameters in `plain`. `devices` is the
    number of GPUs, `owner` returns the number of the GPU that owns an address. `reinterpreted` are
    parameters for arrays of any element type.
    """

    exact: bool = False
    plain: frozenset[str] = frozenset()
    devices: int = 1
    owner: Callable[[int], int | None] | None = None
    reinterpreted: frozenset[str] = frozenset()


def pack_argument(
    argument: KernelParameter, value: Any, offset: int, policy: SpecializationPolicy
) -> PackedArgument:
    """Pack `value` for the parameter `argument`, whose first word is number `offset`.

    Raises LaunchError (TIR0710) with the name of the argument and the expected value.
    """
    if argument.type.startswith("tensor_desc"):
        return _pack_tensor(argument, value, offset, policy)
    if argument.type.endswith("*"):
        return _pointer(argument, value, offset, policy)
    return _number(argument, value, offset, policy)


def _pack_tensor(
    argument: KernelParameter, value: Any, offset: int, policy: SpecializationPolicy
) -> PackedArgument:
    """A tensor with its extents and strides."""
    rank = (len(argument.words) - 1) // 2
    if isinstance(value, StridedTensor):
        address, extents, strides, checked = value.address, value.extents, value.strides, None
    elif is_array(value):
        checked = _check_array(argument, array(value, argument.name, policy.devices), policy)
        address, extents, strides = checked.address, checked.extents, checked.distances
    else:
        raise launch_error(
            f"argument {argument.name} must be an array of a GPU for {argument.type}, not "
            f"{type(value).__name__}"
        )
    if len(extents) != rank:
        raise launch_error(f"argument {argument.name} has {len(extents)} dimensions, not {rank}")
    words = (address, *(n & 0xFFFFFFFFFFFFFFFF for n in (*extents, *strides)))
    like = _descriptor_like(argument, value, offset, rank, checked)
    return PackedArgument(words, like, checked)


def _descriptor_like(
    argument: KernelParameter, value: Any, offset: int, rank: int, checked: Array | None
) -> Arg | None:
    """The condition that recognizes descriptors like `value`, and the accesses to address, extents
    and strides."""
    divisor = max(1, argument.aligned)
    if checked is None:
        address = Arg(ArgKind.INTEGER, offset, divisor)
        parts = (Part(PartAccess.ATTRIBUTE, "address", address),
                 Part(PartAccess.ATTRIBUTE, "extents", _integers(tuple, offset + 1, rank)),
                 Part(PartAccess.ATTRIBUTE, "strides", _integers(tuple, offset + 1 + rank, rank)),
                 )  # fmt: skip
        return Arg(ArgKind.WHOLE, low=-1, type=type(value), name=argument.name, parts=parts)
    itself = like_array(value, checked, offset, argument.name, divisor, 0)
    if checked.like is None or itself is None:
        return None
    if checked.like.kind is ArgKind.TENSOR:
        extents = _integers(type(value.shape), offset + 1, rank)
        strides = _integers(tuple, offset + 1 + rank, rank)
        measures = (
            Part(PartAccess.ATTRIBUTE, "shape", extents),
            Part(PartAccess.METHOD, "stride", strides),
        )
    else:
        numbers = _integers(tuple, offset + 1, 2 * rank)
        measures = (Part(PartAccess.FUNCTION, _measures, numbers),)
    parts = (Part(PartAccess.ITSELF, None, itself), *measures)
    return Arg(ArgKind.WHOLE, low=-1, type=type(value), name=argument.name, parts=parts)


def with_span(like: Arg, value: Any, offset: int) -> Arg:
    """`like`, which also takes the address and bytes of the memory of an array
    (`tileir.backend.runtime.disjoint.span`)."""
    numbers = (Part(PartAccess.METHOD, "data_ptr", Arg(ArgKind.INTEGER, offset)),
               Part(PartAccess.METHOD, "nbytes", Arg(ArgKind.INTEGER, offset + 1)))  # fmt: skip
    memory = Arg(ArgKind.WHOLE, low=-1, type=type(value.untyped_storage()), parts=numbers)
    parts = (
        Part(PartAccess.ITSELF, None, like),
        Part(PartAccess.METHOD, "untyped_storage", memory),
    )
    return Arg(ArgKind.WHOLE, low=-1, type=type(value), name=like.name, parts=parts)


def _integers(kind: type, offset: int, count: int) -> Arg:
    """The condition for a sequence of this number of integers."""
    parts = (Part(PartAccess.ITEM, i, Arg(ArgKind.INTEGER, offset + i)) for i in range(count))
    return Arg(ArgKind.WHOLE, low=count, type=kind, parts=tuple(parts))


def _measures(value: Any) -> tuple[int, ...]:
    """Extents and strides of an array, in elements."""
    view = array(value, "")
    return (*view.extents, *view.distances)


def _pointer(
    argument: KernelParameter, value: Any, offset: int, policy: SpecializationPolicy
) -> PackedArgument:
    divisor, flags = _divisibility(argument.name, argument.aligned, policy)
    if isinstance(value, int) and not isinstance(value, bool):
        _check_address(argument, value, policy)
        like = Arg(ArgKind.INTEGER, offset, divisor, flags, 0, MOST, name=argument.name)
        return PackedArgument((value,), like if _fits(divisor, flags, value) else None)
    checked = _check_array(argument, array(value, argument.name, policy.devices), policy)
    like = None
    if _fits(divisor, flags, checked.address):
        like = like_array(value, checked, offset, argument.name, divisor, flags)
        if like is not None and argument.name in policy.reinterpreted:
            like = attrs.evolve(like, dtype=None)
    return PackedArgument((checked.address,), like, checked)


def _divisibility(name: str, promised: int, policy: SpecializationPolicy) -> tuple[int, int]:
    """The test of a number by the launcher: the divisor, and a flag if it must not divide."""
    if promised > 1:
        return promised, 0
    return (_SPECIAL, NOT_DIVISIBLE) if policy.exact and name not in policy.plain else (1, 0)


def _fits(divisor: int, flags: int, value: int) -> bool:
    return (value % divisor == 0) is not bool(flags & NOT_DIVISIBLE)


def _check_array(argument: KernelParameter, view: Array, policy: SpecializationPolicy) -> Array:
    """`view`, if it fits the parameter. Raises LaunchError otherwise."""
    element = re.sub(r"( addrspace\(\d+\))?\*$", "", argument.type)
    if element.startswith("tensor_desc"):
        element = element.removeprefix("tensor_desc<").split("<")[0]
    exempt = argument.name in policy.reinterpreted
    if view.dtype != element and not exempt and not _same_size(view.dtype, element):
        raise launch_error(
            f"argument {argument.name} is an array of {view.dtype}, "
            f"and the kernel takes {argument.type}"
        )
    if view.size and not view.address:
        raise launch_error(
            f"argument {argument.name} has no memory: it was freed, or its ownership was passed on"
        )
    if view.size:
        _check_address(argument, view.address, policy)
    return view


def _same_size(dtype: str, element: str) -> bool:
    """Whether bits of `dtype` stand for `element`, which libraries lack a type for."""
    if element.endswith("*"):
        return dtype == "i64"
    if element not in _LOOSE:
        return False
    size = max(8, SCALARS[element].bits)
    if dtype in SCALARS:
        return max(8, SCALARS[dtype].bits) == size and (size == 8 or dtype.startswith("i"))
    return dtype == f"{size} bits"


def _check_address(argument: KernelParameter, address: int, policy: SpecializationPolicy) -> None:
    if argument.aligned > 1 and address % argument.aligned:
        raise launch_error(
            f"argument {argument.name} is at {address:#x}, which is not a multiple of "
            f"{argument.aligned}: the kernel was compiled for aligned memory"
        )
    if policy.owner is not None and address and policy.owner(address) is None:
        raise launch_error(
            f"argument {argument.name} is at {address:#x}, where no GPU has memory: it was freed, "
            "or is memory of the host"
        )


def _number(
    argument: KernelParameter, value: Any, offset: int, policy: SpecializationPolicy
) -> PackedArgument:
    """A number by value."""
    element = SCALARS[argument.type]
    plain = type(value) in (bool, int, float)
    number = value if plain else _item(argument, value)
    if argument.type.startswith("i"):
        word = _integer(argument, number, element.bits)
        like = _integer_like(argument, number, offset, policy, element.bits)
    else:
        word = encode(element, float(number))
        kind = {"f32": ArgKind.FLOAT, "f64": ArgKind.DOUBLE}.get(argument.type)
        flags = INTEGERS_TOO if not policy.exact else 0
        like = None if kind is None or isinstance(number, bool) else Arg(kind, offset, flags=flags)
        like = None if policy.exact and not isinstance(number, float) else like
    recorded = None if like is None or not plain else attrs.evolve(like, name=argument.name)
    return PackedArgument((word,), recorded)


def _integer(argument: KernelParameter, number: Any, bits: int) -> int:
    if not isinstance(number, int):
        raise launch_error(
            f"argument {argument.name} must be an integer for {argument.type}, not {number!r}"
        )
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise launch_error(f"argument {argument.name}, {number}, does not fit in {argument.type}")
    if argument.multiple_of > 1 and number % argument.multiple_of:
        raise launch_error(
            f"argument {argument.name}, {number}, is not a multiple of {argument.multiple_of}, "
            "which the kernel was compiled for"
        )
    return number & ((1 << bits) - 1)


def _integer_like(
    argument: KernelParameter, number: Any, offset: int, policy: SpecializationPolicy, bits: int
) -> Arg | None:
    if isinstance(number, bool):
        return Arg(ArgKind.BOOL, offset)
    low, high = max(LEAST, -(1 << bits - 1)), min(MOST, (1 << bits) - 1)
    if not low <= number <= high:
        return None
    if not policy.exact:
        return Arg(ArgKind.INTEGER, offset, argument.multiple_of, 0, low, high)
    if number == 0 or (number == 1 and argument.name not in policy.plain):
        return Arg(ArgKind.INTEGER, offset, low=number, high=number)
    small = 1 << 31
    if bits == 32 and number < small:
        high = small - 1  # of larger ones the type is another
    elif bits == 64 and not -small <= number < small:
        low, high = (small, high) if number > 0 else (low, -small - 1)
    divisor, flags = _divisibility(argument.name, argument.multiple_of, policy)
    if argument.name not in policy.plain and number != 1:
        flags |= NOT_ONE
    if not _fits(divisor, flags, number):
        return None
    return Arg(ArgKind.INTEGER, offset, divisor, flags, low, high)


def _item(argument: KernelParameter, value: Any) -> int | float | bool:
    """The number in a library's scalar."""
    item = getattr(value, "item", None)
    scalar = item() if item is not None and getattr(value, "ndim", 1) == 0 else None
    if not isinstance(scalar, (bool, int, float)):
        raise launch_error(
            f"argument {argument.name} must be a number for {argument.type}, not "
            f"{type(value).__name__}"
        )
    return scalar
