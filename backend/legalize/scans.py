"""Decomposition of predicated scans by a function: the predicate becomes a flag per element, and
the combiner skips elements whose flag is false."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.backend.transforms.op_builder import OpBuilder
from tileir.ir import Block, Function, Module, Parameter
from tileir.op import Op
from tileir.ops.arith import And, Or, Select
from tileir.ops.control import Return
from tileir.ops.reduce import Scan
from tileir.ops.symbols import Call
from tileir.types import I1, element_of, shape_of
from tileir.values import Operand, Value


def expand_scans(module: Module, kernel: str) -> Module:
    """`module` with the predicated scans by a function in `kernel` decomposed."""
    combiners: dict[str, Function] = {}
    function = module.functions[kernel]
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks[label] = block
        if any(map(_is_guarded, block.ops)):
            parts = [
                _expand_scan(op, module, combiners) if _is_guarded(op) else [op] for op in block.ops
            ]
            blocks[label] = attrs.evolve(block, ops=[op for part in parts for op in part])
    if not combiners:
        return module
    changed = function.with_blocks(blocks)
    return module.with_functions({**module.functions, kernel: changed, **combiners})


def _is_guarded(op: Any) -> bool:
    return op.mnemonic == "scan" and op.predicate is not None and isinstance(op.combiner, str)


def _expand_scan(op: Any, module: Module, combiners: dict[str, Function]) -> list[Op]:
    name = f"{op.combiner}.where"
    if name not in combiners:
        combiners[name] = _guarded_combiner(module.functions[op.combiner], name)
    builder = OpBuilder(op)
    shape = shape_of(op.values[0].type)
    flag = op.predicate
    if not shape_of(flag.type):
        flag = builder.splat(flag, shape)
    scan = Scan((*op.values, flag), axis=op.axis, combiner=name, reverse=op.reverse)
    results = (*op.results, scan.results[-1])
    builder.ops.append(attrs.evolve(scan, results=results, location=op.location))
    return builder.ops


def _guarded_combiner(combiner: Function, name: str) -> Function:
    """The combiner of values with flags, which skips values whose flag is false."""
    count = len(combiner.parameters) // 2
    kinds = [element_of(p.type) for p in combiner.parameters[:count]]
    low = [Value(k) for k in (*kinds, I1)]
    high = [Value(k) for k in (*kinds, I1)]
    call = Call(tuple(kinds), combiner.name, (*low[:count], *high[:count]))
    are_present = And(low[-1], high[-1])
    ops: list[Op] = [call, are_present]
    results: list[Operand] = []
    for a, b, combined in zip(low, high, call.results, strict=False):
        select = Select(high[-1], b, a)
        ops += [select, Select(are_present.result, combined, select.result)]
        results.append(ops[-1].result)
    either = Or(low[-1], high[-1])
    ops += [either, Return((*results, either.result))]
    parameters = [Parameter(v) for v in (*low, *high)]
    block = Block("entry", ops=ops)
    return Function(name, parameters, (*kinds, I1), {"entry": block})
