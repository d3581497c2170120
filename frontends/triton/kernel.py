"""Compilation of a Python function, for the types of its arguments, to a module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import attrs

from tileir import Module
from tileir.builder import arg
from tileir.frontends.triton.building import KernelBuilder, KernelOptions
from tileir.frontends.triton.calls import call
from tileir.frontends.triton.dtypes import SIGNATURE, PointerType
from tileir.frontends.triton.errors import KernelError, error_at
from tileir.frontends.triton.frame import Frame
from tileir.frontends.triton.index_nsw import mark_index_nsw
from tileir.frontends.triton.parameters import (
    Argument,
    RuntimeParameter,
    TupleParameter,
    bound,
    descriptor_parameter,
    leaves,
    spread,
)
from tileir.frontends.triton.source import FunctionSource
from tileir.frontends.triton.statements import run
from tileir.process import collector_paused


@attrs.frozen
class Specialization:
    """The specialization of a kernel: `parameters` at run time, `constants` at compile time, and
    `options` of the function (`num_warps` and others)."""

    parameters: Mapping[str, Argument]
    constants: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def leaves(self) -> dict[str, RuntimeParameter]:
        """The parameters of the function, several for a tuple or descriptor."""
        return dict(leaf for name, p in self.parameters.items() for leaf in leaves(name, p))

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the function's parameters, from arguments by name."""
        result = (x for name, p in self.parameters.items() for x in spread(p, arguments[name]))
        return dict(zip(self.leaves, result, strict=True))


@collector_paused()
def module_of(source: FunctionSource, special: Specialization) -> Module:
    """The module with the kernel, verified. Raises CompilationError."""
    own, options = KernelOptions.of(special.options)
    b = KernelBuilder(own)
    arguments = {name: _argument(p) for name, p in special.leaves.items()}
    place = source.place(source.tree)
    with b.at_location(place), b.kernel(source.tree.name, **arguments) as values:
        b.configure(**options)
        frame = Frame(b, source, is_kernel=True, caller=call)
        with frame.at(source.tree):
            for name, value in special.constants.items():
                frame.names.set(name, value)
            remaining_values = iter(values)
            for name, p in special.parameters.items():
                frame.names.set(name, bound(b, p, remaining_values))
        try:
            run(frame, source.tree.body)
        except RecursionError:
            raise error_at("the kernel is nested too deeply", place) from None
    return mark_index_nsw(b.module(), b.unsigned)


def _argument(parameter: RuntimeParameter) -> Any:
    kind = parameter.type.element
    if parameter.divisible == 1:
        return kind
    if isinstance(parameter.type, PointerType):
        return arg(kind, aligned=parameter.divisible)
    return arg(kind, multiple_of=parameter.divisible)


def from_signature(
    source: FunctionSource,
    signature: Mapping[str, Any],
    constants: Mapping[str, Any],
    **options: Any,
) -> Specialization:
    """A specialization written as Triton's signatures are: `{"x": "*fp32:16", "n": "i32",
    "BLOCK": "constexpr", "d": "tensordesc<fp16[64, 32]>", "several": ("*fp32", "i32")}`, `:16` for
    multiples of 16. Raises CompilationError."""
    parameters: dict[str, Argument] = {}
    for node in source.parameters:
        name = node.arg
        if name in constants:
            continue
        text = signature.get(name)
        if text is None and name in source.annotated_types:
            parameters[name] = RuntimeParameter(source.annotated_types[name])
            continue
        if text is None or text == "constexpr":
            raise error_at(f"parameter {name} has no type and no value", source.place(node))
        try:
            parameters[name] = _parse_type(text)
        except KernelError as error:
            raise error_at(error.message, source.place(node)) from None
    return Specialization(parameters, dict(constants), options)


_DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[([\d, ]+)\](?:,.*)?>")


def _parse_type(text: Any) -> Argument:
    if isinstance(text, (tuple, list)):
        return TupleParameter(tuple(map(_parse_type, cast(tuple[Any, ...], text))))
    if not isinstance(text, str):
        raise KernelError(f"{text!r} is not a type of a signature: i32, fp16, *fp32:16, constexpr")
    descriptor = _DESCRIPTOR.fullmatch(text)
    if descriptor and descriptor[1] in SIGNATURE:
        block = tuple(int(n) for n in descriptor[2].split(","))
        return descriptor_parameter(SIGNATURE[descriptor[1]], block)
    kind, _, divisible = text.partition(":")
    name = kind.removeprefix("*").removeprefix("k")
    if name not in SIGNATURE or (divisible and not divisible.isdigit()):
        raise KernelError(f"{text!r} is not a type of a signature: i32, fp16, *fp32:16, constexpr")
    result = SIGNATURE[name]
    return RuntimeParameter(PointerType(result) if kind[0] == "*" else result, int(divisible or 1))
