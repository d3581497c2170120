"""Barriers of roles that others make needless are left out, and no others."""

from __future__ import annotations

import pytest

from tests.backend.warp_specialize.gradients import case, gradients
from tests.backend.warp_specialize.test_gradients import fused_gradients, machine, near
from tileir.backend import compile as compile_kernel
from tileir.backend.warp_specialize import redundant_barriers
from tileir.backend.warp_specialize.redundant_barriers import eliminate_redundant_barriers
from tileir.builder import BF16
from tileir.ir import Function
from tileir.testing.kernels_backward import attention_keys
from tileir.textual import parse

HEAD = """tir 1.0
stage "warp_specialized"

define private void @math(f16 addrspace(3)* %h, f16 addrspace(3)* %k, f32 addrspace(3)* %r, f16<64, 64> %w, f32<64, 64> %s, tensor_desc<f32<64, 64>> %d, i1 %more) {
"""  # noqa: E501 - a header is one line
BARRIER, FENCE = "gpu.barrier", "gpu.async_fence"
WRITE, OTHER = "gpu.local_store %w, %h, 0", "gpu.local_store %s, %r, 0"
WAITED = "gpu.tma_wait"
COPY = "gpu.tma_store %d, %r, 0, 0, 0"


def product(number: int, pending: int = 0) -> list[str]:
    """What begins a matmul that reads %h, and waits for it."""
    return [
        f"%a{number} = gpu.wgmma f32<64, 64> %h, 0, %k, 0, 0.0",
        f"%b{number} = gpu.wgmma_wait f32<64, 64> %a{number}"
        + (f" {{pending = {pending}}}" if pending else ""),
    ]


def role_loop(*body: str) -> Function:
    """A role that does this in every iteration."""
    lines = "".join(f"  {line}\n" for line in body)
    text = f"{HEAD}entry:\n  br loop\nloop:\n{lines}  cond_br %more, loop, done\ndone:\n  ret\n}}\n"
    return parse(text).functions["math"]


def remaining_barriers(*body: str) -> list[int]:
    """The places, among those of barriers, of the ones that stay."""
    before = role_loop(*body)
    barriers = [op for op in before.ops if op.mnemonic == BARRIER]
    after = set(eliminate_redundant_barriers(before).ops)
    return [number for number, op in enumerate(barriers) if op in after]


WRITTEN = [BARRIER, WRITE, FENCE, BARRIER]
ADDED = [WAITED, BARRIER, OTHER, FENCE, BARRIER, COPY]


def test_one_buffer_needs_both() -> None:
    assert remaining_barriers(*WRITTEN, *product(0)) == [0, 1]
    assert remaining_barriers(*ADDED) == [0, 1]


def test_barriers_of_another_buffer_serve() -> None:
    assert remaining_barriers(*WRITTEN, *product(0), *ADDED) == [1, 2, 3]
    assert remaining_barriers(*WRITTEN, *product(0), BARRIER, BARRIER) in ([0, 1], [1, 2], [1, 3])


def test_a_dot_in_flight_needs_no_barrier() -> None:
    """Its wait comes after the other buffer's barriers, or leaves it under way."""
    begun, waited = product(0)
    assert remaining_barriers(*WRITTEN, begun, *ADDED, waited) == [0, 1, 2, 3]
    later = [begun, "%z = gpu.wgmma f32<64, 64> %k, 0, %k, 0, 0.0"]
    last = "%y = gpu.wgmma_wait f32<64, 64> %z"
    assert remaining_barriers(*WRITTEN, *later, product(0, 2)[1], *ADDED, last) == [0, 1, 2, 3]
    assert remaining_barriers(*WRITTEN, *later, product(0, 1)[1], *ADDED, last) == [1, 2, 3]


def test_many_dots_in_flight() -> None:
    many = [f"%m{i} = gpu.wgmma f32<64, 64> %k, 0, %k, 0, 0.0" for i in range(20)]
    begun, waited = product(0)
    assert remaining_barriers(*WRITTEN, begun, *many, waited, *ADDED) == [1, 2, 3]
    assert remaining_barriers(*WRITTEN, begun, *many, waited + " {pending = 7}", *ADDED) == [
        1,
        2,
        3,
    ]
    assert remaining_barriers(*WRITTEN, begun, *many[:3], waited + " {pending = 7}", *ADDED) == [
        0,
        1,
        2,
        3,
    ]
    for count in (6, 7, 8, 20):
        assert remaining_barriers(*WRITTEN, begun, *many[:count], *ADDED, waited) == [0, 1, 2, 3]


def test_barriers_of_fewer_are_redundant() -> None:
    near_ones = [line.replace(BARRIER, "gpu.barrier {warpgroup = true}") for line in ADDED]
    assert remaining_barriers(*WRITTEN, *product(0), *near_ones) == [0, 1, 2, 3]


def test_what_threads_read_counts() -> None:
    read = "%x = gpu.local_load f16<64, 64> %h, 0"
    assert remaining_barriers(BARRIER, WRITE, BARRIER, read) == [0, 1]
    assert remaining_barriers(BARRIER, WRITE, BARRIER, read, *ADDED) == [1, 2, 3]


def test_roles_without_buffers_stay() -> None:
    for body in ([BARRIER], [BARRIER, *product(0)]):
        function = role_loop(*body)
        assert eliminate_redundant_barriers(function) is function


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("d", "bm", "count"), ((128, 64, 3), (64, 128, 4)))
def test_iterations_of_the_gradient(d: int, bm: int, count: int) -> None:
    """Where each warpgroup adds rows of its own they synchronize among themselves, and once
    more."""
    kernel = compile_kernel(attention_keys(bm, 128, d, BF16, fused=True), "sm_90a")
    math = kernel.stages["barriers"].functions["attention_keys.consumer"]
    counts = [
        sum(op.mnemonic == BARRIER for op in block.ops)
        for block in math.blocks.values()
        if sum(op.mnemonic == "gpu.wgmma" for op in block.ops) == 5
    ]
    assert counts == [count, count]


@pytest.mark.slow
def test_needed_ones_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SIMT simulator detects the removal of a barrier that is needed."""
    monkeypatch.setattr(redundant_barriers._BarrierState, "hazard", lambda *_: False)
    inputs = case(140, 128, heads=1)
    with pytest.raises(Exception, match="race"):
        fused_gradients(machine("sm_90a", 0), inputs, gradients(inputs), 64, 128)
    monkeypatch.undo()
    near(
        fused_gradients(machine("sm_90a", 0), inputs, gradients(inputs), 64, 128),
        inputs,
        gradients(inputs),
    )
