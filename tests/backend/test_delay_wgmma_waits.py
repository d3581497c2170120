"""Dots of an iteration whose results are sums are in flight together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.test_store_once import gradients
from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.backend.software_pipeline.delay_wgmma_waits import delay_wgmma_waits
from tileir.backend.target import target
from tileir.builder import BF16, F32, I32, Builder, arg, pointer
from tileir.ir import Function
from tileir.ops.hopper import Wgmma, WgmmaWait
from tileir.textual import parse

TEXT = """tir 1.0
stage "pipelined"

define private void @k(f16 addrspace(3)* %x, f16 addrspace(3)* %y, f32<64, 16> %c, f32<64, 16> %d, f32<64, 16> %e, f32*<64, 16> %p, f32*<64, 16> %q) {
entry:
  %a = gpu.wgmma f32<64, 16> %x, 0, %y, 0, %c
  %r = gpu.wgmma_wait f32<64, 16> %a
  %f = fadd f32<64, 16> %e, 1.0
  %b = gpu.wgmma f32<64, 16> %x, 1, %y, 0, %d
  %s = gpu.wgmma_wait f32<64, 16> %b
  %g = fadd f32<64, 16> %f, 1.0
  %h = gpu.wgmma f32<64, 16> %x, 0, %y, 1, %s
  %t = gpu.wgmma_wait f32<64, 16> %h
  %u = fadd f32<64, 16> %t, %g
  store %p, %r
  store %q, %u
  ret
}
"""  # noqa: E501 - a function's header is one line


def order(text: str) -> str:
    """The results of matmuls and of waits, with the number of matmuls that these leave in flight,
    and the results of other ops, in their order."""
    return order_of(delay_wgmma_waits(parse(text).functions["k"]))


def order_of(function: Function) -> str:
    results = [
        f"{op.results[0].name}{op.pending if isinstance(op, WgmmaWait) else ''}"
        for op in function.ops
        if op.results
    ]
    return " ".join(results)


def test_sums_are_in_flight_together() -> None:
    """The third matmul adds to the second, and the first result is read last."""
    assert order(TEXT) == "a f b g s1 h t0 r2 u"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("0, %y, 0, %c", "0, %y, 0, 0.0", "a f b g s1 h t0 r2 u"),
        ("1, %y, 0, %d", "1, %y, 0, 0.0", "a r0 f b g s1 h t0 u"),  # two more accumulators
        ("0, %y, 1, %s", "0, %y, 1, %r", "a f b g r1 h t0 s1 u"),
        ("fadd f32<64, 16> %f, 1.0", "fadd f32<64, 16> %f, %s", "a f b s0 r1 g h t0 u"),  # a reader
        ("fadd f32<64, 16> %f, 1.0", "fadd f32<64, 16> %f, %r", "a f b r1 g s1 h t0 u"),
        ("%f = fadd", "gpu.barrier\n  %f = fadd", "a r0 f b g s1 h t0 u"),  # of buffers
        ("%f = fadd", "gpu.async_fence\n  %f = fadd", "a r0 f b g s1 h t0 u"),
        ("store %q, %u", "store %q, %u\n  store %q, %s", "a f b s0 g r1 h t0 u"),
    ],
)
def test_what_is_waited_for(old: str, new: str, expected: str) -> None:
    assert old in TEXT
    assert order(TEXT.replace(old, new)) == expected


def test_a_branch_waits() -> None:
    """The block after it reads results of this one."""
    text = TEXT.replace("  store %p, %r", "  br next\nnext:\n  store %p, %r").replace(
        "%u = fadd f32<64, 16> %t, %g", "%u = fadd f32<64, 16> %f, %g"
    )
    assert order(text.replace("store %q, %u", "store %q, %t")) == "a f b g s1 h t0 u r2"


def test_one_dot_and_waits_that_leave_others_in_flight_stay() -> None:
    text = TEXT[: TEXT.index("  %b =")] + "  store %p, %r\n  ret\n}\n"
    assert order(text) == "a r0 f"
    assert order(TEXT.replace("16> %a\n", "16> %a {pending = 1}\n")) == "a r1 f b g s1 h t0 u"


GRADIENTS = """tir 1.0
stage "pipelined"

