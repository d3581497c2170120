"""Parameters of a specialized kernel: one for a parameter of the function, or several for a tuple
or for a descriptor made by the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs

from tileir.builder import Builder
from tileir.executor import Fixed, Parts, descriptor_parts
from tileir.frontends.triton import dtypes
from tileir.frontends.triton.dtypes import DType, PointerType
from tileir.frontends.triton.language.memory import TensorDescriptor, described_tensor
from tileir.frontends.triton.reinterpreting import TensorWrapper
from tileir.frontends.triton.tensor import Kind, Tensor, literal


@attrs.frozen
class RuntimeParameter:
    """A parameter at run time: its type, and the properties of all its values."""

    type: Kind
    divisible: int = 1
    """The integer, or the address in bytes, is a multiple of this."""


@attrs.frozen
class Known:
    """An item of a tuple that is a compile-time value."""

    value: Any


@attrs.frozen
class TupleParameter:
    """A tuple: the specialization of each item, and its class, which may name them."""

    items: tuple[Any, ...]
    kind: type = tuple


@attrs.frozen
class DescriptorParameter:
    """A descriptor made by the host: its base, extents and strides are parameters, but for the
    last stride, which is 1."""

    base: RuntimeParameter
    extents: tuple[RuntimeParameter, ...]
    strides: tuple[RuntimeParameter, ...]
    block: tuple[int, ...]
    padding: str = "zero"

    @property
    def parts(self) -> tuple[RuntimeParameter, ...]:
        """The parameters, base first."""
        return (self.base, *self.extents, *self.strides)


Argument: TypeAlias = RuntimeParameter | Known | TupleParameter | DescriptorParameter


def descriptor_parameter(element: DType, block: tuple[int, ...]) -> DescriptorParameter:
    """A descriptor parameter for `element` and `block`, without further properties."""
    extents = tuple(RuntimeParameter(dtypes.int32) for _ in block)
    strides = tuple(RuntimeParameter(dtypes.int64) for _ in block[1:])
    return DescriptorParameter(RuntimeParameter(PointerType(element), 16), extents, strides, block)


def leaves(name: str, argument: Argument) -> Iterator[tuple[str, RuntimeParameter]]:
    """The parameters of the function, by name, in the order of `spread`."""
    if isinstance(argument, RuntimeParameter):
        yield name, argument
    elif isinstance(argument, TupleParameter):
        for i, item in enumerate(argument.items):
            yield from leaves(f"{name}.{i}", item)
    elif isinstance(argument, DescriptorParameter):
        for i, part in enumerate(argument.parts):
            yield f"{name}.{i}" if i else name, part


def spread(argument: Argument, value: Any) -> Iterator[Any]:
    """The values that the parameters get."""
    if isinstance(argument, RuntimeParameter):
        yield value
    elif isinstance(argument, TupleParameter):
        for item, part in zip(argument.items, value, strict=True):
            yield from spread(item, part)
    elif isinstance(argument, DescriptorParameter):
        yield from (value.base, *value.shape, *value.strides[:-1])


def parts(name: str, argument: Argument, value: Any) -> str | Parts | Fixed:
    """The accesses by which the parameters of `leaves` are read from an argument like `value`."""
    if isinstance(argument, Known):
        return Fixed(argument.value)
    if isinstance(argument, TupleParameter):
        several = zip(argument.items, value, strict=True)
        items = ((i, parts(f"{name}.{i}", *each)) for i, each in enumerate(several))
        return Parts(argument.kind, tuple(items), len(argument.items))
    if isinstance(argument, DescriptorParameter):
        names = [leaf for leaf, _ in leaves(name, argument)]
        rank = len(argument.extents)
        base = parts(name, argument.base, value.base)
        shape, strides = names[1 : 1 + rank], names[1 + rank :]
        return descriptor_parts(value, base, shape, strides, ("block_shape", "padding"))
    if isinstance(value, TensorWrapper):
        return Parts(type(value), (("base", name), ("dtype", Fixed(value.dtype))))
    return name


def bound(b: Builder, argument: Argument, values: Iterator[Any]) -> Any:
    """The value of the name in a kernel: tensors, a tuple, or a descriptor."""
    if isinstance(argument, Known):
        return argument.value
    if isinstance(argument, TupleParameter):
        items = [bound(b, item, values) for item in argument.items]
        return getattr(argument.kind, "_make", tuple)(items)
    if isinstance(argument, DescriptorParameter):
        return _descriptor(b, argument, values)
    return Tensor(next(values), argument.type)


def _descriptor(
    b: Builder, argument: DescriptorParameter, values: Iterator[Any]
) -> TensorDescriptor:
    base, *fields = (Tensor(next(values), part.type) for part in argument.parts)
    rank = len(argument.extents)
    strides = (*fields[rank:], literal(b, 1, dtypes.int64))
    return described_tensor(
        b, base, tuple(fields[:rank]), strides, argument.block, argument.padding
    )
