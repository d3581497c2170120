"""Liveness against its definition, by paths, on random programs."""

from __future__ import annotations

from tests.analysis.index_programs import program
from tests.sizes import for_each
from tileir.analysis.liveness import liveness
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.ir import Block, Function
from tileir.values import Value


def reads_first(block: Block, value: Value) -> bool:
    """Whether `block` reads `value` before defining it; a value is defined once."""
    return any(value in op.operands for op in block.ops)


def alive_on_entry(function: Function, label: str, value: Value) -> bool:
    """Whether a path from the head of `label` reads `value` without passing its definition."""
    block = defining_blocks(function)[value]
    parameter = any(p.value is value for p in function.parameters)
    seen, stack = {label}, [label]
    while stack:
        here = stack.pop()
        if here == block and not (parameter and here == function.entry.label):
            continue
        if reads_first(function.blocks[here], value):
            return True
        for edge in function.blocks[here].successors:
            if edge.label not in seen:
                seen.add(edge.label)
                stack.append(edge.label)
    return False


@for_each("seed", range(60))
def test_liveness_is_what_its_definition_says(seed: int) -> None:
    function = program(seed)
    facts, values = liveness(function), defining_blocks(function)
    for label, block in function.blocks.items():
        expected = {v for v in values if alive_on_entry(function, label, v)}
        assert facts.entering[label] == expected
        after = {v for e in block.successors for v in facts.entering[e.label]}
        assert facts.leaving[label] == after
        dying = facts.last_uses(block)
        for index, op in enumerate(block.ops):
            later = {v for o in block.ops[index + 1 :] for v in o.operands} | after
            read = {v for v in op.operands if isinstance(v, Value)}
            assert set(dying[index]) == read - later


@for_each("seed", range(0, 60, 7))
def test_uses_and_definitions_agree_with_a_count(seed: int) -> None:
    function = program(seed)
    result, origin = uses(function), definitions(function)
    for op in function.ops:
        assert all(origin[v] is op for v in op.results)
        for operand in op.operands:
            if isinstance(operand, Value):
                assert result[operand].count(op) == op.operands.count(operand)
    assert sum(map(len, result.values())) == sum(
        isinstance(v, Value) for op in function.ops for v in op.operands
    )
