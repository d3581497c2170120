"""Replacement of ops by a conversion of one of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tileir.ir import Module
from tileir.op import Op
from tileir.ops.cast import Bitcast, SIToFP, Trunc, ZExt
from tileir.testing.reduction.edit import Place, op_places, substitute, with_functions, zero
from tileir.types import Scalar, Type, element_of, shape_of
from tileir.values import Operand, Value

CASTS = ("bitcast", "zext", "sext", "trunc", "sitofp", "uitofp", "fptosi", "fptoui")


def convertible(module: Module) -> list[Place]:
    """The ops with an operand that a cast can convert to the type of their first result."""
    return [place for place, op in op_places(module) if _conversion(op) is not None][::-1]


def convert_ops(module: Module, places: Sequence[Place]) -> Module:
    """`module` with each of the ops at `places` replaced by a cast."""
    expected = set(places)
    changed = dict(module.functions)
    for name in dict.fromkeys(place[0] for place in places):
        function = module.functions[name]
        env: dict[Value, Operand] = {}
        blocks = dict(function.blocks)
        for label, block in blocks.items():
            ops = list(block.ops)
            for index, op in enumerate(ops):
                cast = _conversion(op) if (name, label, index) in expected else None
                if cast is not None:
                    ops[index] = cast
                    env.update((v, zero(v.type)) for v in op.results[1:])
            blocks[label] = attrs.evolve(block, ops=ops)
        changed[name] = substitute(function.with_blocks(blocks), env)
    return with_functions(module, changed)


def _conversion(op: Op) -> Op | None:
    """A cast of one operand of `op` that defines its first result."""
    if not op.results or op.mnemonic in CASTS:
        return None
    result = op.results[0]
    for operand in op.inputs:
        if type(operand) is Value and operand.type is not result.type:
            cast = _cast(operand.type, result.type)
            if cast is not None:
                return cast(operand, result.type, results=(result,))
    return None


def _cast(actual: Type, expected: Type) -> Any:
    source, target = element_of(actual), element_of(expected)
    if not isinstance(source, Scalar) or not isinstance(target, Scalar):
        return None
    if shape_of(actual) != shape_of(expected):
        return None
    if source.bits == target.bits:
        return Bitcast
    if source.is_float:
        return None
    if target.is_float:
        return SIToFP
    return ZExt if source.bits < target.bits else Trunc
