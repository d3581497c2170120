"""Instances with unequal work along the first axis: in which order blocks loop over them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tileir import interpret
from tileir.backend.warp_specialize.persistent import make_persistent
from tileir.backend.warp_specialize.unequal_instances import work_along_first_axis
from tileir.ir import Module
from tileir.textual import parse

KERNEL = """tir 1.0

define kernel void @k(i32* %out, i32 %n) {
entry:
  %x = program_id i32
  %y = program_id i32 {axis = 1}
  %z = program_id i32 {axis = 2}
  %gx = num_programs i32
  %gy = num_programs i32 {axis = 1}
  %zy = mul i32 %z, %gy
  %other = add i32 %zy, %y
  %row = mul i32 %other, %gx
  %at = add i32 %row, %x
  %more = add i32 %x, 4
  br loop
loop:
  %i = phi i32 [START, entry], [%next, body]
  %test, _ = icmp (i1, i1) %i, END {predicate = slt}
  cond_br %test, body, done
body:
  %next = add i32 %i, 1
  br loop
done:
  %p = getelementptr i32* %out, %at
  %old = atomic_rmw i32 %p, 77 {op = add}
  ret
}
"""


def kernel(start: str, end: str) -> Module:
    """A kernel whose loop counts from `start` to `end`. It adds 77 to the word of its instance."""
    return parse(KERNEL.replace("START", start).replace("END", end))


def blocks_of(module: Module, grid: tuple[int, int, int], blocks: int) -> Any:
    """The number of the block that computes each instance, by z, y and x."""
    persistent = module.evolve(functions={"k": make_persistent(module.functions["k"])})
    block = re.search(r"(%\S+) = program_id i32", text := str(persistent))
    assert block is not None
    marked = parse(text.replace(" 77 ", f" {block[1]} "))
    assert str(marked) != text
    out = np.full(grid[::-1], 1000, np.int32)
    interpret(marked, "k", (blocks,), [out, 20, *grid])
    return out - 1000


def longest(owners: Any, work: Any) -> int:
    """The iterations of the block that has the most."""
    return int(np.bincount(owners.ravel(), np.broadcast_to(work, owners.shape).ravel()).max())


@pytest.mark.parametrize(
    ("start", "end", "sign"),
    [
        ("0", "%x", 1), ("0", "%more", 1), ("%x", "%n", -1), ("%x", "%more", 0), ("0", "%n", 0),
        ("0", "%y", 0), ("%z", "%n", 0),
    ],
)  # fmt: skip
def test_where_work_differs_along_the_first_axis(start: str, end: str, sign: int) -> None:
    """Not where both ends move, nor where another axis decides them."""
    assert work_along_first_axis(kernel(start, end).functions["k"]) == sign


@pytest.mark.parametrize(("start", "end"), [("0", "%x"), ("%x", "%n"), ("0", "%n")])
@pytest.mark.parametrize(
    ("grid", "blocks"),
    [
        ((5, 2, 1), 9), ((5, 2, 1), 8), ((5, 2, 1), 7), ((4, 3, 2), 24), ((7, 1, 1), 4),
        ((1, 1, 1), 4),
    ],
)  # fmt: skip
def test_each_instance_is_computed_once(
    start: str, end: str, grid: tuple[int, int, int], blocks: int
) -> None:
    """With few other indices, a fourth of the blocks or less, and with more."""
    module = kernel(start, end)
    persistent = module.evolve(functions={"k": make_persistent(module.functions["k"])})
    out = np.zeros(grid[::-1], np.int32)
    interpret(persistent, "k", (blocks,), [out, 20, *grid])
    np.testing.assert_array_equal(out, 77)


@pytest.mark.parametrize(("start", "end", "work"), [
    ("0", "%x", np.arange(16)), ("%x", "%n", 20 - np.arange(16)),
])  # fmt: skip
def test_blocks_have_equal_work(start: str, end: str, work: Any) -> None:
    """Numbered along the first axis, 16 x 16 instances of 132 blocks take half as long again."""
    owners = blocks_of(kernel(start, end), (16, 16, 1), 132)
    assert owners.min() == 0 and owners.max() == 131
    assert longest(owners, work) <= work.sum() * 16 / 132 * 1.15
    along = blocks_of(kernel("0", "%n"), (16, 16, 1), 132)
    assert longest(along, work) > longest(owners, work) * 1.2


def test_instances_of_many_other_indices_keep_their_numbers() -> None:
    """Few blocks would read the same matrices at once."""
    grid, blocks = (16, 34, 1), 132
    same = blocks_of(kernel("0", "%n"), grid, blocks)
    np.testing.assert_array_equal(blocks_of(kernel("0", "%x"), grid, blocks), same)
    fewer = (16, 33, 1)
    same = blocks_of(kernel("0", "%n"), fewer, blocks)
    assert (blocks_of(kernel("0", "%x"), fewer, blocks) != same).any()
