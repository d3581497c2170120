"""Expansion of a kernel's descriptor parameters into base, extents and strides."""

from __future__ import annotations

import attrs

from tileir.ir import Block, Function, Parameter
from tileir.ops.descriptor import MakeDescriptor
from tileir.ops.dot import Dot
from tileir.types import I64, Descriptor, pointer
from tileir.values import Value


def expand_descriptor_parameters(function: Function) -> Function:
    """A kernel with dots whose descriptor parameters are replaced by base, extents and strides, as
    launchers pass them; its entry block makes the descriptors. Elements outside the tensor are read
    as zero. Other functions are returned unchanged."""
    has_descriptors = any(isinstance(p.type, Descriptor) for p in function.parameters)
    has_dot = any(isinstance(op, Dot) for op in function.ops)
    if not (function.kernel and has_descriptors and has_dot):
        return function
    parameters: list[Parameter] = []
    makers: list[MakeDescriptor] = []
    for parameter in function.parameters:
        if not isinstance(parameter.type, Descriptor):
            parameters.append(parameter)
            continue
        first, scalars, maker = _expand(parameter, parameter.type)
        parameters += [first, *map(Parameter, scalars)]
        makers.append(maker)
    entry = function.entry
    block = Block(entry.label, (), (*makers, *entry.ops))
    return function.evolve(
        parameters=tuple(parameters), blocks={**function.blocks, entry.label: block}
    )


def _expand(
    parameter: Parameter, kind: Descriptor
) -> tuple[Parameter, list[Value], MakeDescriptor]:
    """The base parameter; the extents and then the strides (i64); and the op that makes the
    descriptor from them."""
    rank = len(kind.block.shape)
    base = Value(pointer(kind.block.element), parameter.value.name)
    scalars = [Value(I64) for _ in range(2 * rank)]
    pairs = [n for pair in zip(scalars[:rank], scalars[rank:], strict=True) for n in pair]
    maker = MakeDescriptor(base, kind, tuple(pairs), results=(parameter.value,))
    return attrs.evolve(parameter, value=base), scalars, maker
