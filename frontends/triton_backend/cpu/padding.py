"""Descriptors that the host makes with NaN as padding, which a kernel's signature does not say."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import attrs

from tileir.ir import Block, Module, Parameter
from tileir.ops.descriptor import MakeDescriptor, Padding
from tileir.types import Descriptor, Scalar, pointer
from tileir.values import Value


def places_padded_with_nan(parameters: Sequence[Parameter], values: Sequence[Any]) -> set[int]:
    """Which parameters are descriptors whose values ask for NaN outside of the tensor."""
    return {
        i
        for i, (p, value) in enumerate(zip(parameters, values, strict=True))
        if isinstance(p.type, Descriptor) and getattr(value, "padding", "zero") == "nan"
        if isinstance(p.type.block.element, Scalar) and p.type.block.element.is_float
    }


def with_nan_padding(module: Module, kernel: str, places: Collection[int]) -> Module:
    """`module` whose kernel makes the descriptors at `places` itself, with NaN as padding: of a
    pointer in their place, and of the extents and strides that follow them as parameters."""
    function = module.functions[kernel]
    parameters, makers = list(function.parameters), list[MakeDescriptor]()
    for place in sorted(places):
        parameter = parameters[place]
        kind: Any = parameter.type
        rank = len(kind.block.shape)
        base = Value(pointer(kind.block.element), parameter.name)
        numbers = [p.value for p in parameters[place + 1 : place + 1 + 2 * rank]]
        pairs = [n for pair in zip(numbers[:rank], numbers[rank:], strict=True) for n in pair]
        results = (parameter.value,)
        maker = MakeDescriptor(base, kind, tuple(pairs), padding=Padding.NAN, results=results)
        makers.append(maker)
        parameters[place] = attrs.evolve(parameter, value=base)
    entry = function.entry
    block = Block(entry.label, (), (*makers, *entry.ops))
    changed = function.evolve(
        parameters=tuple(parameters), blocks={**function.blocks, entry.label: block}
    )
    return module.evolve(functions={**module.functions, kernel: changed})
