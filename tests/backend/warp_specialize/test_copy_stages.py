"""The producer's threads copy stages that no tensor map describes asynchronously."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.backend.warp_specialize.test_unmapped import check, problem
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.ops.gpu import AsyncWait
from tileir.passmanager import run
from tileir.testing.kernels import matmul
from tileir.textual import parse, print_module

TEXT = """tir 1.0
stage "layouts"
#l0 = layout(rank = 2, register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]], warp = [[2, 0], [4, 0]])

define private void @producer(f32*<16, 32, #l0> %p, i1<16, 32, #l0> %m, f32 addrspace(3)* %b, f32*<16, 32, #l0> %q, i32 %i) {num_warps = 4} {
entry:
  %x = load f32<16, 32, #l0> %p, %m, 0.0
  %y = load f32<16, 32, #l0> %q
  gpu.local_store %y, %b, %i
  gpu.local_store %x, %b, %i {offsets = [16, 0]}
  gpu.async_commit
  ret
}
"""  # noqa: E501


def run_pass(text: str) -> str:
    return print_module(run(parse(text), "copy-stages").module)


def test_loads_that_are_only_stored_become_copies() -> None:
    text = run_pass(TEXT)
    assert "gpu.async_copy %q, %b, %i\n" in text
    assert "gpu.async_copy %p, %b, %i, %m {offsets = [16, 0]}\n" in text
    assert "load" not in text and "local_store" not in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%p, %m, 0.0", "%p, %m, 1.0"),  # a copy fills with zeros
        ("%p, %m, 0.0", "%p, %m, 0.0 {volatile = true}"),
        ("{offsets = [16, 0]}", "{columns = [0, 16], offsets = [16, 0]}"),
        ("  gpu.local_store %y, %b, %i\n", "  gpu.barrier\n  gpu.local_store %y, %b, %i\n"),
        ("  gpu.async_commit\n", "  store %q, %x\n  gpu.async_commit\n"),  # %x has another use
        ("  gpu.async_commit\n", ""),  # nothing waits for a copy
        ("  %y = load", "  store %p, 0.0\n  %y = load"),
    ],
)
def test_loads_that_stay(old: str, new: str) -> None:
    assert old in TEXT
    assert "load f32<16, 32, #l0> %p" in run_pass(TEXT.replace(old, new))


def test_elements_of_less_than_four_bytes_stay_unless_several_are_aligned() -> None:
    text = TEXT.replace("f32", "f16")
    assert run_pass(text) == print_module(parse(text))


def waits(units: tuple[int, ...], stages: int) -> list[int]:
    """The numbers of pending groups of the producer's waits."""
    options = {"num_stages": stages, "non_tma_alignments": units, "persistent": False}
    compiled = compile_kernel(matmul(64, 64, 16, transposed=True), "sm_90a", options)
    producer = compiled.stages["barriers"].functions["matmul.producer"]
    assert all(op.mnemonic != "gpu.local_store" for op in producer.ops) or 2 in units
    return [op.pending for op in producer.ops if isinstance(op, AsyncWait)]


@pytest.mark.parametrize(
    ("units", "stages", "pending"),
    [
        ((4, 4, 0), 4, [1, 0]),  # one stage is in flight while the next one is copied
        ((0, 8, 0), 3, [1, 0]),
        ((4, 4, 0), 2, [0]),  # the consumer may hold the other stage
        ((2, 2, 0), 4, []),  # through registers
        ((2, 4, 0), 4, [1, 0]),
    ],
)
def test_a_stage_is_in_flight_while_the_next_one_is_copied(
    units: tuple[int, ...], stages: int, pending: list[int]
) -> None:
    assert waits(units, stages) == pending


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [14, 38, 106])
@pytest.mark.parametrize(
    "options",
    [{}, {"persistent": False}, {"pingpong": True}],
    ids=lambda options: ", ".join(options) or "persistent",
)
def test_results_in_any_order(options: dict[str, Any], k: int, seed: int) -> None:
    """On threads, with the fewest stages of a ring with a trailing one."""
    arguments = problem(136, 150, k, True)
    SimtExecutor().launch(
        matmul(64, 64, 16, transposed=True), "matmul", (9, 1, 1), arguments, target="sm_90a",
        seed=seed, num_stages=3, **options,
    )  # fmt: skip
    check(arguments, True)


def test_the_rows_of_a_thread_take_one_address() -> None:
    """Distances of rows are multiples of a stride, and are not multiplied one by one."""
    options = {"non_tma_alignments": (4, 4, 0), "persistent": False}
    ptx = compile_kernel(matmul(128, 128, 64, transposed=True), "sm_90a", options).ptx
    assert len(re.findall(r"\bcp\.async\.ca", ptx)) == 64
    assert len(re.findall(r"\bmul\.lo\.s64", ptx)) <= 16


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transposed", [False, True])
def test_results_where_a_thread_copies_many_rows(transposed: bool) -> None:
    arguments = problem(130, 142, 70, transposed)
    SimtExecutor().launch(
        matmul(128, 128, 64, transposed=transposed), "matmul", (4, 1, 1), arguments,
        target="sm_90a", seed=1, persistent=False,
    )  # fmt: skip
    check(arguments, transposed)