define private void @k(f16 addrspace(3)* %x, f16 addrspace(3)* %y, f32<64, 16> %v, f32<64, 16> %k, f32*<64, 16> %p, f32*<64, 16> %q) {
entry:
  %other = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 512, 192]}
  %a = gpu.wgmma f32<64, 16> %x, 0, %y, 0, 0.0
  %s = gpu.wgmma_wait f32<64, 16> %a
  %e = exp2 f32<64, 16> %s
  %h = fptrunc f16<64, 16> %e
  %b = gpu.wgmma f32<64, 16> %h, 0, %x, 0, %v
  %dv = gpu.wgmma_wait f32<64, 16> %b
  %z = gpu.local_load f16<64, 16> %other, 0
  %c = gpu.wgmma f32<64, 16> %x, 1, %y, 0, 0.0
  %dp = gpu.wgmma_wait f32<64, 16> %c
  %m = fmul f32<64, 16> %e, %dp
  %n = fptrunc f16<64, 16> %m
  %d = gpu.wgmma f32<64, 16> %n, 0, %x, 0, %k
  %dk = gpu.wgmma_wait f32<64, 16> %d
  store %p, %dv
  store %q, %dk
  ret
}
"""  # noqa: E501 - a function's header is one line
TOGETHER = "other a c s1 e h b z dp1 m n d dv1 dk0"
ALONE = "other a s0 e h b dv0 z c dp0 m n d dk0"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", TOGETHER),
        ("[1, 512, 192]", "[1, 512, 16]", ALONE),  # fewer blocks would be resident
        (
            "%z = ",
            "%dot = dot f32<64, 16> %h, %t, 0.0\n  %z = ",
            "other a s0 e h b dv0 dot z c dp0 m n d dk0",
        ),  # its fragments
        ("  %z = ", "  gpu.barrier\n  %z = ", "other a s0 e h b dv0 z c dp0 m n d dk0"),
        ("%x, 1, %y, 0, 0.0", "%h, 0, %y, 0, 0.0", "other a s0 e h b z c dv1 dp0 m n d dk0"),
        ("%x, 1, %y, 0, 0.0", "%x, 1, %y, 0, %k", "other a s0 e h b z c dv1 dp0 m n d dk0"),
    ],
)
def test_matmuls_are_in_flight_where_registers_suffice(old: str, new: str, expected: str) -> None:
    """The gradients are multiplied while threads compute weights, and what these add to is in
    flight with both."""
    text = GRADIENTS.replace(old, new) if old else GRADIENTS
    function = parse(text.replace("f32<64, 16> %k,", "f32<64, 16> %k, f16<16, 16> %t,", 1))
    assert order_of(delay_wgmma_waits(function.functions["k"], target("sm_90a"), 4)) == expected


SIZE = 64


def split_matmul() -> Any:
    """A times B, of f32: a sum of the upper halves of both, and one of an upper and a lower half,
    which two dots add to. With four stages, as many blocks are resident where the
    operands B of all dots are stored under one barrier."""
    b = Builder()
    pointers = {name: arg(pointer(F32), aligned=16) for name in "abc"}
    with b.kernel("k", **pointers, n=arg(I32)) as (x, y, z, n):
        rows, steps = b.arange(SIZE), b.arange(SIZE)
        upper, lower = (b.var(b.full((SIZE, SIZE), 0.0, F32)) for _ in range(2))
        with b.for_(0, n, stages=4) as i:
            along = steps + i * SIZE
            left = (x + (rows[:, None] * (n * SIZE) + along[None, :])).load()
            right = (y + (along[:, None] * SIZE + rows[None, :])).load()
            high = [v.to(BF16) for v in (left, right)]
            low = [(v - h.to(F32)).to(BF16) for v, h in zip((left, right), high, strict=True)]
            upper.set(b.dot(high[0], high[1], upper.get()))
            mixed = b.dot(high[0], low[1], lower.get())
            lower.set(b.dot(low[0], high[1], mixed))
        (z + (rows[:, None] * SIZE + rows[None, :])).store(upper.get() + lower.get())
    return b.module()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_agree(n: int) -> None:
    random = np.random.default_rng(n)
    a, b = (
        random.integers(-400, 400, shape).astype(np.float32)
        for shape in ((SIZE, SIZE * n), (SIZE * n, SIZE))
    )
    c = np.full((SIZE, SIZE), 77, np.float32)
    assert_equal_results(split_matmul(), [a, b, c, n], num_warps=4, target="sm_90a")


def test_halves_are_multiplied_together() -> None:
    options = {"num_warps": 4, "warp_specialize": False}
    function = compile_kernel(split_matmul(), "sm_90a", options).tir_at("barriers").functions["k"]
    pending = [op.pending for op in function.ops if isinstance(op, WgmmaWait)]
    assert pending == [1, 2, 0]
    assert sum(isinstance(op, Wgmma) for op in function.ops) == 3


@pytest.mark.parametrize(("width", "expected"), [(64, [0, 0, 0, 0]), (128, [1, 1, 1, 0])])
def test_gradients_of_wide_vectors_are_multiplied_together(width: int, expected: list[int]) -> None:
    """Of those of narrow vectors three blocks are resident, of which two would be left."""
    options = {"num_warps": 4, "warp_specialize": False}
    compiled = compile_kernel(gradients(width=width), "sm_90a", options)
    function = compiled.tir_at("barriers").functions["k"]
    assert [op.pending for op in function.ops if isinstance(op, WgmmaWait)] == expected
