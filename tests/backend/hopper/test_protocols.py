"""Protocols of roles: right in any order, and nothing can be left out of them unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.errors import CompileError
from tileir.machine import dtype_of
from tileir.textual import parse
from tileir.types import BF16

from .programs import corpus

RING = corpus("ring")


def multiply(text: str, seed: int, shape: tuple[int, int, int] = (128, 64, 320)) -> None:
    """Run the ring on the SIMT simulator."""
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    c = np.zeros((m, n), np.float16)
    stored: list[Any] = [x.astype(np.float16).ravel() for x in (a, b)]
    grid = -(-m // 128), -(-n // 64)
    arguments = [*stored, c.reshape(-1), m, n, k]
    SimtExecutor().launch(parse(text), None, grid, arguments, target="sm_90a", seed=seed)
    assert np.array_equal(c, a @ b), "another dot"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(12))
def test_a_ring_in_any_order(seed: int) -> None:
    multiply(RING, seed)


def test_blocks_that_leave_the_tensor() -> None:
    multiply(RING, 1, (200, 104, 200))


def test_code_of_a_ring() -> None:
    kernel = compile_kernel(parse(RING), "sm_90a")
    machine_code = kernel.machine_code
    assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())
    assert machine_code.registers == 168
    assert "setmaxnreg.dec.sync.aligned.u32 40;" in kernel.ptx
    assert "setmaxnreg.inc.sync.aligned.u32 232;" in kernel.ptx
    assert kernel.ptx.count(".param .align 64 .b8") == 3
    watched = compile_kernel(parse(RING), "sm_90a", {"wait_timeout": True})
    assert "globaltimer" in watched.ptx and "globaltimer" not in kernel.ptx
    assert watched.machine_code.warnings == ()


def test_registers_that_there_are_not() -> None:
    with pytest.raises(CompileError, match="roles take 66560 registers, and there are 64512"):
        compile_kernel(parse(RING.replace("registers = 232", "registers = 240")), "sm_90a")


BUGS: dict[str, tuple[str, str, str]] = {
    "stages are filled before they were read": (
        "gpu.mbarrier_wait %empty, %slot, %before", "", "race|deadlock|arrive"),
    "stages are read before they were filled": (
        "gpu.mbarrier_wait %full, %slot, %parity", "", "race|no thread wrote"),
    "no thread expects the bytes": (
        "gpu.mbarrier_expect %full, %slot {bytes = 24576}", "", "deadlock"),
    "too few bytes are expected": ("{bytes = 24576}", "{bytes = 16384}", "deadlock|race|arrive"),
    "too many bytes are expected": ("{bytes = 24576}", "{bytes = 24592}", "deadlock"),
    "an operand is not loaded": (
        "gpu.tma_load %as, %a, %slot, %full, %slot, %row, %i", "", "deadlock"),
    "stages are not released": (
        "gpu.mbarrier_arrive %empty, %last, %begun", "", "deadlock"),
    "stages are released too soon": ("%empty, %last, %begun", "%empty, %slot", "race"),
    "a stage is released that a dot still reads": (
        "gpu.wgmma_wait f32<128, 64> %newer {pending = 1}",
        "gpu.wgmma_wait f32<128, 64> %newer {pending = 2}", "race"),
    "accumulators are read before the wait": (
        "%all = gpu.wgmma_wait f32<128, 64> %older", "%all = gpu.wgmma_wait f32<128, 64> %older "
        "{pending = 1}", "race"),
    "too few arrivals": ("arrivals = 8", "arrivals = 7", "arrive"),
    "too many arrivals": ("arrivals = 8", "arrivals = 9", "deadlock"),
    "the parity never changes": ("%turned = xor i32 %parity, 1", "%turned = xor i32 %parity, 0",
                               "race|deadlock|no thread wrote"),
    "what threads wrote is not fenced": ("gpu.async_fence", "", "async_fence"),
    "warps have not synchronized": ("  gpu.barrier\n", "", "race"),
    "a role ends while its buffer is read": ("gpu.tma_wait", "", "ends while copies read"),
    "no thread waits for the roles": ("gpu.join", "", "gpu.join"),
    "the layout of the buffer is not that of the map": (
        "shape = [3, 128, 64], swizzle = 3", "shape = [3, 128, 64], swizzle = 2", "panels"),
    "rows of the wrong tensor": ("%slot, %full, %slot, %row, %i", "%slot, %full, %slot, %i, %row",
                                 "another dot"),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", BUGS)
def test_nothing_can_be_left_out(name: str) -> None:
    line, instead, message = BUGS[name]
    assert RING.count(line) == 1, RING.count(line)
    count = 0
    for seed in range(3):
        with pytest.raises((AssertionError, CompileError), match=message):
            multiply(RING.replace(line, instead), seed)
        count += 1
    assert count == 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "shape", "kind"),
    [("product", (128, 64, 96), np.float16), ("registers", (64, 32, 128), "bfloat16")],
)
def test_programs_of_the_corpus(name: str, shape: tuple[int, int, int], kind: Any) -> None:
    m, n, k = shape
    dtype = dtype_of(BF16) if kind == "bfloat16" else np.dtype(kind)
    random = np.random.default_rng(m)
    a, b = random.integers(-3, 4, (m, k)), random.integers(-3, 4, (k, n))
    out = np.zeros((m, n), np.float32)
    arguments = [*(x.astype(np.float32).astype(dtype) for x in (a, b)), out, k]
    for seed in range(4):
        out[:] = np.nan
        SimtExecutor().launch(parse(corpus(name)), None, 1, arguments, target="sm_90a", seed=seed)
        assert np.array_equal(out, a @ b)


def test_code_without_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvJitLink leaves registers where they are, and says so; the program is right all the same."""
    monkeypatch.setattr("tileir.backend.assembler.ptxas", lambda: None)
    machine_code = compile_kernel(parse(RING), "sm_90a").machine_code
    assert machine_code.cubin and machine_code.spills == 0
    assert all("setmaxnreg" in line for line in machine_code.warnings) and machine_code.warnings
