"""Tiles that a branch chooses: which are computed and selected without it."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.transforms.select_arms import select_arms
from tileir.ir import Function
from tileir.textual import parse

HEAD = """tir 1.0

define kernel void @f(i32* %x, i32* %y, i32 %c) {
entry:
  %i = make_range i32<64>
  %xs = splat i32*<64> %x
  %p = getelementptr i32*<64> %xs, %i
  %v = load i32<64> %p
  %more, _ = icmp (i1, i1) %c, 0 {predicate = sgt}
"""
TAIL = """
  %u = load i32<64> %p
  %sum = add i32<64> %u, %w
  %ys = splat i32*<64> %y
  %q = getelementptr i32*<64> %ys, %i
  store %q, %sum
  ret
}
"""


def triangle(*ops: str, last: str = "%a", kind: str = "i32<64>", reversed_: bool = False) -> str:
    """A block with `ops` that one side of the branch executes. Its result is `last`, or %v."""
    sides = ("join", "then") if reversed_ else ("then", "join")
    body = "\n".join(f"  {op}" for op in ops)
    return (
        f"{HEAD}  cond_br %more, {', '.join(sides)}\nthen:\n{body}\n  br join\njoin:\n"
        f"  %w = phi {kind} [%v, entry], [{last}, then]\n{TAIL}"
    )


def diamond(then: str, otherwise: str) -> str:
    return (
        f"{HEAD}  cond_br %more, then, otherwise\nthen:\n  %a = {then}\n  br join\notherwise:\n"
        f"  %b = {otherwise}\n  br join\njoin:\n"
        f"  %w = phi i32<64> [%a, then], [%b, otherwise]\n{TAIL}"
    )


SELECTED = {
    "one op": triangle("%a = add i32<64> %v, 1"),
    "otherwise": triangle("%a = add i32<64> %v, 1", reversed_=True),
    "a scalar": triangle(
        "%two = mul i32 %c, 2", "%s = splat i32<64> %two", "%t = mul i32<64> %v, %s",
        "%a = add i32<64> %t, 1",
    ),
    "both sides": diamond("and i32<64> %v, 15", "lshr i32<64> %v, 4"),
}  # fmt: skip
KEPT = {
    "three ops": triangle(
        "%s = add i32<64> %v, 1", "%t = mul i32<64> %s, %s", "%a = add i32<64> %t, 2"
    ),
    "a load": triangle("%a = load i32<64> %p"),
    "a store": triangle("%a = add i32<64> %v, 1", "store %p, %a"),
    "a division that may trap": triangle("%a = sdiv i32<64> %v, %v"),
    "a sum of elements": triangle(
        "%s = reduce i32 %v {axis = 0, combiner = add}", "%a = splat i32<64> %s"
    ),
    "a function": triangle(
        "%s = sitofp f32<64> %v", "%t = exp f32<64> %s", "%a = fptosi i32<64> %t"
    ),
}


def function(text: str) -> Function:
    return parse(text).kernel()


@pytest.mark.parametrize("name", SELECTED)
def test_results_of_few_ops_are_selected(name: str) -> None:
    selected = select_arms(function(SELECTED[name]))
    assert len(selected.blocks) == 1
    assert sum(op.mnemonic == "select" for op in selected.ops) == 1


@pytest.mark.parametrize("name", KEPT)
def test_others_stay_in_a_branch(name: str) -> None:
    kept = function(KEPT[name])
    assert select_arms(kept) is kept


def test_numbers_stay_in_a_branch() -> None:
    """LLVM selects these."""
    text = f"""{HEAD}  cond_br %more, then, join
then:
  %a = add i32 %c, 1
  br join
join:
  %s = phi i32 [%c, entry], [%a, then]
  %w = splat i32<64> %s
{TAIL}"""
    kept = function(text)
    assert select_arms(kept) is kept


def test_a_block_that_others_reach_stays() -> None:
    text = f"""{HEAD}  %less, _ = icmp (i1, i1) %c, -5 {{predicate = slt}}
  cond_br %less, then, between
between:
  cond_br %more, then, join
then:
  %a = add i32<64> %v, 1
  br join
join:
  %w = phi i32<64> [%v, between], [%a, then]
{TAIL}"""
    kept = function(text)
    assert select_arms(kept) is kept


@pytest.mark.parametrize("name", SELECTED)
@pytest.mark.parametrize("c", [-3, 0, 1, 7])
def test_results_are_the_same(name: str, c: int) -> None:
    module = parse(SELECTED[name])
    results = []
    for kernel in (module, module.with_functions({"f": select_arms(module.kernel())})):
        y = np.zeros(64, np.int32)
        x = np.arange(100, 164, dtype=np.int32)
        tileir.interpret(kernel, "f", (1,), {"x": x, "y": y, "c": c})
        results.append(y)
    np.testing.assert_array_equal(*results)


def test_loads_after_it_are_issued_before_its_operand_arrives() -> None:
    """Nothing ends the block. LLVM keeps a branch around the ops of many elements."""
    text = SELECTED["one op"].replace("<64>", "<1024>")
    assert "bra" not in compile_kernel(parse(text), "sm_90", Options(num_warps=1)).ptx


def test_next_to_dots_the_branch_stays() -> None:
    """Accumulators take the registers, and loops of dots execute few arms."""
    text = KEPT["a load"].replace("%a = load i32<64> %p", "%a = add i32<64> %v, 1")
    dot = """  %row = make_range i32<16>
  %a0 = expand_dims i32<16, 1> %row {axis = 1}
  %a1 = broadcast i32<16, 16> %a0
  %a2 = sitofp f16<16, 16> %a1
  %d = dot f32<16, 16> %a2, %a2, 0.0
  %total = reduce f32<16> %d {axis = 0, combiner = fadd}
  %all = reduce f32 %total {axis = 0, combiner = fadd}
  %whole = fptosi i32 %all
  %more, _ = icmp (i1, i1) %c, %whole {predicate = sgt}
"""
    start = text.index("  %more, _")
    text = (text[:start] + dot + text[text.index("  cond_br") :]).replace("<64>", "<1024>")
    assert "bra" in compile_kernel(parse(text), "sm_90", Options(num_warps=1)).ptx
