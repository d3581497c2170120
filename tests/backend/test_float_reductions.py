"""Reductions of floats on threads, exactly as in the interpreter: extremes of what was extended,
and additions of what was multiplied, over padding and predicates."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import interpret
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.emit.reduction import Item, _chains, tree
from tileir.backend.executors import SimtExecutor
from tileir.ops.floats import FastMath
from tileir.textual import parse

EXTREMES = ("fminnum", "fmaxnum", "fminimum", "fmaximum")
SHAPES = (((100,), 0), ((448,), 0), ((3, 40), 1), ((40, 3), 0), ((33, 64), 0), ((6, 5, 24), 1))


def program(
    element: str, shape: tuple[int, ...], axis: int, combiner: str, at: str, warps: int
) -> str:
    """Reduce what was loaded as `element` and extended, or multiplied by itself."""
    kind, rest = (", ".join(map(str, s)) for s in (shape, shape[:axis] + shape[axis + 1 :]))
    count = int(np.prod(shape))
    many = f"<{rest}>" if rest else ""
    left = count // shape[axis]
    changed = f"fpext f32<{kind}> %v"
    if combiner == "fadd":
        changed = f"fmul f32<{kind}> %e, %e {{fast = contract}}"
    return f"""tir 1.0
define kernel void @k({element}* %x, f32* %y, i32 %n) {{num_warps = {warps}}} {{
entry:
  %i = make_range i32<{count}>
  %xs = splat {element}*<{count}> %x
  %p = getelementptr {element}*<{count}> %xs, %i
  %l = load {element}<{count}> %p
  %v = reshape {element}<{kind}> %l
  %e = fpext f32<{kind}> %v
  %w = {changed}
  %j = reshape i32<{kind}> %i
  %some = urem i32<{kind}> %j, 7
  %ns = splat i32<{kind}> %n
  %h, _ = icmp (i1<{kind}>, i1<{kind}>) %some, %ns {{predicate = ne}}
  {at}%r = reduce f32{many} %w {{axis = {axis}, combiner = {combiner}}}
  %o = make_range i32<{left}>
  %f = {f"reshape f32<{left}> %r" if rest else "splat f32<1> %r"}
  %ys = splat f32*<{left}> %y
  %q = getelementptr f32*<{left}> %ys, %o
  store %q, %f
  ret
}}
"""


@pytest.mark.parametrize("combiner", (*EXTREMES, "fadd"))
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.sampled(5)
def test_extended_and_multiplied_floats(element: str, combiner: str) -> None:
    kind = np.dtype(np.float16)
    if element == "bf16":
        kind = pytest.importorskip("ml_dtypes").bfloat16
    for number, (shape, axis) in enumerate(SHAPES):
        warps, at = (1, 4, 8)[number % 3], ("", "@%h ")[number // 3 % 2]
        module = parse(program(element, shape, axis, combiner, at, warps))
        x = np.random.default_rng(number).integers(-9, 10, shape).astype(kind)
        x = -np.abs(x) if "max" in combiner else np.abs(x) if "min" in combiner else x
        results = []
        for launch in (interpret, SimtExecutor().launch):
            y = np.full(x.size // shape[axis], 77, np.float32)
            launch(module, "k", 1, [x.reshape(-1), y, number % 3])
            results.append(y)
        np.testing.assert_array_equal(results[0], results[1], f"{shape} {axis}")


@for_each(("fast", "combiner", "op"), [
        *((fast, "fadd", "fmul") for fast in FastMath), (FastMath.CONTRACT, "fmul", "fmul"),
        (FastMath.FAST, "fmaxnum", "fmul"), (FastMath.FAST, "fadd", "fsub"),
    ])  # fmt: skip
def test_chains_are_of_additions_that_fuse(fast: FastMath, combiner: str, op: str) -> None:
    """Of multiplied numbers, where fusion is allowed."""
    text = program("f16", (448,), 0, "fadd", "", 4).replace("fmul f32<448>", f"{op} f32<448>")
    text = text.replace("fast = contract", f"fast = {fast.value}")
    text = text.replace("combiner = fadd", f"combiner = {combiner}")
    with mock.patch("tileir.backend.codegen.emit.reduction._chains", wraps=_chains) as chains:
        compile_kernel(parse(text), "sm_90")
    can_fuse = fast in (FastMath.CONTRACT, FastMath.FAST) and (combiner, op) == ("fadd", "fmul")
    assert chains.called == can_fuse


@for_each("count", range(1, 65))
def test_every_item_is_joined_once(count: int) -> None:
    """By a tree in order, by chains in any order."""
    items = [(str(n),) for n in range(count)]

    def join(a: Item, b: Item) -> Item:
        return (*a, *b)

    assert tree(items, join) == tuple(map(str, range(count)))
    for groups in (1, 3, 16):
        assert sorted(_chains(items, join, groups), key=int) == list(map(str, range(count)))


def test_each_chain_but_the_first_costs_an_instruction() -> None:
    """A thread with one result has eight chains, one with many results has one chain for each."""

    def join(a: Item, b: Item) -> Item:
        return (max(a[0], b[0]) + "+",)

    def depth(groups: int) -> int:
        return len(_chains([("",)] * 64, join, groups)[0])

    assert [depth(groups) for groups in (1, 2, 8, 100)] == [7 + 3, 15 + 2, 63, 63]
