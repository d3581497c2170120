"""Printing and reading generated modules gives the same program, and the same text."""

import attrs
import pytest

from tileir.compare import structurally_equal
from tileir.ops.arith import Add, Sub
from tileir.testing import sample
from tileir.textual import parse, print_module

BATCH = 50


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", range(40))
def test_generated_modules_round_trip(batch):
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        module = sample(seed).module
        text = print_module(module)
        reparsed = parse(text)
        assert structurally_equal(module, reparsed), seed
        assert print_module(reparsed) == text, seed


def test_equality_sees_ops_operands_and_attributes():
    module = sample(1).module
    kernel = module.functions["generated"]
    block = kernel.blocks["entry"]
    index, add = next((i, op) for i, op in enumerate(block.ops) if type(op) is Add)
    changes = [
        Sub(add.lhs, add.rhs, results=add.results),
        Add(add.rhs, add.lhs, results=add.results),
        attrs.evolve(add, overflow=type(add.overflow).NSW),
    ]
    assert structurally_equal(module, module)
    for change in changes:
        ops = (*block.ops[:index], change, *block.ops[index + 1 :])
        blocks = {**kernel.blocks, "entry": attrs.evolve(block, ops=ops)}
        other = module.with_functions({**module.functions, "generated": kernel.with_blocks(blocks)})
        assert not structurally_equal(module, other)
