"""Operands that no loop around a pipelined one changes are stored to shared memory once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.analysis.loops import loops
from tileir.backend import compile as compile_kernel
from tileir.backend.software_pipeline.store_once import store_once
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ops.gpu import LocalStore
from tileir.ops.hopper import AsyncFence
from tileir.textual import parse

SIZE = 64


def gradients(scaled: bool = False, width: int = SIZE) -> Any:
    """The gradients of keys and values from `heads` heads of `blocks` blocks of queries each, with
    weights s in place of exp(s), for vectors of `width` elements. Where `scaled`, a head scales the
    keys."""
    b = Builder()
    tiles = {name: arg(pointer(F16), aligned=16) for name in "kvqg"}
    sums = {"dk": pointer(F32), "dv": pointer(F32)}
    with b.kernel("k", **tiles, **sums, heads=I32, blocks=arg(I32)) as (
        k, v, q, g, dk, dv, heads, blocks,
    ):  # fmt: skip
        at = b.arange(SIZE)[:, None] * width + b.arange(width)[None, :]
        keys, values = (k + at).load(), (v + at).load()
        zero, none = b.full((SIZE, SIZE), 0.0, F32), b.full((SIZE, width), 0.0, F32)
        of_keys, of_values = b.var(none), b.var(none)
        with b.for_(0, heads) as head:
            right = (keys.to(F32) * head.to(F32)).to(F16) if scaled else keys
            with b.for_(0, blocks, stages=2) as i:
                moved = at + (head * blocks + i) * (SIZE * width)
                queries, outer = (q + moved).load(), (g + moved).load()
                weights = b.dot(right, b.trans(queries, order=(1, 0)), zero)
                of_values.set(b.dot(weights.to(F16), outer, of_values.get()))
                more = b.dot(values, b.trans(outer, order=(1, 0)), zero)
                of_keys.set(b.dot((weights + more).to(F16), queries, of_keys.get()))
        (dk + at).store(of_keys.get())
        (dv + at).store(of_values.get())
    return b.module()


def compile_pipelined(module: Any, target: str = "sm_90a") -> Any:
    options = {"num_warps": 4, "warp_specialize": False}
    return compile_kernel(module, target, options).tir_at("pipelined").functions["k"]


NESTED = """tir 1.0
stage "pipelined"

define private void @k(f16<64, 64> %x, f16<64, 64> %y, i32 %n, f16*<64, 64> %p) {
entry:
  br outer
outer:
  %i = phi i32 [0, entry], [%more, last]
  %test, _ = icmp (i1, i1) %i, %n {predicate = slt}
  cond_br %test, before, done
before:
  %b = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 64, 64]}
  gpu.local_store %x, %b, 0
  br inner
inner:
  %j = phi i32 [0, before], [%next, inner]
  gpu.barrier
  %v = gpu.local_load f16<64, 64> %b, 0
  store %p, %v
  %next = add i32 %j, 1
  %again, _ = icmp (i1, i1) %next, %n {predicate = slt}
  cond_br %again, inner, last
last:
  %more = add i32 %i, 1
  br outer
done:
  ret
}
"""


@pytest.mark.parametrize(
    ("old", "new", "most", "expected"),
    [
        ("", "", 8192, [0]),
        ("", "", 8191, [1]),
        ("local_store %x", "local_store %w", 8192, [1]),  # the outer loop computes it
        ("gpu.barrier", "gpu.barrier\n  gpu.local_store %y, %b, 0", 8192, [1, 2]),
        ("[1, 64, 64]", "[2, 64, 64]", 1 << 20, [1]),
    ],
)
def test_which_operands_are_stored_earlier(
    old: str, new: str, most: int, expected: list[int]
) -> None:
    """Those that fit, that the outer loop does not change, and whose buffers nothing else fills."""
    text = NESTED.replace(old, new) if old else NESTED
    text = text.replace("  %b = ", "  %w = fadd f16<64, 64> %x, 1.0\n  %b = ")
    assert sorted(depths(store_once(parse(text).functions["k"], most))) == expected


def test_an_operand_is_stored_before_the_outermost_loop_around_another_one() -> None:
    """It is stored before a loop that has one predecessor, and no earlier than it is computed."""
    function = store_once(parse(NESTED).functions["k"], 1 << 16)
    (store,) = (op for op in function.ops if isinstance(op, LocalStore))
    assert store in function.blocks["entry"].ops
    assert not any(isinstance(op, AsyncFence) for op in function.ops)  # no wgmma reads it


def depths(function: Any) -> list[int]:
    """The number of loops around each store of an operand that a loop does not change."""
    return [
        loops(function).depth(label)
        for label, block in function.blocks.items()
        for op in block.ops
        if isinstance(op, LocalStore)
    ]


def test_operands_are_stored_before_the_outer_loop() -> None:
    assert depths(compile_pipelined(gradients())) == [0, 0]


def test_what_warpgroups_read_is_fenced() -> None:
    entry = next(iter(compile_pipelined(gradients()).blocks.values())).ops
    stores = [i for i, op in enumerate(entry) if isinstance(op, LocalStore)]
    assert isinstance(entry[stores[-1] + 1], AsyncFence)


def test_what_the_outer_loop_changes_is_stored_in_it() -> None:
    assert sorted(depths(compile_pipelined(gradients(scaled=True)))) == [0, 1]


@pytest.mark.parametrize("blocks", [0, 1, 3])
@pytest.mark.parametrize("heads", [0, 1, 3])
@pytest.mark.parametrize(("scaled", "width"), [(False, SIZE), (True, SIZE), (False, 2 * SIZE)])
def test_threads_agree(heads: int, blocks: int, scaled: bool, width: int) -> None:
    """Dots of the widest vectors are in flight together."""
    random = np.random.default_rng(heads + 4 * blocks)
    tiles = [
        random.integers(-1, 2, (max(1, n), SIZE, width)).astype(np.float16)
        for n in (1, 1, heads * blocks, heads * blocks)
    ]
    sums = [np.full((SIZE, width), 7, np.float32) for _ in range(2)]
    arguments = [*tiles, *sums, heads, blocks]
    options = {"num_warps": 4, "target": "sm_90a", "warp_specialize": False}
    assert_equal_results(gradients(scaled, width), arguments, **options)
