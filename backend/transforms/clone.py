"""Deep copies of functions."""

from __future__ import annotations

from tileir.analysis.cfg import cfg
from tileir.ir import Block, Function, Parameter
from tileir.passes.cfg_edit import copy_op, fresh
from tileir.values import Operand, Value


def clone(function: Function) -> Function:
    """A copy of `function` with fresh values; blocks that no path reaches are dropped."""
    env: dict[Value, Operand] = {}
    parameters = tuple(
        Parameter(_fresh_value(p.value, env), p.attributes) for p in function.parameters
    )
    heads = {
        label: tuple([_fresh_value(v, env) for v in block.parameters])
        for label, block in function.blocks.items()
    }
    copies = {
        label: Block(label, heads[label], [copy_op(op, env) for op in function.blocks[label].ops])
        for label in cfg(function).order
    }
    return function.evolve(
        parameters=parameters, blocks={n: copies[n] for n in function.blocks if n in copies}
    )


def _fresh_value(value: Value, env: dict[Value, Operand]) -> Value:
    env[value] = copy = fresh(value)
    return copy
