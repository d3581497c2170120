"""Scans by a function under a predicate: a flag says which elements count, and the combiner leaves
out those that do not."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.backend.transforms.op_builder import OpBuilder
from tileir.ir import Block, Function, Module, Parameter
from tileir.op import Op
from tileir.ops.arith import And, Or
from tileir.ops.compare import Select
from tileir.ops.control import Call, Return
from tileir.ops.reduce import Scan
from tileir.types import I1, element_of, shape_of
from tileir.values import Operand, Value


def expand_scans(module: Module, kernel: str) -> Module:
    """`module` without scans by a function under a predicate in `kernel`."""
    made: dict[str, Function] = {}
    function = module.functions[kernel]
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks[label] = block
        if any(map(_is_guarded, block.ops)):
            parts = [_flagged(op, module, made) if _is_guarded(op) else [op] for op in block.ops]
            blocks[label] = attrs.evolve(block, ops=[op for part in parts for op in part])
    if not made:
        return module
    changed = function.with_blocks(blocks)
    return module.with_functions({**module.functions, kernel: changed, **made})


def _is_guarded(op: Any) -> bool:
    return op.mnemonic == "scan" and op.predicate is not None and isinstance(op.combiner, str)


def _flagged(op: Any, module: Module, made: dict[str, Function]) -> list[Op]:
    name = f"{op.combiner}.where"
    if name not in made:
        made[name] = _where(module.functions[op.combiner], name)
    make = OpBuilder(op)
    shape = shape_of(op.values[0].type)
    flag = op.predicate
    if not shape_of(flag.type):
        flag = make.spread(flag, shape)
    found = Scan((*op.values, flag), axis=op.axis, combiner=name, reverse=op.reverse)
    results = (*op.results, found.results[-1])
    make.ops.append(attrs.evolve(found, results=results, location=op.location))
    return make.ops


def _where(combiner: Function, name: str) -> Function:
    """The combiner of pairs of values and a flag."""
    count = len(combiner.parameters) // 2
    kinds = [element_of(p.type) for p in combiner.parameters[:count]]
    low = [Value(k) for k in (*kinds, I1)]
    high = [Value(k) for k in (*kinds, I1)]
    call = Call(tuple(kinds), combiner.name, (*low[:count], *high[:count]))
    both = And(low[-1], high[-1])
    ops: list[Op] = [call, both]
    found: list[Operand] = []
    for a, b, combined in zip(low, high, call.results, strict=False):
        one = Select(high[-1], b, a)
        ops += [one, Select(both.result, combined, one.result)]
        found.append(ops[-1].result)
    either = Or(low[-1], high[-1])
    ops += [either, Return((*found, either.result))]
    parameters = [Parameter(v) for v in (*low, *high)]
    block = Block("entry", ops=ops)
    return Function(name, parameters, (*kinds, I1), {"entry": block})
