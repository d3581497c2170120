"""Shared bytes of kernels of the examples, and that what compiles them are the passes by name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileir import Module
from tileir.backend.compile import LoweredKernel, Options, run_pipeline
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.simt import machine as simt
from tileir.backend.target import target
from tileir.passmanager import run
from tileir.textual import parse, print_module

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MACHINE = target("sm_90")
TEXTS = ("softmax", "layer_norm", "matmul")


def attention(rows: int, columns: int, width: int) -> Module:
    """Flash attention of the examples."""
    path = EXAMPLES / "flash_attention.py"
    spec = importlib.util.spec_from_file_location("flash_attention", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.flash_attention(rows, columns, width)


def text(name: str) -> Module:
    return parse((EXAMPLES / f"{name}.tir").read_text(), f"{name}.tir")


def lower(module: Module, warps: int) -> LoweredKernel:
    return run_pipeline(module, MACHINE, Options(num_warps=warps), None)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("name", [*TEXTS, "attention"])
def test_the_passes_on_text_make_what_is_compiled(name: str, warps: int) -> None:
    done = lower(attention(16, 8, 24) if name == "attention" else text(name), warps)
    before, after = (print_module(done.stages[stage]) for stage in ("layouts", "barriers"))
    transformed = run(parse(before), "allocate-shared,insert-barriers").module
    assert transformed.functions[done.kernel].attributes.get("shared", 0) == done.memory.size
    assert print_module(transformed.evolve(stage="barriers")) == after


@pytest.mark.parametrize(("name", "warps", "most"), [
    ("softmax", 4, 32), ("softmax", 8, 64), ("layer_norm", 4, 32), ("layer_norm", 8, 64),
])  # fmt: skip
def test_examples_take_no_more_than(name: str, warps: int, most: int) -> None:
    assert lower(text(name), warps).memory.size <= most


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_a_matmul_takes_no_more_than_its_buffers(warps: int) -> None:
    done = lower(text("matmul"), warps)
    function = done.stages["barriers"].functions[done.kernel]
    allocations = [op.shared for op in function.ops if op.shared]
    buffers = [op.shared for op in function.ops if op.mnemonic == "gpu.shared_alloc" if op.shared]
    assert len(buffers) == 2
    assert done.memory.size == max(sum(r[1] for r in buffers), *(r[1] for r in allocations))


@pytest.mark.parametrize(("rows", "width", "warps"), [(64, 64, 4), (128, 64, 4), (128, 64, 8)])
def test_attention_takes_no_more_than_its_buffers(rows: int, width: int, warps: int) -> None:
    done = lower(attention(rows, 64, width), warps)
    function = done.stages["barriers"].functions[done.kernel]
    buffers = [op.shared for op in function.ops if op.mnemonic == "gpu.shared_alloc"]
    assert len(buffers) == 2
    assert done.memory.size == sum(allocation[1] for allocation in buffers if allocation)
    allocations = [op for op in function.ops if op.shared and op.mnemonic == "gpu.convert_layout"]
    assert len(allocations) == 2, "the operand before the loop and the accumulator after it pass"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [4, 8])
def test_attention_on_the_machine_of_threads(warps: int) -> None:
    done = lower(attention(64, 32, 32), warps)
    chance = np.random.default_rng(warps)
    shape = (1, 70, 32)
    q, k, v = (chance.standard_normal(shape).astype(np.float16) for _ in range(3))
    out = np.full(shape, np.nan, np.float16)
    arguments = [q, k, v, out, 70, np.float32(0.2)]
    plan = SharedMemoryPlan.of(done.stages["barriers"].functions[done.kernel])
    simt.run(done.stages["barriers"], done.kernel, (2, 1), arguments, MACHINE, plan, warps)
    weights = np.exp(np.einsum("hid,hjd->hij", q.astype(float), k.astype(float)) * 0.2)
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("hij,hjd->hid", weights, v.astype(float))
    assert np.abs(out - expected).max() < 2e-3
