"""Descriptors that the host makes (`TensorDescriptor` as an argument) as parameters of kernels.

TTIR has one parameter for a descriptor, then its extents (i32) and strides (i64), which are parts
of the same argument. Triton asks of the host that the address and all strides but the last are
multiples of 16 bytes, and that the last stride is 1. What is read outside of the tensor, zeros or
NaNs, is known at launch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import lcm
from typing import Any, cast

import attrs

from tileir.errors import Diagnostic, UnsupportedError
from tileir.ir import Block, Module, Parameter, ParameterAttributes
from tileir.op import Op
from tileir.ops.arith import Xor
from tileir.ops.debug import Assert
from tileir.ops.descriptor import MakeDescriptor, Padding
from tileir.types import I1, I32, I64, Descriptor, Scalar, Tile, pointer
from tileir.values import Constant, Value

_ALIGNMENT = 16
"""Bytes that divide the address and the strides of a host descriptor."""

LONGEST_VECTOR = 16
"""Elements of one byte in the widest access."""


def descriptor_places(parameters: Sequence[Parameter]) -> tuple[int, ...]:
    """The parameters that are descriptors."""
    return tuple(i for i, p in enumerate(parameters) if isinstance(p.type, Descriptor))


def last_extents(parameters: Sequence[Parameter]) -> tuple[int, ...]:
    """The parameters that are the last extents of descriptors, which follow these."""
    return tuple(i + len(_block(parameters[i]).shape) for i in descriptor_places(parameters))


def pads_with_nan(value: Any) -> bool:
    """Whether a host descriptor requests NaN for elements out of bounds."""
    return getattr(value, "padding", "zero") == "nan"


def places_padded_with_nan(parameters: Sequence[Parameter], values: Sequence[Any]) -> set[int]:
    """The descriptor parameters whose values request NaN for elements out of bounds."""
    return {
        i
        for i in descriptor_places(parameters)
        if pads_with_nan(values[i]) and _element(parameters[i]).is_float
    }


def with_made_descriptors(
    module: Module, kernel: str, places: Collection[int], nan: Collection[int] = ()
) -> Module:
    """`module` whose kernel makes the descriptors at `places` itself, those at `nan` with NaN as
    padding: of a pointer in their place, and of the extents and strides that follow them as
    parameters."""
    return _with_parameters(module, kernel, places, nan, None)


def with_launcher_parameters(module: Module, kernel: str, flags: int) -> Module:
    """Add the parameters that Triton's launcher passes for each descriptor without a tensor map.

    They are the address, extents and strides of 64 bits, and this number of flags of one bit,
    before the extents and strides of the TTIR. The first flag requests NaN as padding; the kernel
    does not support it and stops. Raises UnsupportedError (TIR0706) if the TTIR has other
    parameters.
    """
    parameters = module.functions[kernel].parameters
    places = descriptor_places(parameters)
    for place in places:
        rank = len(_block(parameters[place]).shape)
        numbers = [p.type for p in parameters[place + 1 : place + 1 + 2 * rank]]
        if numbers != [I32] * rank + [I64] * rank:
            message = f"no extents and strides follow %{parameters[place].name}, a host descriptor"
            raise UnsupportedError(Diagnostic("TIR0706", message, parameters[place].location))
    return _with_parameters(module, kernel, places, (), flags)


def with_multiples(module: Module, kernel: str, places: Collection[int]) -> Module:
    """`module` whose kernel takes multiples of `LONGEST_VECTOR` for the parameters at `places`."""
    function = module.functions[kernel]
    parameters = tuple(
        _multiple_of(p, LONGEST_VECTOR) if i in places else p
        for i, p in enumerate(function.parameters)
    )
    changed = function.evolve(parameters=parameters)
    return module.evolve(functions={**module.functions, kernel: changed})


def _with_parameters(
    module: Module, kernel: str, places: Collection[int], nan: Collection[int], flags: int | None
) -> Module:
    """The descriptors at `places` are made in the kernel. Without `flags` only a pointer is in the
    place of each, otherwise all that Triton's launcher passes."""
    if not places:
        return module
    function = module.functions[kernel]
    old, parameters, ops = list(function.parameters), list[Parameter](), list[Op]()
    for place, parameter in enumerate(old):
        if place not in places:
            parameters.append(parameter)
            continue
        block, element = _block(parameter), _element(parameter)
        first, rank = place + 1, len(block.shape)
        for stride in range(first + rank, first + 2 * rank - 1):
            old[stride] = _multiple_of(old[stride], max(1, 8 * _ALIGNMENT // element.bits))
        base = Value(pointer(element), parameter.name)
        aligned = ParameterAttributes(aligned=_ALIGNMENT)
        parameters.append(attrs.evolve(parameter, value=base, attributes=aligned))
        extents = [p.value for p in old[first : first + rank]]
        strides = [*(p.value for p in old[first + rank : first + 2 * rank - 1]), Constant(I64, 1)]
        pairs = tuple(n for pair in zip(extents, strides, strict=True) for n in pair)
        padding = Padding.NAN if place in nan else Padding.ZERO
        results = (parameter.value,)
        ops.append(MakeDescriptor(base, parameter.type, pairs, padding=padding, results=results))
        if flags is not None:
            passed = [Value(I64) for _ in range(2 * rank)] + [Value(I1) for _ in range(flags)]
            parameters += [Parameter(value, location=parameter.location) for value in passed]
            if flags and element.is_float:
                ops += _stop_where(passed[2 * rank])
    entry = function.entry
    block = Block(entry.label, (), (*ops, *entry.ops))
    changed = function.evolve(
        parameters=tuple(parameters), blocks={**function.blocks, entry.label: block}
    )
    return module.evolve(functions={**module.functions, kernel: changed})


def _block(parameter: Parameter) -> Tile:
    return cast(Descriptor, parameter.type).block


def _element(parameter: Parameter) -> Scalar:
    return cast(Scalar, _block(parameter).element)


def _multiple_of(parameter: Parameter, divisor: int) -> Parameter:
    attributes = parameter.attributes
    least = lcm(divisor, max(1, attributes.multiple_of))
    return attrs.evolve(parameter, attributes=attrs.evolve(attributes, multiple_of=least))


def _stop_where(flag: Value) -> list[Op]:
    """Stop the kernel if `flag` is set."""
    clear = Value(I1)
    return [
        Xor(flag, Constant(I1, 1), results=(clear,)),
        Assert(clear, message="tileir launches kernels whose descriptors have NaN as padding"),
    ]
