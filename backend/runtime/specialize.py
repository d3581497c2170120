"""Specialization of a kernel to facts about its arguments: addresses and integers divisible by 16,
and integers equal to 1. The result is a module, which can be printed.

    @k(f32* %x, i32 %n, i32 %stride)   with x at 0x7f00, n = 4096, stride = 1
    @k(f32* aligned(16) %x, i32 multiple_of(16) %n, i32 %stride), every %stride in it a literal 1
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from tileir.ir import Function, Module, Parameter
from tileir.rewrite import rewrite
from tileir.types import Pointer, Scalar
from tileir.values import Operand, Value, constant

DIVISOR = 16
"""The divisor of addresses (in bytes) and integers that specialization tests."""


class ArgumentFact(Enum):
    """The facts about an argument: the alignment of an address or integer, or that an integer is
    1."""

    DIVISIBLE = "multiple of 16"
    ONE = "1"


def fact_of(parameter: Parameter, number: int) -> ArgumentFact | None:
    """The facts about `number`, which is the integer or the address passed for `parameter`."""
    if isinstance(parameter.type, Pointer):
        return ArgumentFact.DIVISIBLE if number % DIVISOR == 0 else None
    if not isinstance(parameter.type, Scalar) or not parameter.type.is_integer:
        return None
    if number == 1 and parameter.type.bits > 1:
        return ArgumentFact.ONE
    return ArgumentFact.DIVISIBLE if number and number % DIVISOR == 0 else None


def specialize(module: Module, kernel: str, facts: Mapping[str, ArgumentFact]) -> Module:
    """Specialize `module`: add `facts` about the parameters of `kernel`, by name, or by number for
    parameters without a name.

    Returns the module itself if the facts are not new. Parameters stay, even those that equal 1.
    """
    function = module.functions[kernel]
    by_name = {p.name or str(i): p for i, p in enumerate(function.parameters)}
    ones = {by_name[n].value for n, fact in facts.items() if fact is ArgumentFact.ONE}
    parameters = tuple(_with_promise(p, facts.get(name)) for name, p in by_name.items())
    changed = _with_ones(function, ones)
    if parameters == function.parameters and changed is function:
        return module
    changed = changed.evolve(parameters=parameters)
    return module.with_functions({**module.functions, kernel: changed})


def _with_promise(parameter: Parameter, fact: ArgumentFact | None) -> Parameter:
    if fact is not ArgumentFact.DIVISIBLE:
        return parameter
    name = "aligned" if isinstance(parameter.type, Pointer) else "multiple_of"
    stated = getattr(parameter.attributes, name)
    if stated and stated % DIVISOR == 0:
        return parameter
    promised = attrs.evolve(
        parameter.attributes, **{name: max(stated, 1) * DIVISOR // _common(stated)}
    )
    return attrs.evolve(parameter, attributes=promised)


def _common(stated: int) -> int:
    """The part of `stated` that is in `DIVISOR` too."""
    return min(DIVISOR, stated & -stated) if stated else 1


def _with_ones(function: Function, ones: set[Value]) -> Function:
    replaced: dict[Value, Operand] = {value: constant(value.type, 1) for value in ones}
    return rewrite(function, {}, replaced=replaced) if replaced else function
