"""Blocks larger than the registers: nothing in the language says what pointers reach, and kernels
compile in a bounded number of steps nevertheless."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.counting import calls_of
from tileir.backend import Options
from tileir.backend.compile import compile as compile_kernel
from tileir.executor import executor


@triton.jit
def softmax(y, x, columns, stride, BLOCK: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + place, mask=place < columns, other=-float("inf"))
    weight = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * stride + place, weight / tl.sum(weight, axis=0), mask=place < columns)


@triton.jit
def prefixes(y, x, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(y + place, tl.cumsum(tl.load(x + place), axis=0))


def module(kernel: Any) -> Any:
    types = {"y": "*fp32:16", "x": "*fp32:16", "columns": "i32", "stride": "i32:16"}
    expected = {n: t for n, t in types.items() if n in kernel.arg_names}
    return kernel.module(expected, {"BLOCK": 65536})


@pytest.mark.slow
@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize("kernel", [softmax, prefixes], ids=["softmax", "prefixes"])
def test_a_row_of_65536_compiles_in_few_steps(kernel: Any, warps: int) -> None:
    program, options = module(kernel), Options(num_warps=warps)
    compiled = compile_kernel(program, "sm_90a", options)
    assert calls_of(lambda: compile_kernel(program, "sm_90a", options)) < 700_000
    assert compiled.llvm.count("\n") < 9000
    assert compiled.ptx.count("\n") < 4000
    assert not any(r.code == "TIR0752" for r in compiled.remarks)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["simt", "cpu"])
def test_its_softmax_is_right(on: str) -> None:
    x = np.random.default_rng(1).normal(size=(2, 65536)).astype(np.float32)
    y = np.zeros_like(x)
    columns = 60000
    options = {"num_warps": 16} if on == "simt" else {}
    executor(on).launch(module(softmax), None, (2,), [y, x, columns, 65536], **options)
    weight = np.exp(x[:, :columns] - x[:, :columns].max(axis=1, keepdims=True))
    expected = weight / weight.sum(axis=1, keepdims=True, dtype=np.float64)
    np.testing.assert_allclose(y[:, :columns], expected, rtol=1e-5)
    assert not y[:, columns:].any()
