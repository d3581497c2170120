"""Definitions and uses of values."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.analysis import memoize
from tileir.ir import Function
from tileir.op import Op
from tileir.values import Operand, Value


@memoize
def definitions(function: Function) -> Mapping[Value, Op]:
    """The op that defines each value; parameters of functions and blocks are left out."""
    return {value: op for op in function.ops for value in op.results}


@memoize
def uses(function: Function) -> Mapping[Value, tuple[Op, ...]]:
    """The ops that read each value, in program order, once per operand that reads it.

    Arguments of an edge are read by its terminator, a predicate by its op. Values without uses are
    left out."""
    ops: dict[Value, list[Op]] = {}
    for op in function.ops:
        for operand in op.operands:
            if isinstance(operand, Value):
                ops.setdefault(operand, []).append(op)
    return {value: tuple(readers) for value, readers in ops.items()}


@memoize
def arguments(function: Function) -> Mapping[Value, tuple[Operand, ...]]:
    """The arguments that the edges pass, by block parameter."""
    operands: dict[Value, list[Operand]] = {}
    for block in function.blocks.values():
        for edge in block.successors:
            for value, argument in zip(
                function.blocks[edge.label].parameters, edge.arguments, strict=True
            ):
                operands.setdefault(value, []).append(argument)
    return {value: tuple(argument) for value, argument in operands.items()}


def passed_to(function: Function, terminator: Op, value: Operand) -> list[Value]:
    """The block parameters to which the edges of `terminator` pass `value`."""
    return [
        parameter
        for edge in terminator.successors
        for parameter, argument in zip(
            function.blocks[edge.label].parameters, edge.arguments, strict=True
        )
        if argument is value
    ]


@memoize
def defining_blocks(function: Function) -> Mapping[Value, str]:
    """Label of the block that defines each value; function parameters belong to the entry."""
    if function.is_declaration:
        return {}
    result = {p.value: function.entry.label for p in function.parameters}
    for label, block in function.blocks.items():
        result.update(dict.fromkeys(block.parameters, label))
        for op in block.ops:
            if op.results:
                result.update(dict.fromkeys(op.results, label))
    return result


def base_pointer(pointer: Operand, definitions: Mapping[Value, Op]) -> Operand:
    """The pointer, or tile of pointers, that `pointer` is an offset from: the operand at which
    the chain of `getelementptr`, moved elements and identities begins."""
    while type(pointer) is Value and (op := definitions.get(pointer)) is not None:
        offset = op.mnemonic == "getelementptr"
        if op.predicate is not None or not (offset or op.moves_elements or op.is_identity):
            break
        pointer = op.inputs[0]
    return pointer
