"""Two blocks that do the same with other operands become one (`merge-branches`)."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_
from tileir.backend.transforms.merge_branches import merge_branches
from tileir.ir import Function, Module
from tileir.textual import parse

HEAD = """tir 1.0
define kernel void @f(f32* %x, f32* %y, f32* %z, i32 %c, i32 %n, i32 %m) {
entry:
  %i = make_range i32<64>
  %p, _ = icmp (i1, i1) %c, 0 {predicate = sgt}
"""
TAIL = """
  %zs = splat f32*<64> %z
  %q = getelementptr f32*<64> %zs, %i
  store %q, %v
  ret
}
"""


def pointers(name: str, base: str, offset: str = "%n") -> str:
    return f"""
  %{name}b = getelementptr f32* {base}, {offset}
  %{name}s = splat f32*<64> %{name}b
  %{name} = getelementptr f32*<64> %{name}s, %i
"""


OUTSIDE = f"""{HEAD}{pointers("xp", "%x")}{pointers("yp", "%y", "%m")}
  cond_br %p, then, otherwise
then:
  %a = load f32<64> %xp
  %a2 = fmul f32<64> %a, %a
  br join
otherwise:
  %b = load f32<64> %yp
  %b2 = fmul f32<64> %b, %b
  br join
join:
  %v = phi f32<64> [%a2, then], [%b2, otherwise]
{TAIL}"""
"""The addresses are computed before the branch."""

INSIDE = f"""{HEAD}
  cond_br %p, then, otherwise
then:
{pointers("xp", "%x")}
  %a = load f32<64> %xp
  store %xp, %a
  br join
otherwise:
{pointers("yp", "%y", "%m")}
  %b = load f32<64> %yp
  store %yp, %b
  br join
join:
  %v = phi f32<64> [%a, then], [%b, otherwise]
{TAIL}"""
"""The blocks compute their addresses and have effects."""

MERGED = {"outside": OUTSIDE, "inside": INSIDE}
KEPT = {
    "another op": OUTSIDE.replace("%b2 = fmul", "%b2 = fadd"),
    "another literal": OUTSIDE.replace("%a, %a", "%a, 2.0").replace("%b, %b", "%b, 3.0"),
    "another order": OUTSIDE.replace("fmul f32<64> %b, %b", "fmul f32<64> %b, 1.0"),
    "another value": OUTSIDE.replace("[%b2, otherwise]", "[%b, otherwise]"),
    "another cache": OUTSIDE.replace("load f32<64> %yp", "load f32<64> %yp {cache = cg}"),
}


def kernel(text: str) -> tuple[Module, Function]:
    module = parse(text)
    return module, module.functions["f"]


def results(module: Module, c: int) -> list[np.ndarray]:
    arrays = [np.arange(80, dtype=np.float32) + k for k in (1, 1000, 0)]
    names = dict(zip("xyz", arrays, strict=True))
    tileir.interpret(module, "f", (1,), {**names, "c": c, "n": 3, "m": 11})
    return arrays


@pytest.mark.parametrize("text", MERGED.values(), ids=MERGED)
@pytest.mark.parametrize("c", [0, 1])
def test_one_block_stands_for_both(text: str, c: int) -> None:
    module, function = kernel(text)
    merged = merge_branches(function)
    assert len(merged.blocks) == 1
    assert sum(op.mnemonic == "load" for op in merged.ops) == 1
    assert not any(op.mnemonic == "select" and "<" in str(op.result.type) for op in merged.ops)
    after = module.evolve(functions={"f": merged})
    for one, other in zip(results(module, c), results(after, c), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_blocks_that_differ_in_more_are_left(text: str) -> None:
    _, function = kernel(text)
    assert merge_branches(function) is function


def test_each_of_two_elements_of_a_thread_is_loaded_once() -> None:
    text = compile_(parse(OUTSIDE), "sm_90a", {"num_warps": 1}).ptx
    assert text.count("ld.global") == 2 and "bra" not in text


def test_buffers_are_not_selected() -> None:
    text = OUTSIDE.replace(
        "  cond_br",
        """  %one = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 1, 64]}
  %two = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 1, 64]}
  %seed = load f32 %x
  %row = splat f32<1, 64> %seed
  cond_br""",
        1,
    )
    for value, buffer in (("%a2", "%one"), ("%b2", "%two")):
        line = f"{value} = fmul f32<64> {value[:2]}, {value[:2]}"
        text = text.replace(line, f"{line}\n  gpu.local_store %row, {buffer}, 0")
    text = text.replace("tir 1.0", 'tir 1.0\nstage "pipelined"', 1)
    _, function = kernel(text)
    assert merge_branches(function) is function
    one = text.replace("%row, %two", "%row, %one")
    assert len(merge_branches(kernel(one)[1]).blocks) == 1


def test_a_value_of_one_block_is_no_operand_before_it() -> None:
    """One block adds what it loads, the other one what is known before the branch."""
    text = OUTSIDE.replace("%a2 = fmul f32<64> %a, %a", "%a2 = fmul f32<64> %a, %s")
    text = text.replace("%b2 = fmul f32<64> %b, %b", "%b2 = fmul f32<64> %b, %t")
    text = text.replace("then:\n", "then:\n  %s = load f32<64> %xp\n", 1)
    text = text.replace("otherwise:\n", "otherwise:\n  %u = load f32<64> %yp\n", 1)
    text = text.replace("  cond_br", "  %t = load f32<64> %yp\n  cond_br", 1)
    _, function = kernel(text)
    assert merge_branches(function) is function
