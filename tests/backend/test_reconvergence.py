"""Lanes leave a loop of compare-and-swap in different iterations. They reconverge after the op."""

from __future__ import annotations

import re

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.machine import SimtThread
from tileir.backend.target import TARGETS
from tileir.textual import parse

LOOPS = {"fmax": ("f32", "f16", "bf16", "f64"), "fmin": ("f32", "f64"), "xchg": ("f16", "bf16")}
"""Operations that no instruction makes, with types of their elements."""
NATIVE = {"add": ("i32", "i64"), "fadd": ("f32", "f16"), "xchg": ("f32", "i32"), "smax": ("i32",)}
KINDS = [(name, element) for name, elements in LOOPS.items() for element in elements]


def kernel(name: str, element: str, count: int) -> str:
    """An atomic op on a tile of `count` elements, a scalar if that is 0, and then a scan."""
    access = f"  %old = atomic_rmw {element} %p, %n {{op = {name}}}\n"
    if count:
        access = f"""\
  %i = make_range i32<{count}>
  %s = splat {element}*<{count}> %p
  %q = getelementptr {element}*<{count}> %s, %i
  %v = splat {element}<{count}> %n
  %old = atomic_rmw {element}<{count}> %q, %v {{op = {name}}}
"""
    return f"""\
tir 1.0

define kernel void @k({element}* %p, {element} %n, i32* %x) {{
entry:
{access}  %j = make_range i32<64>
  %sx = splat i32*<64> %x
  %px = getelementptr i32*<64> %sx, %j
  %in = load i32<64> %px
  %sum = scan i32<64> %in {{combiner = add}}
  store %px, %sum
  ret
}}
"""


def collectives(name: str, element: str, count: int, target: str) -> list[str]:
    """The collective instructions of lanes and the compare-and-swaps, in their order in PTX."""
    module = parse(kernel(name, element, count))
    compiled = compile_kernel(module, target, {"num_warps": 4})
    return re.findall(r"bar\.warp\.sync|bar\.sync|shfl\.sync|\.cas\.", compiled.ptx)


@pytest.mark.parametrize("count", [0, 7, 64, 512])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("name", "element"), KINDS)
def test_lanes_reconverge_after_the_loops_of_an_op(name, element, target, count):
    order = collectives(name, element, count, target)
    last = len(order) - 1 - order[::-1].index(".cas.")
    assert order[last + 1] == "bar.warp.sync"
    assert "shfl.sync" in order[last + 2 :]
    first = order.index(".cas.")
    assert set(order[first : last + 1]) == {".cas."}


@pytest.mark.parametrize("count", [0, 64])
@pytest.mark.parametrize(
    ("name", "element"), [(name, e) for name, elements in NATIVE.items() for e in elements]
)
def test_an_instruction_needs_no_reconvergence(name, element, count):
    order = collectives(name, element, count, "sm_90")
    assert "bar.warp.sync" not in order
    assert ".cas." not in order


def test_bf16_sums_are_loops_of_older_processors():
    assert not TARGETS["sm_80"].bf16_atomics
    assert "bar.warp.sync" in collectives("fadd", "bf16", 63, "sm_80")
    assert "bar.warp.sync" not in collectives("fadd", "bf16", 63, "sm_90")


@pytest.mark.parametrize("count", [0, 7])
def test_the_simulator_detects_lanes_that_have_not_reconverged(count, monkeypatch):
    import numpy as np

    module = parse(kernel("fmax", "f32", count))

    def launch() -> dict[str, object]:
        values = {"p": np.zeros(8, np.float32), "n": 1.0, "x": np.ones(64, np.int32)}
        SimtExecutor().launch(module, None, 1, values, num_warps=2)
        return values

    assert np.array_equal(launch()["x"], np.arange(1, 65))
    monkeypatch.setattr(SimtThread, "reconverge", lambda self: None)
    with pytest.raises(AssertionError, match="have not reconverged"):
        launch()
