"""Kernels of Pallas: with JAX, the example; without it, the text that JAX makes of a kernel."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.executor import executor
from tileir.frontends.ttir import read

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pallas_kernels.py"

TEXT = """\
module @k {
  tt.func public @k(%arg0: !tt.ptr<f32> {tt.divisibility = 32 : i32}, %arg1: !tt.ptr<f32> {tt.divisibility = 32 : i32}) {
    %0 = tt.get_program_id x : i32
    %c128_i32 = arith.constant 128 : i32
    %1 = arith.muli %0, %c128_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %4 = tt.splat %c0_i32 : i32 -> tensor<128xi32>
    %5 = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %6 = tt.splat %1 : i32 -> tensor<128xi32>
    %7 = arith.addi %5, %6 : tensor<128xi32>
    %c1_i32 = arith.constant 1 : i32
    %8 = tt.splat %c1_i32 : i32 -> tensor<128xi32>
    %9 = arith.muli %7, %8 : tensor<128xi32>
    %10 = arith.addi %4, %9 : tensor<128xi32>
    %11 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %12 = tt.addptr %11, %10 : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %13 = tt.load %12 : tensor<128x!tt.ptr<f32>>
    %14 = tt.extern_elementwise %13 {libname = "", libpath = "", pure = true, symbol = "__nv_expf"} : (tensor<128xf32>) -> tensor<128xf32>
    %33 = tt.splat %arg1 : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %34 = tt.addptr %33, %10 : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %35 = tt.load %34 : tensor<128x!tt.ptr<f32>>
    tt.store %34, %14 : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""  # noqa: E501
"""y = exp(x) as JAX 0.10.2 prints it: the output is loaded, and the load is not used."""


@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_the_text_of_a_pallas_kernel_is_read(on):
    x = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    y = np.zeros_like(x)
    executor(on).launch(read(TEXT, num_warps=4), "k", 4, [x, y])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)


def test_an_unused_load_of_the_output_is_not_compiled():
    ptx = compile_kernel(read(TEXT, num_warps=4), "sm_90a").ptx
    assert ptx.count("ld.global") == 1 and ptx.count("st.global") == 1


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_the_example_runs():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("softmax_kernel: right")
