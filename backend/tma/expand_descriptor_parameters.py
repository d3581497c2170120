"""Parameters that are descriptors as what they are made of."""

from __future__ import annotations

import attrs

from tileir.ir import Block, Function, Parameter
from tileir.ops.descriptor import MakeDescriptor
from tileir.ops.dot import Dot
from tileir.types import I64, Descriptor, pointer
from tileir.values import Value


def expand_descriptor_parameters(function: Function) -> Function:
    """A kernel that multiplies, with descriptors made in its entry of a base, extents and strides
    in the place of each parameter that is one, as launchers pass them; what lies outside reads as
    zero."""
    described = any(isinstance(p.type, Descriptor) for p in function.parameters)
    multiplies = any(isinstance(op, Dot) for op in function.ops)
    if not (function.kernel and described and multiplies):
        return function
    parameters: list[Parameter] = []
    makers: list[MakeDescriptor] = []
    for parameter in function.parameters:
        if not isinstance(parameter.type, Descriptor):
            parameters.append(parameter)
            continue
        first, numbers, maker = _parts(parameter, parameter.type)
        parameters += [first, *map(Parameter, numbers)]
        makers.append(maker)
    entry = function.entry
    block = Block(entry.label, (), (*makers, *entry.ops))
    return function.evolve(
        parameters=tuple(parameters), blocks={**function.blocks, entry.label: block}
    )


def _parts(parameter: Parameter, kind: Descriptor) -> tuple[Parameter, list[Value], MakeDescriptor]:
    """The base, the extents and then the strides, and what makes the descriptor of them."""
    rank = len(kind.block.shape)
    base = Value(pointer(kind.block.element), parameter.value.name)
    numbers = [Value(I64) for _ in range(2 * rank)]
    pairs = [n for pair in zip(numbers[:rank], numbers[rank:], strict=True) for n in pair]
    maker = MakeDescriptor(base, kind, tuple(pairs), results=(parameter.value,))
    return attrs.evolve(parameter, value=base), numbers, maker
