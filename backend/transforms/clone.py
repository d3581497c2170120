"""Functions as copies that share no values."""

from __future__ import annotations

from tileir.analysis.cfg import cfg
from tileir.ir import Block, Function, Parameter
from tileir.passes.cfg_edit import copy_op, fresh
from tileir.values import Operand, Value


def clone(function: Function) -> Function:
    """`function` with values of its own."""
    env: dict[Value, Operand] = {}
    parameters = tuple(Parameter(_renewed(p.value, env), p.attributes) for p in function.parameters)
    heads = {
        label: tuple([_renewed(v, env) for v in block.parameters])
        for label, block in function.blocks.items()
    }
    made = {
        label: Block(label, heads[label], [copy_op(op, env) for op in function.blocks[label].ops])
        for label in cfg(function).order
    }
    return function.evolve(
        parameters=parameters, blocks={n: made[n] for n in function.blocks if n in made}
    )


def _renewed(value: Value, env: dict[Value, Operand]) -> Value:
    env[value] = made = fresh(value)
    return made
