"""What modules, blocks and globals are where nothing else is said."""

from __future__ import annotations

import copy

import pytest

from tileir.ir import Block, Global, Module
from tileir.textual import parse, print_module
from tileir.types import F32

HEAD = "tir 1.0\n\n"


def kernels(*names: str) -> Module:
    bodies = "\n".join(f"define kernel void @{name}() {{\nentry:\n  ret\n}}\n" for name in names)
    return parse(f"{HEAD}{bodies}\ndefine void @device() {{\nentry:\n  ret\n}}\n")


@pytest.mark.parametrize(
    ("names", "expected", "message"),
    [
        ((), None, "no kernel; there are: none"),
        ((), "a", "no kernel a; there are: none"),
        (("a", "b"), None, "several kernels, name one of: a, b"),
        (("a", "b"), "c", "no kernel c; there are: a, b"),
        (("a",), "device", "no kernel device; there are: a"),
    ],
)
def test_the_kernels_that_there_are_are_named(
    names: tuple[str, ...], expected: str | None, message: str
) -> None:
    with pytest.raises(KeyError, match=message):
        kernels(*names).kernel(expected)
    for name in names:
        assert kernels(*names).kernel(name).name == name


def test_blocks_are_what_they_are_and_not_what_they_hold() -> None:
    block = kernels("k").kernel().entry
    twin = Block(block.label, block.parameters, block.ops, block.comments, block.location)
    assert twin != block and copy.copy(block) != block
    assert len({block, twin}) == 2


def test_a_global_says_no_more_than_its_type() -> None:
    variable = Global("x", F32, 4)
    assert print_module(Module({}, {"x": variable})) == f"{HEAD}global f32<4> @x\n"
    assert (variable.alignment, variable.constant, variable.external, variable.initial) == (
        0,
        False,
        False,
        None,
    )
